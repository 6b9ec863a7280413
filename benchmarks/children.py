"""Measurement in a new process, so that loaded modules and used memory have no effect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ray_sim.model.errors import RunFailedError

_REPOSITORY = Path(__file__).parents[1]


def environment() -> dict[str, str]:
    """Environment of this process plus the path of ray_sim's modules, without the user's tracking store."""
    kept = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
    return kept | {"PYTHONPATH": path}


def python(*arguments: str, cwd: Path | None = None, one_thread: bool = False) -> tuple[float, str]:
    """Run Python with these arguments; returns wall seconds and standard output.

    Parameters
    ----------
    one_thread : compute products of matrices in one thread

    Raises
    ------
    RunFailedError : the exit code is not 0
    """
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-P", *arguments],  # -P: folders in cwd must not shadow our modules
        cwd=cwd,
        env=environment() | ({"OPENBLAS_NUM_THREADS": "1"} if one_thread else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    wall_s = time.perf_counter() - began
    if ended.returncode != 0:
        raise RunFailedError(
            f"python {' '.join(arguments)} ended with exit code {ended.returncode}: {ended.stderr.strip()}"
        )
    return wall_s, ended.stdout


def call(module: str, *arguments: str, one_thread: bool = False) -> tuple[float, dict[str, float]]:
    """Run `module` as a programme; returns wall seconds and the figures that it prints; see `python`."""
    wall_s, output = python("-m", module, *arguments, one_thread=one_thread)
    figures: dict[str, float] = json.loads(output)
    return wall_s, figures


def answer(figures: Mapping[str, float]) -> None:
    """Print the figures for `call`."""
    sys.stdout.write(json.dumps(figures))


def cpu_s_of_command(*arguments: str, cwd: Path) -> float:
    """Run `ray-sim` with these arguments; returns its CPU seconds."""
    before = os.times()
    python("-m", "ray_sim.cli", *arguments, cwd=cwd)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
