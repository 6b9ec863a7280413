"""Commands of a page of the guide as a reader runs them: in order, in one folder, beside its files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]

_USED = ("workloads/samples", "jobs", "ray_sim/studies/pd_ors", "docs/examples")
"""Folders of the project that commands name."""

_FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"\n]*)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^(?: {4}.*\n)+", re.MULTILINE)


@dataclass(slots=True)
class Step:
    """A command of a page, and the lines that the page shows of its output."""

    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def fails(self) -> bool:
        """Whether the page shows it as a user's mistake."""
        return any(line.startswith("error: ") for line in self.shown)


def files_of(text: str) -> dict[str, str]:
    """Blocks of a page with a title, by this name of a file."""
    return {name: content for _, name, content in _FENCE.findall(text) if name}


def blocks_of(text: str, language: str) -> list[str]:
    """Blocks of a page in a language, also those that are no file."""
    return [content for each, _, content in _FENCE.findall(text) if each == language]


def steps_of(text: str) -> list[Step]:
    """Indented lines of a page, each with the blocks of `text` that follow it."""
    steps: list[Step] = []
    position = 0
    for fence in [*_FENCE.finditer(text), None]:
        prose = text[position : fence.start() if fence else len(text)]
        for block in _INDENTED.findall(prose):
            lines = re.sub(r"\\\n +", "", re.sub("^ {4}", "", block, flags=re.MULTILINE)).splitlines()
            steps += map(Step, lines)
        if fence is None:
            return steps
        if fence[1] == "text":
            steps[-1].shown += fence[3].splitlines()
        position = fence.end()
    return steps


def run_steps(steps: list[Step], folder: Path) -> dict[str, str]:
    """Run commands in a shell in `folder` and return their outputs.

    Raises
    ------
    AssertionError : a command has another exit code than the page says (0, or 2 for a shown error), prints a
        traceback, or does not print a line that the page shows
    """
    outputs = {}
    for step in steps:
        ended = subprocess.run(
            ["bash", "-c", step.command],
            cwd=folder, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        printed = ended.stdout + ended.stderr
        assert ended.returncode == (2 if step.fails else 0), f"{step.command}\n{printed}"
        assert "Traceback" not in printed
        lines = {line.rstrip() for line in printed.splitlines()}
        assert [line for line in step.shown if line.rstrip() not in lines] == [], f"{step.command}\n{printed}"
        outputs[step.command] = ended.stdout
    return outputs


def copy_project(folder: Path) -> None:
    """Copy the parts of the project that commands name into a folder."""
    for used in _USED:
        shutil.copytree(REPOSITORY / used, folder / used)


def environment() -> dict[str, str]:
    """Commands of this Python first, a terminal of 100 columns, and no tracking server of the user's."""
    kept = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "COLUMNS": "100", "PYTHONPATH": str(REPOSITORY)}
