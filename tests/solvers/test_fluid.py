"""The fluid backlog: Lindley's recursion in closed form, and below that of every run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.experiments.offered_load import never_fits
from ray_sim.model.result import JobStatus
from ray_sim.model.units import NEVER_US
from ray_sim.solvers.fluid import PoolRate, backlog_at, fluid_backlog
from tests.history import History, Span
from tests.proofs import instances
from tests.random_worlds import WHOLE_S, PolicyChoice, job_lists, policies, server_changes, worlds
from tests.worlds import Job, availability, cluster_of, job_table, replay, world_of


def constant(rate: float) -> PoolRate:
    """The same rate at all times."""
    return PoolRate(np.zeros(1, np.int64), np.array([rate]))


def test_backlog_of_three_jobs() -> None:
    # Two units of work a second. 10 at 0 s; 4 left at 3 s, plus 6; all done at 8 s; 1 at 20 s.
    submit, work = np.array([0, 3, 20]), np.array([10.0, 6.0, 1.0])
    backlog = fluid_backlog(submit, work, constant(2.0))
    assert backlog.tolist() == [10, 10, 1]
    # At 4 s one second after the second job; at 8 s nothing is left, and before the first job nothing was.
    assert backlog_at(submit, backlog, constant(2.0), np.array([-1, 0, 4, 8, 19, 20])).tolist() == [
        0,
        10,
        8,
        0,
        0,
        1,
    ]


@given(
    jobs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), min_size=1, max_size=40),
    rate=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_it_is_lindleys_recursion(jobs: list[tuple[int, int]], rate: float) -> None:
    gaps, work = (np.array(column) for column in zip(*jobs, strict=True))
    left, expected = 0.0, []
    for gap, amount in jobs:
        left = max(0.0, left - rate * gap) + amount
        expected.append(left)
    assert fluid_backlog(np.cumsum(gaps), work.astype(float), constant(rate)).tolist() == expected


@pytest.mark.slow
@settings(max_examples=instances(100))
@given(world=worlds(), policy=policies())
def test_no_policy_ever_has_less_unfinished_work(world: World, policy: PolicyChoice) -> None:
    for left, bound, slack in backlogs(replace(world, horizon_us=NEVER_US - 1), policy):
        assert left + slack >= bound


@pytest.mark.slow
@settings(max_examples=instances(60))
@given(data=st.data(), policy=policies())
def test_nor_where_servers_come_and_go(data: st.DataObject, policy: PolicyChoice) -> None:
    gpus = data.draw(st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=1, max_size=3))
    speed = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=len(gpus), max_size=len(gpus)))
    changes = data.draw(server_changes(len(gpus)))
    cluster = replace(cluster_of(gpus, speed=speed), availability=availability(changes))
    world = build_world(job_table(data.draw(job_lists(min_size=1))), cluster)
    for left, bound, slack in backlogs(world, policy):
        assert left + slack * (1 + len(changes)) >= bound


def test_servers_that_come_and_go_do_less() -> None:
    # Two units of work a second until 10 s, none until 20 s, then one.
    pool = PoolRate(np.array([0, 10, 20]), np.array([2.0, 0.0, 1.0]))
    assert pool.by(np.array([0, 5, 10, 15, 20, 23])).tolist() == [0, 10, 20, 20, 20, 23]
    # 30 at 4 s: 12 are done until 10 s, none until 20 s, and 18 more by 38 s, which is 34 s later.
    assert pool.time_for(30.0, 4) == 34
    assert (pool.time_for(12.0, 4), pool.time_for(0.0, 4), pool.time_for(1.0, 12)) == (6, 0, 9)
    submit = np.array([4, 12])
    backlog = fluid_backlog(submit, np.array([30.0, 5.0]), pool)
    assert backlog.tolist() == [30, 23]
    assert backlog_at(submit, backlog, pool, np.array([10, 25, 60])).tolist() == [18, 18, 0]
    gone = PoolRate(np.array([0, 10]), np.array([2.0, 0.0]))
    assert (gone.time_for(12.0, 4), gone.time_for(12.1, 4)) == (6, float("inf"))


GANGS = st.builds(Job, WHOLE_S, st.just(4.0), WHOLE_S)


@pytest.mark.slow
@settings(max_examples=instances(60))
@given(
    jobs=st.lists(GANGS, min_size=1, max_size=14),
    policy=policies(),
    speed=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_where_every_job_takes_the_whole_cluster_there_is_no_more_either(
    jobs: list[Job], policy: PolicyChoice, speed: float
) -> None:
    for left, bound, slack in backlogs(world_of(jobs, [4], speed=[speed]), policy):
        assert abs(left - bound) <= slack


def backlogs(world: World, policy: PolicyChoice) -> Iterator[tuple[float, float, float]]:
    """Unfinished work, its bound, and what rounding adds; by partition, at and soon after submissions.

    A policy's placement rule may refuse jobs that would fit; the bound is about the others.
    """
    result = replay(world, policy.create())
    completed = (result.jobs["status"] == JobStatus.COMPLETED).to_numpy()
    assert not (completed & never_fits(world)).any()
    spans, arrays = History(result).spans, world.arrays
    speed = dict(zip(world.cluster.server_names, world.cluster.speed.tolist(), strict=True))
    for part in range(len(arrays.part_class_ptr) - 1):
        jobs = np.flatnonzero((arrays.job_part == part) & completed)
        servers = arrays.pool_servers[arrays.pool_ptr[part] : arrays.pool_ptr[part + 1]]
        pool = pool_of(world, servers.tolist())
        submit, length = world.table.submit_us[jobs], world.table.work_us[jobs]
        demand = (world.table.tasks * world.table.demand[:, 0])[jobs].astype(float)
        backlog = fluid_backlog(submit, demand * length, pool)
        of_jobs = [spans[world.table.job_id[int(job)]] for job in jobs]
        # A job ends at the first microsecond at which its work is done.
        slack = float(demand.sum()) * max(speed.values())
        for now in (*submit.tolist(), *(submit + 700_000).tolist()):
            traced_us = now + world.table.origin_us
            done = np.array([progress_us(own, traced_us, world.restart_us, speed) for own in of_jobs])
            left = float((demand * (length - done))[submit <= now].sum())
            yield left, backlog_at(submit, backlog, pool, np.array([now]))[0], slack


def pool_of(world: World, servers: list[int]) -> PoolRate:
    """GPUs of the servers that are there, change by change."""
    there = dict(enumerate(world.there.tolist()))
    since, rates = [0], []
    for time, server, up in [*zip(*world.outages, strict=True), (0, 0, True)]:
        rates.append(
            sum(float(world.arrays.capacity[s, 0] * world.arrays.speed[s]) for s in servers if there[s])
        )
        since.append(int(time))
        there[int(server)] = bool(up)
    return PoolRate(np.array(since[:-1]), np.array(rates))


def progress_us(spans: list[Span], now: int, restart_us: int, speed: dict[str, float]) -> float:
    """What a job has done by an instant of the work it had at first."""
    done = 0.0
    for span in spans:
        pause = restart_us if span.pauses else 0
        done += max(0, min(span.end_us, now) - span.begin_us - pause) * min(speed[s] for s in span.holding)
    return done
