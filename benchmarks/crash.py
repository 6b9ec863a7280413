"""A sweep killed at a random moment and resumed: nothing is lost and nothing is there twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.processes import descendants, still_running
from ray_sim.experiments.store import ResultStore
from ray_sim.experiments.tracking import HASH_TAG, SWEEP_TAG
from ray_sim.model.errors import RunFailedError

SWEEP: dict[str, object] = {
    "name": "crash",
    "workloads": [{"synth": {"profile": "philly", "jobs": 300}}],
    "clusters": ["edge-cloud", "pool-368"],
    "policies": ["fifo", "sjf", "srtf", "las"],
    "seeds": {"count": 10},
}
"""80 runs."""

_END_TIMEOUT_S = 60.0
"""For processes that were killed to be gone."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One sweep that was killed and resumed."""

    killed_after_s: float
    in_store: int
    """Runs in the store at the kill."""
    left_over: int
    """Processes of the killed driver that outlived it and were ended by their ids."""
    resumed: int
    """Runs that the second sweep found done."""
    same_table: bool
    """Whether the final table is that of a sweep that was left alone."""
    stored: int
    logged: int
    """Different runs in MLflow."""
    twice: int
    """Runs that are in MLflow more than once, and parents beyond the first."""
    unfinished: int
    """Runs in MLflow that are not marked as finished."""

    def passed(self, runs: int) -> bool:
        """Whether nothing was lost and nothing is there twice."""
        whole = self.stored == self.logged == runs
        return self.same_table and whole and not self.twice and not self.unfinished


@dataclass(frozen=True, slots=True)
class Report:
    """The trials and the sweep they share."""

    workload: str
    runs: int
    trials: list[Trial]

    def headings(self) -> list[str]:
        """Columns of the table."""
        return [
            *("killed after s", "in store", "left over", "resumed", "same table"),
            *("stored", "in MLflow", "twice", "unfinished", "result"),
        ]

    def cells(self) -> list[tuple[object, ...]]:
        """Rows of the table."""
        return [(*astuple(trial), "passed" if trial.passed(self.runs) else "FAILED") for trial in self.trials]

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def run(kills: int = 3, seed: int = 0, sweep: dict[str, object] | None = None) -> Report:
    """Leave one sweep alone, then kill and resume it at `kills` moments, each in a fresh store.

    Parameters
    ----------
    seed : of the moments, uniform over the time that the undisturbed sweep takes
    sweep : content of the sweep file, by default `SWEEP`
    """
    with tempfile.TemporaryDirectory(prefix="ray_sim-crash-") as folder:
        desk = Path(folder)
        (desk / "sweep.yaml").write_text(yaml.safe_dump(sweep or SWEEP))
        began = time.monotonic()
        undisturbed = _finish(_start(desk, "alone"))
        whole_s = time.monotonic() - began
        moments = np.random.default_rng(seed).uniform(0, whole_s, kills)
        trials = [
            _trial(desk, f"killed-{index}", float(moment), undisturbed)
            for index, moment in enumerate(moments)
        ]
    runs = int(undisturbed["configurations"])
    return Report(f"{runs} runs, {whole_s:.0f} s undisturbed", runs, trials)


def _trial(desk: Path, name: str, moment_s: float, undisturbed: dict[str, Any]) -> Trial:
    store = ResultStore(desk / name)
    left_over = _kill(_start(desk, name), moment_s)
    in_store = len(list((store.root / "runs").glob("[!.]*")))
    report = _finish(_start(desk, name, "--resume"))
    hashes, parents, unfinished = _in_mlflow(store.root)
    _, entries = store.read_plan()
    return Trial(
        killed_after_s=round(moment_s, 2),
        in_store=in_store,
        left_over=left_over,
        resumed=int(report["resumed"]),
        same_table=report["table"] == undisturbed["table"],
        stored=sum(store.has(entry.content_hash) for entry in entries) - len(store.damaged(entries)),
        logged=len(hashes),
        twice=sum(hashes.values()) - len(hashes) + parents - 1,
        unfinished=unfinished,
    )


def _start(desk: Path, name: str, *options: str) -> subprocess.Popen[bytes]:
    repository = str(Path(__file__).parents[1])
    environment = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [repository, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-m", "ray_sim.cli", "sweep", "sweep.yaml", "-o", name, "--json", *options],
        cwd=desk,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _finish(driver: subprocess.Popen[bytes]) -> dict[str, Any]:
    output, errors = driver.communicate()
    if driver.returncode != 0:
        raise RunFailedError(f"a sweep ended with exit code {driver.returncode}: {errors.decode()}")
    report: dict[str, Any] = json.loads(output)
    return report


def _kill(driver: subprocess.Popen[bytes], moment_s: float) -> int:
    """Kill the driver at the moment, then what it leaves behind; returns how many that were."""
    try:
        driver.wait(moment_s)
    except subprocess.TimeoutExpired:
        processes = descendants(driver.pid)
        driver.kill()
        driver.communicate()
        left_over = still_running(processes)
        for pid in left_over:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
        _wait_for_end(processes)
        return len(left_over)
    driver.communicate()
    return 0  # it was quicker than the undisturbed one


def _wait_for_end(processes: dict[int, int]) -> None:
    deadline = time.monotonic() + _END_TIMEOUT_S
    while running := still_running(processes):
        if time.monotonic() > deadline:
            raise RunFailedError(f"processes {running} of a killed sweep do not end")
        time.sleep(0.05)


def _in_mlflow(store: Path) -> tuple[Counter[str], int, int]:
    """How often each content hash is there, how many parents, and how many runs are not finished."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{store / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments, max_results=10_000)
    hashes = Counter(run.data.tags[HASH_TAG] for run in runs if HASH_TAG in run.data.tags)
    parents = sum(SWEEP_TAG in run.data.tags for run in runs)
    return hashes, parents, sum(run.info.status != "FINISHED" for run in runs)
