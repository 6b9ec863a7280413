"""One Ray cluster and one MLflow store for the whole session: each takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from workloads.store import write_workload
from workloads.synthetic.synth import synth

if TYPE_CHECKING:
    from mlflow import MlflowClient

CLUSTER = """
name: two-by-four
servers:
  - {name: gpu, count: 2, gpus: 4}
"""

POLICIES = '''
"""Policies of a user's own."""

import os
import signal
import time
from pathlib import Path

from ray_sim.policies.fifo import Fifo


class Lottery(Fifo):
    """Says that it draws, though it does not."""

    name = "lottery"
    uses_seed = True


class Broken(Fifo):
    """Fails as soon as it runs."""

    name = "broken"

    def order(self, world):
        raise ZeroDivisionError("no luck")


class Deadly(Fifo):
    """Kills its process, as the kernel does when memory runs out."""

    name = "deadly"

    def order(self, world):
        os.kill(os.getpid(), signal.SIGKILL)


class DeadlyOnce(Fifo):
    """Kills its process the first time."""

    name = "deadly_once"

    def order(self, world):
        marker = Path(__file__).with_name("died")
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().order(world)


class DeadlyMidway(Lottery):
    """Notes each run, and kills its process in the 25th."""

    name = "deadly_midway"

    def start(self, world, streams):
        diary = Path(__file__).with_name("diary")
        with diary.open("a") as file:
            file.write("a run\\n")
            mine = file.tell()  # where this line ends, whoever writes at the same time
        if mine == 25 * len("a run\\n"):
            os.kill(os.getpid(), signal.SIGKILL)
        super().start(world, streams)


class Leaving(Fifo):
    """Ends its process by an exception that is none."""

    name = "leaving"

    def order(self, world):
        raise SystemExit(3)


class Hanging(Fifo):
    """Never decides."""

    name = "hanging"

    def order(self, world):
        while True:
            time.sleep(0.01)


class Waiting(Fifo):
    """Says that it runs, and waits for a word to go on."""

    name = "waiting"

    def order(self, world):
        Path(__file__).with_name("waiting").touch()
        while not Path(__file__).with_name("go").exists():
            time.sleep(0.01)
        return super().order(world)
'''


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with week.parquet (40 jobs of four days), small.yaml (2 servers of 4 GPUs) and mine.py."""
    directory = tmp_path_factory.mktemp("desk")
    write_workload(*synth("philly", 40, seed=1, load_scale=0.01), directory / "week.parquet")
    (directory / "small.yaml").write_text(CLUSTER)
    (directory / "mine.py").write_text(POLICIES)
    return directory


@pytest.fixture
def at_desk(desk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same directory, as the working directory."""
    monkeypatch.chdir(desk)
    return desk


@pytest.fixture(scope="session")
def ray_cluster(desk: Path) -> Iterator[None]:
    """Ray, started at the desk so that workers find mine.py; a sweep in this process joins it."""
    from ray_sim.experiments.fanout.connection import cluster

    with ExitStack() as stack:
        with chdir(desk):
            stack.enter_context(cluster("local"))
        yield


@pytest.fixture(scope="session")
def mlflow_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A SQLite store that all tests of the session log to, each in its own experiment."""
    directory = tmp_path_factory.mktemp("mlflow")
    before = os.environ.get("MLFLOW_TRACKING_URI")
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{directory / 'mlflow.db'}"
    yield os.environ["MLFLOW_TRACKING_URI"]
    if before is None:
        del os.environ["MLFLOW_TRACKING_URI"]
    else:
        os.environ["MLFLOW_TRACKING_URI"] = before


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    """A store of MLflow's for one test, in which another experiment has the first number."""
    from mlflow import MlflowClient

    from ray_sim.experiments.tracking.database import migrate, new_database, schema_revision

    new_database(tmp_path / "mlflow.db", schema_revision(), migrate)
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    client = MlflowClient(tracking_uri=uri)
    client.create_experiment("another")
    return client
