"""What is true of every policy, on the kind of world it is for: of later jobs, of time, and of names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ray_sim.contract.job_tables import with_rows
from ray_sim.contract.subject import Subject
from ray_sim.engine.build_world import build_world
from ray_sim.engine.visible_columns import WHOLE_TRACE
from ray_sim.engine.world import World
from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.units import US_PER_S, IntArray
from ray_sim.policies.registry import policy_classes
from tests.proofs import instances
from tests.required import new_policy

DECLARED = {
    "constants": "declared",
    "declared_utility": "1,100",
    "declared_demand": "1,1",
    "declared_work": "1,1e5",
    "unfinished": "extend",  # else jobs that are slower than planned never end
}
PARAMS: dict[str, Mapping[str, Any]] = {"pd_ors": DECLARED, "oasis": DECLARED}
"""With the constants of the trace, a job that comes late changes the prices of all."""

QUICK = {"fifo", "las", "drf", "chunk_spt", "pd_ors"}
"""One of each way in which policies speak with the engine."""

LONG = {"dorm"}
"""Solves a mixed-integer programme at every decision."""

EVERY = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.long] * (name in LONG) + [pytest.mark.slow] * (name not in QUICK)
        )
        for name in policy_classes()
    ],
)
JOBS = 10
AMONG = 20
"""The jobs of a world are so many of the first ones of a crowded world."""

some_worlds = settings(max_examples=instances(60, 2))
some_rows = given(rows=st.permutations(range(AMONG)).map(lambda order: sorted(order[:JOBS])))


def small(name: str, rows: list[int]) -> tuple[Subject, World]:
    """A crowded world of the policy's kind of jobs, with room in time for one that comes late."""
    subject = Subject(partial(new_policy, name, PARAMS.get(name, {})))
    world = subject.busy()
    horizon = {"horizon_s": 2_400.0} if world.bounded else {}
    table = with_rows(world.table, np.array(rows))
    params = {**world.params, **horizon}
    return subject, build_world(table, world.cluster, partition=world.partition, params=params)


def other(world: World, *, table: JobTable | None = None, cluster: Cluster | None = None) -> World:
    """The same world with other jobs or servers."""
    jobs, servers = table or world.table, cluster or world.cluster
    return build_world(jobs, servers, partition=world.partition, params=world.params)


def with_last_at(table: JobTable, time_us: int) -> JobTable:
    """The jobs, the last of which comes at this time, and is announced then."""

    def moved(column: IntArray) -> IntArray:
        return np.append(column[:-1], time_us)

    if table.statements is None:
        return replace(table, submit_us=moved(table.submit_us))
    given = table.statements
    at = replace(given, birth_us=moved(given.birth_us), arrival_us=moved(given.arrival_us))
    return replace(table, submit_us=moved(table.submit_us), statements=at)


def in_us(frame: pl.DataFrame, times: list[str], less_s: int) -> pl.DataFrame:
    """Times in whole microseconds, so much less."""
    return frame.with_columns((pl.col(times) * US_PER_S).round() - less_s * US_PER_S)


@pytest.mark.slow
@EVERY
@some_worlds
@some_rows
def test_a_job_that_comes_when_all_others_have_ended_changes_nothing_for_them(
    name: str, rows: list[int]
) -> None:
    subject, world = small(name, rows)
    if WHOLE_TRACE in subject.new().sees:
        pytest.skip("its prices are those of all jobs, which it declares")
    alone = subject.run(world, books=False)
    assume(alone.summary.unfinished == 0)
    late_us = (int(alone.timeline["time_s"].max()) + 600) * US_PER_S  # type: ignore[arg-type]
    table = with_rows(world.table, np.append(np.arange(JOBS), 0))
    job_id = pl.concat([world.table.job_id, pl.Series(["late"])])
    later = other(world, table=replace(with_last_at(table, late_us), job_id=job_id))
    beside = subject.run(later, books=False)
    assert beside.jobs[:-1].equals(alone.jobs)


@pytest.mark.slow
@EVERY
@some_worlds
@some_rows
def test_a_trace_that_begins_later_is_scheduled_as_much_later(name: str, rows: list[int]) -> None:
    subject, world = small(name, rows)
    here = subject.run(world, books=False)
    later = replace(world.table, origin_us=world.table.origin_us + 12_345 * US_PER_S)
    there = subject.run(other(world, table=later), books=False)
    shifted = ("submit_s", "arrival_s", "best_start_s", "start_s", "finish_s")
    times = [name for name in here.jobs.columns if name in shifted]
    exact = [frame.drop("rho") for frame in (here.jobs, there.jobs)]  # a sum of differences of seconds
    assert in_us(exact[1], times, 12_345).equals(in_us(exact[0], times, 0))
    np.testing.assert_allclose(there.jobs["rho"].to_numpy(), here.jobs["rho"].to_numpy(), rtol=1e-12)
    assert in_us(there.events, ["time_s"], 12_345).equals(in_us(here.events, ["time_s"], 0))


@pytest.mark.slow
@EVERY
@some_worlds
@some_rows
def test_servers_by_other_names_hold_the_same_jobs_at_the_same_times(name: str, rows: list[int]) -> None:
    subject, world = small(name, rows)
    names = world.cluster.server_names
    renamed = replace(world.cluster, server_names=(*names[1:], names[0]))
    first, second = (subject.run(each, books=False) for each in (world, other(world, cluster=renamed)))
    assert second.jobs.equals(first.jobs)
    change = dict(zip(names, renamed.server_names, strict=True))
    was = first.events.with_columns(pl.col("server").cast(pl.String).replace(change))
    assert second.events.with_columns(pl.col("server").cast(pl.String)).equals(was)
