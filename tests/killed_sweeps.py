"""Sweeps that are killed and resumed, for tests of what is lost or twice then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from benchmarks.processes import descendants, environment, still_running
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.tracking.experiment import HASH_TAG, SWEEP_TAG
from ray_sim.model.errors import RunFailedError

_LOOK_S = 0.02
"""Seconds between two checks of the progress."""

_END_TIMEOUT_S = 60.0
"""Limit on the seconds until killed processes have ended."""


def undisturbed(desk: Path, sweep: Mapping[str, object]) -> dict[str, Any]:
    """Report of a sweep that is left alone, whose file stays in ``desk`` for `wrong_after_kill`."""
    (desk / "sweep.yaml").write_text(yaml.safe_dump(dict(sweep)))
    return _finish(_start(desk, "alone"))


def wrong_after_kill(desk: Path, results: int, alone: dict[str, Any]) -> dict[str, int]:
    """Kill a sweep at a number of stored results and resume it; number of faults by kind, all 0 if sound."""
    store = ResultStore(desk / f"killed-{results}")
    _kill(_start(desk, store.root.name), store, results)
    report = _finish(_start(desk, store.root.name, "--resume"))
    hashes, parents, unfinished = _in_mlflow(store.root)
    _, entries = store.read_plan()
    stored = sum(store.has(entry.content_hash) for entry in entries) - len(store.damaged(entries))
    return {
        "lost_results": len(entries) - stored,
        "lost_in_mlflow": len(entries) - len(hashes) + (parents == 0),
        "twice_in_mlflow": sum(hashes.values()) - len(hashes) + max(0, parents - 1),
        "unfinished_in_mlflow": unfinished,
        "table_differs": int(report["table"] != alone["table"]),
    }


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


def _kill(driver: subprocess.Popen[bytes], store: ResultStore, results: int) -> None:
    """Kill the driver after `results` stored results, then its descendants."""
    while _stored(store) < results and driver.poll() is None:
        time.sleep(_LOOK_S)
    processes = descendants(driver.pid)
    driver.kill()
    driver.communicate()
    for pid in still_running(processes):
        with suppress(ProcessLookupError):  # the process has ended by itself
            os.kill(pid, signal.SIGKILL)
    _wait_for_end(processes)


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
