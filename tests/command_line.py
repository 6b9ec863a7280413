"""The command line in this process, for tests: its answer as JSON, or its complaint."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from ray_sim.cli import main

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
