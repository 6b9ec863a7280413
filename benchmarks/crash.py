"""Crash test: kill a sweep at a random moment and resume it; no result may be lost or duplicated."""

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
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.children import environment
from benchmarks.measurement import Findings, Measurement, Step
from benchmarks.processes import descendants, require_proc, still_running
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.tracking.experiment import HASH_TAG, SWEEP_TAG
from ray_sim.model.errors import RunFailedError

SWEEP: dict[str, object] = {
    "name": "crash",
    "workloads": [{"synth": {"profile": "philly", "jobs": 300}}],
    "clusters": ["edge-cloud", "pool-368"],
    "policies": ["fifo", "sjf", "srtf", "las"],
    "seeds": {"count": 10},
}
"""80 runs."""

_LOOK_S = 0.02
"""Seconds between two checks of the progress."""

_END_TIMEOUT_S = 60.0
"""Limit on the seconds until killed processes have ended."""


def run(
    step: Step = lambda what: None,
    kills: int = 3,
    seed: int = 0,
    sweep: dict[str, object] | None = None,
) -> Findings:
    """Run one sweep without interruption, then kill and resume it at `kills` moments, each in a new store.

    Parameters
    ----------
    seed : draws the moments: numbers of stored results, uniform over all but the last
    sweep : content of the sweep file, by default `SWEEP`
    """
    require_proc()
    with tempfile.TemporaryDirectory(prefix="ray_sim-crash-") as folder:
        desk = Path(folder)
        (desk / "sweep.yaml").write_text(yaml.safe_dump(sweep or SWEEP))
        step("a sweep left alone")
        undisturbed = _finish(_start(desk, "alone"))
        runs = int(undisturbed["configurations"])
        rows = []
        for trial, results in enumerate(np.random.default_rng(seed).integers(runs, size=kills), 1):
            step(f"a sweep killed with {results} of {runs} results, and resumed")
            rows += _trial(desk, f"kill-{trial}", int(results), undisturbed)
    return Findings(f"{runs} runs", tuple(rows))


def _trial(desk: Path, name: str, results: int, undisturbed: dict[str, Any]) -> list[Measurement]:
    store = ResultStore(desk / name)
    left_over = _kill(_start(desk, name), store, results)
    in_store = _stored(store)
    report = _finish(_start(desk, name, "--resume"))
    hashes, parents, unfinished = _in_mlflow(store.root)
    _, entries = store.read_plan()
    stored = sum(store.has(entry.content_hash) for entry in entries) - len(store.damaged(entries))
    circumstances = {
        "in_store_at_kill": in_store,  # and until its processes had ended
        "processes_left_over": left_over,  # descendants of the killed driver, ended by their ids
        "resumed": int(report["resumed"]),
    }
    wrong = {
        "lost_results": len(entries) - stored,
        "lost_in_mlflow": len(entries) - len(hashes) + (parents == 0),
        "twice_in_mlflow": sum(hashes.values()) - len(hashes) + max(0, parents - 1),
        "unfinished_in_mlflow": unfinished,
        "table_differs": int(report["table"] != undisturbed["table"]),
    }
    return [
        *(Measurement(name, metric, count, "", "neither") for metric, count in circumstances.items()),
        *(Measurement(name, metric, count, "", "smaller", 0, 0) for metric, count in wrong.items()),
    ]


def _start(desk: Path, name: str, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ray_sim.cli", "sweep", "sweep.yaml", "-o", name, "--json", *options],
        cwd=desk,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _finish(driver: subprocess.Popen[bytes]) -> dict[str, Any]:
    output, errors = driver.communicate()
    if driver.returncode != 0:
        raise RunFailedError(f"a sweep ended with exit code {driver.returncode}: {errors.decode()}")
    report: dict[str, Any] = json.loads(output)
    return report


def _kill(driver: subprocess.Popen[bytes], store: ResultStore, results: int) -> int:
    """Kill the driver after `results` stored results, then its descendants; returns the number stored."""
    while _stored(store) < results and driver.poll() is None:
        time.sleep(_LOOK_S)
    processes = descendants(driver.pid)
    driver.kill()
    driver.communicate()
    left_over = still_running(processes)
    for pid in left_over:
        with suppress(ProcessLookupError):  # the process has ended by itself
            os.kill(pid, signal.SIGKILL)
    _wait_for_end(processes)
    return len(left_over)


def _stored(store: ResultStore) -> int:
    return len(list((store.root / "runs").glob("[!.]*")))


def _wait_for_end(processes: dict[int, int]) -> None:
    deadline = time.monotonic() + _END_TIMEOUT_S
    while running := still_running(processes):
        if time.monotonic() > deadline:
            raise RunFailedError(f"processes {running} of a killed sweep do not end")
        time.sleep(_LOOK_S)


def _in_mlflow(store: Path) -> tuple[Counter[str], int, int]:
    """Number of runs by content hash, number of parent runs, and number of unfinished runs."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{store / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    runs = client.search_runs(experiments, max_results=10_000)
    hashes = Counter(run.data.tags[HASH_TAG] for run in runs if HASH_TAG in run.data.tags)
    parents = sum(SWEEP_TAG in run.data.tags for run in runs)
    return hashes, parents, sum(run.info.status != "FINISHED" for run in runs)
