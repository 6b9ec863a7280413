"""Measuring in a process of its own, where nothing is loaded and no memory is taken yet."""

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
    """This process's, with our modules in reach from any folder and no tracking store of the user's."""
    kept = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
    return kept | {"PYTHONPATH": path}


def python(*arguments: str, cwd: Path | None = None) -> tuple[float, str]:
    """Wall seconds and standard output of a Python with these arguments.

    Raises
    ------
    RunFailedError : it did not end with exit code 0
    """
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-P", *arguments],  # a folder that is named like one of ours is not ours
        cwd=cwd,
        env=environment(),
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


def call(module: str, *arguments: str) -> tuple[float, dict[str, float]]:
    """Wall seconds of `module`, run as a programme, and the figures that it prints; see `python`."""
    wall_s, output = python("-m", module, *arguments)
    figures: dict[str, float] = json.loads(output)
    return wall_s, figures


def answer(figures: Mapping[str, float]) -> None:
    """Print what `call` reads."""
    sys.stdout.write(json.dumps(figures))
