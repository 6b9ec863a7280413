"""The commands of the how-tos run as they are written, in a copy of the project."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.page_commands import REPOSITORY, copy_project, files_of, run_steps, steps_of

DOCS = REPOSITORY / "docs"
HOW_TOS = (
    *("own_policies.md", "running.md", "sweeps.md", "compare.md", "clusters.md", "planning.md", "reports.md"),
    *("mlflow.md", "policies.md", "announced.md"),
)
ELSEWHERE = ("trace.parquet",)
"""Inputs of commands that are not in the project."""


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.docs
@pytest.mark.parametrize("page", HOW_TOS)
def test_every_command_of_a_how_to_runs_as_written(page: str, tmp_path: Path) -> None:
    copy_project(tmp_path)
    text = (DOCS / page).read_text()
    for example in (DOCS / "examples").glob("*.py"):
        shutil.copy(example, tmp_path)
    for name, content in files_of(text).items():
        (tmp_path / name).write_text(content)
    start = steps_of((DOCS / "start.md").read_text())
    run_steps([step for step in start if "convert" in step.command], tmp_path)
    steps = [step for step in steps_of(text) if step.command.startswith("ray-sim ")]
    run_steps([step for step in steps if not any(name in step.command for name in ELSEWHERE)], tmp_path)
