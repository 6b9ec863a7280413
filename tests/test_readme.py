"""The commands of the README and of the tutorials run as they are written, from a copy of the project."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ray_sim.policies.registry import BUILT_IN
from tests.conftest import COMMAND
from tests.page_commands import (
    REPOSITORY,
    Step,
    blocks_of,
    copy_project,
    environment,
    files_of,
    run_steps,
    steps_of,
)

README = (REPOSITORY / "README.md").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Folder with the parts of the project that the commands name."""
    copy_project(tmp_path)
    return tmp_path


def test_the_sweep_file_in_the_readme_is_the_bundled_one() -> None:
    [shown] = blocks_of(README, "yaml")
    bundled = (REPOSITORY / "jobs" / "study.yaml").read_text()
    assert bundled.endswith(shown)


def test_the_readme_counts_and_names_every_policy() -> None:
    assert f"**{len(BUILT_IN)} schedulers in one model.**" in README
    assert [name for name in BUILT_IN if f"`{name}`" not in README] == []


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.docs
def test_every_command_of_the_readme_runs_as_written(
    project: Path, record_property: Callable[[str, object], None]
) -> None:
    in_python, own_policy = blocks_of(README, "python")
    name = own_policy.partition("\n")[0].removeprefix("# ")
    (project / name).write_text(own_policy)
    steps = [step for step in steps_of(README) if step.command.startswith("ray-sim ")]
    outputs = run_steps(steps, project)
    done = {command.split()[1]: output for command, output in outputs.items()}
    assert done.keys() >= {"convert", "info", "run", "sweep", "compare", "report"}
    assert "not distinguishable" not in done["compare"].partition("by size")[0]
    code = subprocess.run(
        [sys.executable, "-c", in_python], cwd=project, env=environment(), capture_output=True, check=False
    )
    assert code.returncode == 0, code.stderr
    for command in outputs:
        record_property(COMMAND, command)


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.docs
@pytest.mark.parametrize("page", ["start.md", "own_csv.md"])
def test_every_command_of_a_tutorial_runs_as_written_and_prints_what_the_page_shows(
    page: str, project: Path, record_property: Callable[[str, object], None]
) -> None:
    text = (REPOSITORY / "docs" / page).read_text()
    for name, content in files_of(text).items():
        (project / name).write_text(content)
    steps = steps_of(text)
    for command in run_steps(steps, project):
        record_property(COMMAND, command)
    assert sum(len(step.shown) for step in steps) > 20
    assert {"sweep", "compare", "report"} <= {step.command.split()[1] for step in steps}


def test_steps_of_a_page_are_its_indented_lines_with_the_output_that_follows() -> None:
    commands = "    one  # c\n    two \\\n      three\n"
    page = f'a\n\n{commands}\n```text\nout\n```\n\n```yaml title="f.yaml"\n    a: 1\n```\n'
    assert steps_of(page) == [Step("one  # c"), Step("two three", ["out"])]
    assert files_of(page) == {"f.yaml": "    a: 1\n"}
