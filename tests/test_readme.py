"""The README's commands and code run as they are written, from a copy of the project's folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text()
USED = ("workloads/samples", "jobs", "ray_sim/studies/pd_ors")
"""Folders of the project that the commands name."""


def _commands() -> list[str]:
    """Indented lines that call ray-sim, without their comments."""
    lines = re.findall(r"^ {4}(ray-sim .*)$", README, re.MULTILINE)
    return [line.partition("  #")[0].strip() for line in lines]


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_sweep_file_in_the_readme_is_the_bundled_one() -> None:
    [shown] = _blocks("yaml")
    bundled = (REPOSITORY / "jobs" / "study.yaml").read_text()
    assert bundled.endswith(shown)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.docs
def test_every_command_of_the_readme_runs_as_written(tmp_path: Path) -> None:
    for folder in USED:
        shutil.copytree(REPOSITORY / folder, tmp_path / folder)
    in_python, own_policy = _blocks("python")
    name = own_policy.partition("\n")[0].removeprefix("# ")
    (tmp_path / name).write_text(own_policy)
    kept = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    environment = kept | {"PYTHONPATH": str(REPOSITORY)}
    commands = _commands()
    done = {}
    for command in commands:
        words = command.split()
        run = subprocess.run(
            [sys.executable, "-m", "ray_sim.cli", *words[1:]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"
        assert "Traceback" not in run.stderr
        done[words[1]] = run.stdout
    assert done.keys() >= {"convert", "info", "run", "sweep", "compare", "report"}
    assert "not distinguishable" not in done["compare"].partition("by size")[0]
    code = subprocess.run(
        [sys.executable, "-c", in_python], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert code.returncode == 0, code.stderr
