"""The columns of results on their page are those of the files, for every kind of jobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from ray_sim.contract.announced_worlds import busy_announced
from ray_sim.contract.chunked_worlds import failing_chunks
from ray_sim.contract.elastic_worlds import failing_elastic
from ray_sim.contract.rigid_worlds import failing_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import ROLE_NAMES
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.worlds import Job, replay, world_of

PAGE = Path(__file__).parents[2] / "docs/result_columns.md"
RUNS: dict[str, tuple[str, Callable[[], World]]] = {
    "rigid": ("las", failing_world),
    "elastic": ("drf", partial(failing_elastic, seed=1)),  # with interference
    "chunks": ("a_online", failing_chunks),
    "announced": ("posted_price", busy_announced),
}
OF_POLICIES = {"beta", "primal", "dual", "arrived_gpu", "frag_gpu"}


def table(section: str) -> list[list[str]]:
    """Cells of the rows of the tables of a section."""
    text = PAGE.read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| `")
    ]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def columns(section: str, kind: str) -> list[str]:
    """Columns of a section for jobs of a kind."""
    rows = [row for row in table(section) if len(row) == 4]
    return [name for row in rows if row[2] == "all" or row[2].startswith(kind) for name in names(row[0])]


@pytest.fixture(scope="module", params=RUNS)
def finished(request: pytest.FixtureRequest) -> tuple[str, RunResult]:
    policy, world = RUNS[request.param]
    return request.param, run_world(world(), create_policy(policy))


def test_times_of_jobs_are_those_of_the_trace() -> None:
    # One GPU from 100 s on: 100-110 and 110-115.
    jobs = replay(world_of([Job(100, 1, 10), Job(105, 1, 5)], [1]), "fifo").jobs
    rows = jobs.select("submit_s", "start_s", "finish_s", "jct_s", "queue_s").rows()
    assert rows == [(100, 100, 110, 10, 0), (105, 110, 115, 10, 5)]


def test_columns_of_jobs_are_on_the_page_in_order(finished: tuple[str, RunResult]) -> None:
    kind, result = finished
    assert columns("jobs.parquet", kind) == result.jobs.columns


def test_columns_of_the_timeline_are_on_the_page_in_order(finished: tuple[str, RunResult]) -> None:
    kind, result = finished
    resources = [name for name in result.timeline.columns if name.startswith("used_")]
    listed = [
        each
        for name in columns("timeline.parquet", kind)
        for each in (resources if name == "used_<resource>" else [name])
    ]
    kept = [[name for name in each if name not in OF_POLICIES] for each in (listed, result.timeline.columns)]
    assert kept[0] == kept[1]


def test_columns_and_kinds_of_events_are_on_the_page(finished: tuple[str, RunResult]) -> None:
    kind, result = finished
    rows = table("events.parquet")
    listed = [name for row in rows for name in names(row[0])]
    assert listed[: len(result.events.columns)] == result.events.columns
    events = [name for row in rows if row[1] in {"all", kind} for name in names(row[0])]
    known = result.events.schema["event"]
    assert isinstance(known, pl.Enum)
    assert set(events) == set(known.categories)
    roles = next(row for row in rows if row[0] == "`role`")[2]
    assert tuple(names(roles)) == ROLE_NAMES
