"""The commands of the guide run as they are written, in a copy of the project, or have a reason not to."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from ray_sim.cli.app import application
from tests.conftest import COMMAND
from tests.page_commands import REPOSITORY, copy_project, files_of, run_steps, steps_of

DOCS = REPOSITORY / "docs"
HOW_TOS = (
    *("own_policies.md", "idea_to_figure.md", "running.md", "sweeps.md", "compare.md", "clusters.md"),
    *("my_cluster.md", "planning.md", "reports.md", "faults.md"),
    *("mlflow.md", "policies.md", "workloads.md", "training.md", "engine.md", "install.md"),
    *("certificates.md", "models/interference.md", "models/a_online.md", "models/harmony.md"),
    *(
        "models/batch.md",
        "models/gavel.md",
        "models/oasis.md",
        "models/optimus.md",
        "models/pd_ors.md",
        "models/posted_price.md",
    ),
    *("traces/gavel.md", "traces/presets.md"),
)
RUN_BY_OTHER_TESTS = ("start.md", "own_csv.md", "README.md")
"""Pages whose commands `tests.test_readme` runs."""

NOT_RUN = {
    "a trace that is not in the project": (
        *("trace.parquet", "sia_philly.csv.gz", "week.parquet", "clusterdata-2011-2", "cluster_job_log"),
        *("cell_a", "google.parquet", "openb_pod_list", "pods.parquet", "pcs_vc_traces", "mine.parquet"),
        *(
            "minimize_makespan.parquet",
            "philly.yaml",
            "philly_days.yaml",
            "runs/fifo --trace",
            "packing runs/fgd",
            "earlier.parquet",
        ),
    ),
    "a public trace, of which tests/workloads/formats/test_presets.py converts a sample": (
        *("convert sacct jobs.txt", "convert swf", "convert k8s-", "convert kueue workloads.json"),
        *("convert condor", "convert pbs"),
        *("convert pai-2020", "convert alibaba-2018", "convert helios Venus", "convert acme trace"),
        *("convert azure-vm", "convert opendc"),
    ),
    "minutes to hours; `ray-sim bench` and `ray-sim reproduce` tell their time": (
        *("ray-sim bench", "ray-sim arena", "ray-sim train", "ray-sim reproduce"),
    ),
    "checkpoints of a training": (
        *("unknown.yaml", "maskable.yaml", "checkpoint=trained", "queue_agent", "train_rule"),
    ),
    "part of a study that runs for minutes": (
        *("baselines.yaml", "interference-baselines", "capacity-100", "honest.yaml", "strategic.yaml"),
        *("example.csv", "example.yaml", "example.parquet", "google_tasks.csv", "$"),
    ),
    "a store of objects elsewhere": ("s3://",),
    "a user's module, which tests/workloads runs": ("json_jobs:jobs",),
    "a user's table; docs/own_csv.md has one": ("jobs.csv",),
    "an example of `make ui`'s page, which tests/experiments/tracking opens": ("jobs/load.yaml -o",),
}
"""Commands of these pages that no test runs as they are written: parts of their text by reason."""


def _pages() -> list[Path]:
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "decisions"]
    return [REPOSITORY / "README.md", *pages]


def _commands(page: Path) -> list[str]:
    """Commands of a page that are ray-sim's, also those after a `do` of a shell's loop."""
    lines = [step.command for step in steps_of(page.read_text())]
    return [found[0] for line in lines if (found := re.search(r"(?:^|(?<=do ))ray-sim [^;]*", line))]


def _is_run(command: str) -> bool:
    return not any(part in command for parts in NOT_RUN.values() for part in parts)


def _name(page: Path) -> str:
    return str(page.relative_to(DOCS if page.is_relative_to(DOCS) else REPOSITORY))


def test_every_command_of_the_docs_is_run_by_a_test_or_has_a_reason() -> None:
    elsewhere = [page for page in _pages() if _name(page) not in (*HOW_TOS, *RUN_BY_OTHER_TESTS)]
    assert [(_name(page), each) for page in elsewhere for each in _commands(page) if _is_run(each)] == []


def test_every_command_of_the_docs_is_one_that_the_command_line_knows() -> None:
    commands = {command for page in _pages() for command in _commands(page)}
    group = typer.main.get_group(application())
    assert len(commands) > 100
    assert {command: error for command in commands if (error := _usage_error(command, group))} == {}


def _usage_error(command: str, group: typer.core.TyperGroup) -> str:
    """The error of a command with an unknown option or a wrong value; empty if there is none."""
    _, *arguments = shlex.split(command.partition(" > ")[0], comments=True)
    try:
        context = group.make_context("ray-sim", arguments)
        name, subcommand, rest = group.resolve_command(context, arguments)
        assert subcommand is not None
        subcommand.make_context(name, rest, parent=context)
    except typer.TyperException as error:
        return f"{error}"
    except typer.Exit:  # --version
        return ""
    return ""


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.docs
@pytest.mark.parametrize("page", HOW_TOS)
def test_every_command_of_a_how_to_runs_as_written(
    page: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    copy_project(tmp_path)
    text = (DOCS / page).read_text()
    for example in (DOCS / "examples").glob("*.py"):
        shutil.copy(example, tmp_path)
    for name, content in files_of(text).items():
        (tmp_path / name).write_text(content)
    start = steps_of((DOCS / "start.md").read_text())
    run_steps([step for step in start if "convert" in step.command], tmp_path)
    steps = [step for step in steps_of(text) if step.command.startswith("ray-sim ")]
    for command in run_steps([step for step in steps if _is_run(step.command)], tmp_path):
        record_property(COMMAND, command)
