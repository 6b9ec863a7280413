"""A machine lost in the middle of a sweep or of a run on a fleet of actors: killed, or cut off.

The result is that of a sweep or a run left alone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from benchmarks.processes import command as name_of
from benchmarks.processes import descendants
from ray_sim.cli import main
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results.result_files import read_result
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.scenario import parse_scenario
from tests.patience import until
from tests.ray_nodes import KEEP_ALIVE, QUICK_TO_NOTICE, REPOSITORY, Cluster, head, kill, worker

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.long]

WORKLOAD = {"synth": {"profile": "philly", "jobs": 20}}
SEEDS = 6
RUNS = 2 * SEEDS
SPREAD = "load_balance"
SITES, NODES = 4, 2

PATIENT = '''
"""FIFO that says where it runs, and waits for a word to go on."""

import os
import time
from pathlib import Path

from ray_sim.policies.fifo import Fifo


class Patient(Fifo):
    name = "patient"

    def order(self, world):
        here = Path(__file__).parent
        (here / "running" / str(os.getpid())).touch()
        while not (here / "go").exists():
            time.sleep(0.01)
        return super().order(world)


class Halfway(Fifo):
    """FIFO that waits for the word when 500 jobs have come."""

    name = "halfway"

    def order(self, world):
        return None

    def decide(self, view):
        here = Path(__file__).parent
        while view.arrivals > 500 and not (here / "go").exists():
            (here / "running" / "half").touch()
            time.sleep(0.01)
        return super().decide(view)
'''


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A directory with a sweep of fifo and a policy that waits for the file `go`, on jobs of six seeds."""
    (tmp_path / "running").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "patient.py").write_text(PATIENT)
    content = {"name": "lost", "workloads": [WORKLOAD], "clusters": ["edge-cloud"]}
    choice = {"policies": ["fifo", "patient:Patient"], "seeds": {"count": SEEDS}}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump({**content, **choice}))
    return tmp_path


