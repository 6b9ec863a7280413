"""The command line for tests: answers and complaints of this process, and a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ray_sim.cli import main
from tests.conftest import REPOSITORY

WEEK = ["--workload", "week.parquet", "--cluster", "small.yaml"]
RAY_SIM = [sys.executable, "-c", "import sys; from ray_sim.cli import process; sys.exit(process())"]


def answer(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> dict[str, Any]:
    assert main([*argv, "--json"]) == code
    content = json.loads(capsys.readouterr().out)
    assert isinstance(content, dict)
    return content


def complaint(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 2) -> str:
    assert main(list(argv)) == code
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.err


def environment(**changed: str) -> dict[str, str]:
    """Environment of a process, wherever it works, that imports this source."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), **changed}


def python(*arguments: str, cwd: Path | None = None, **changed: str) -> str:
    """What Python prints in a process of its own that ends well, with these variables changed."""
    command, variables = [sys.executable, *arguments], os.environ | changed
    ended = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def process(*argv: str, code: int = 0, **changed: str) -> subprocess.CompletedProcess[str]:
    """What the command printed in a process of its own, with these variables of the environment changed."""
    ended = subprocess.run(
        [*RAY_SIM, *argv],
        env=environment(**changed),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,  # a command that hangs is a fault too
    )
    assert ended.returncode == code, ended.stderr
    return ended