def _lose_in_the_middle(
    desk: Path, cluster: Cluster, node: int, lose: Callable[[], None], inside: Sequence[str] = ()
) -> dict[str, object]:
    """Sweep, lose the machine whose first process is `node` while it has a run, and check the results."""
    driver = subprocess.Popen(
        [
            *(*inside, sys.executable, "-m", "ray_sim.cli", "sweep", "sweep.yaml"),
            *("-o", "store", "--address", "auto", "--json"),
        ],
        cwd=desk,
        env={**cluster.environment, "RAY_ADDRESS": cluster.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    running = desk / "running"
    until(
        lambda: (
            {int(path.name) for path in running.iterdir()} & descendants(node).keys()
            or driver.poll() is not None
        ),
        "the machine has a run",
    )
    lose()
    lost_at = time.monotonic()
    (desk / "go").touch()
    store = ResultStore(desk / "store")
    until(
        lambda: len(list(store.root.glob("runs/[!.]*"))) == RUNS or driver.poll() is not None,
        "all results are there",
    )
    print(f"\nall results {time.monotonic() - lost_at:.1f} s after the loss")  # noqa: T201
    output, errors = driver.communicate()
    assert driver.returncode == 0, output + errors
    _, entries = store.read_plan()
    for entry in entries:
        alone = {"workload": WORKLOAD, "cluster": "edge-cloud", "policy": "fifo", "seed": entry.seed}
        undisturbed = prepare(parse_scenario(alone, "alone")).run().result.jobs
        assert read_result(store.run_directory(entry.content_hash)).jobs.equals(undisturbed)
    report: dict[str, object] = json.loads(output)
    return report


def _lose_a_fleet(
    desk: Path, cluster: Cluster, lose: Callable[[], None], node: int, inside: Sequence[str] = ()
) -> None:
    """Run on actors, lose the machine whose first process is `node`; it is the run of one process.

    Spread over the servers, the jobs after the first 500 give each of the four sites hundreds of requests,
    whichever of them the machine has. With fewer than 128, two messages, nobody need ever notice that a site
    which has nothing to report is gone.
    """
    assert main(["synth", "philly", "-n", "2000", "-o", str(desk / "week.parquet")]) == 0
    command = ["run", "--workload", "week.parquet", "--cluster", "edge-cloud", "--policy", "patient:Halfway"]
    command += ["-p", f"placement={SPREAD}"]
    on_actors = ["--fleet", "actors", "--sites", str(SITES), "--address", "auto", "-o", "actors"]
    driver = subprocess.Popen(
        [*inside, sys.executable, "-m", "ray_sim.cli", *command, *on_actors],
        cwd=desk,
        env={**cluster.environment, "RAY_ADDRESS": cluster.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(
        lambda: (desk / "running" / "half").exists() or driver.poll() is not None,
        "half of the jobs have come",
    )
    names: list[str] = []

    def has_its_sites_or_is_gone() -> bool:
        names[:] = map(name_of, descendants(node))
        return not names or sum(name.startswith("ray::Site") for name in names) == SITES / NODES

    until(has_its_sites_or_is_gone, "the machine has its half of the sites")
    assert names, (desk / "worker.log").read_text()
    lose()
    lost_at = time.monotonic()
    (desk / "go").touch()
    output, errors = driver.communicate()
    print(f"\nthe run ended {time.monotonic() - lost_at:.1f} s after the loss")  # noqa: T201
    assert driver.returncode == 0, output + errors
    assert json.loads((desk / "actors" / "timing.json").read_text())["recoveries"] >= 1
    alone = {
        "workload": str(desk / "week.parquet"),
        "cluster": "edge-cloud",
        "policy": "fifo",
        "params": {"placement": SPREAD},
    }
    undisturbed = prepare(parse_scenario(alone, "alone")).run().result
    there = read_result(desk / "actors")
    for frame in ("jobs", "events", "timeline"):
        assert getattr(there, frame).equals(getattr(undisturbed, frame)), frame


def _check(report: dict[str, object]) -> None:
    """Only what the lost machine had was tried again: a task per core, of two, and the one in reserve.

    A task that has ended but whose answer is still on its way home counts, so which three they are is open.
    """
    retried = report["retried"]
    assert isinstance(retried, list)
    assert (report["configurations"], report["missing"], report["failures"]) == (RUNS, 0, [])
    assert 1 <= len(retried) <= 3
    assert [len(each["lost_attempts"]) for each in retried] == [1] * len(retried)


def test_a_sweep_survives_a_machine_that_dies(desk: Path) -> None:
    modules = os.pathsep.join([str(desk), str(REPOSITORY)])
    with (
        head(desk, "127.0.0.5", system_config=QUICK_TO_NOTICE, variables={"PYTHONPATH": modules}) as cluster,
        worker(cluster, desk, "127.0.0.6") as node,
    ):
        _check(_lose_in_the_middle(desk, cluster, node, partial(_die, node)))


def _die(node: int) -> None:
    below = descendants(node)
    os.kill(node, signal.SIGKILL)
    kill(below)


def test_a_fleet_survives_a_machine_that_dies(desk: Path) -> None:
    modules = os.pathsep.join([str(desk), str(REPOSITORY)])
    with (
        head(desk, "127.0.0.5", system_config=QUICK_TO_NOTICE, variables={"PYTHONPATH": modules}) as cluster,
        worker(cluster, desk, "127.0.0.6") as node,
    ):
        _lose_a_fleet(desk, cluster, partial(_die, node), node)


HERE, THERE = "10.213.47.1", "10.213.47.2"


@contextmanager
def _two_hosts() -> Iterator[tuple[str, str]]:
    """Two network namespaces with a link between them, whose ends are called `wire`."""
    names = f"rs-a{os.getpid()}", f"rs-b{os.getpid()}"
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("-n", names[0], "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", names[1])
        for name, address in zip(names, (HERE, THERE), strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "wire")
            for device in ("lo", "wire"):
                _ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this system does not let a test make network namespaces: {error.stderr.strip()}")


@contextmanager
def _linked(desk: Path) -> Iterator[tuple[Cluster, int, Callable[[], None], Sequence[str]]]:
    """Two hosts that share no store: cluster, far node, what cuts the link, what runs things on the near."""
    if shutil.which("ip") is None:
        pytest.skip("no `ip` to make network namespaces with (Debian: iproute2)")
    modules = os.pathsep.join([str(desk), str(REPOSITORY)])
    with _two_hosts() as (near, far):
        inside = ["ip", "netns", "exec", near]
        hidden = f'mount -t tmpfs tmpfs {desk / "store"} && exec "$@"'
        far_inside = ["ip", "netns", "exec", far, "sh", "-c", hidden, "sh"]
        variables = KEEP_ALIVE | {"PYTHONPATH": modules}
        with (
            head(desk, HERE, inside=inside, system_config=QUICK_TO_NOTICE, variables=variables) as cluster,
            worker(cluster, desk, THERE, inside=far_inside) as node,
        ):
            yield cluster, node, partial(_ip, "-n", near, "link", "set", "wire", "down"), inside


def test_a_sweep_survives_a_host_that_is_cut_off(desk: Path) -> None:
    """Results of the far host come back over the link, until it is cut."""
    with _linked(desk) as (cluster, node, cut, inside):
        _check(_lose_in_the_middle(desk, cluster, node, cut, inside))


def test_a_fleet_survives_a_host_that_is_cut_off(desk: Path) -> None:
    with _linked(desk) as (cluster, node, cut, inside):
        _lose_a_fleet(desk, cluster, cut, node, inside)
