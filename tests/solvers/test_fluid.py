"""The fluid backlog: Lindley's recursion in closed form, and below that of every run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.world import World
from ray_sim.experiments.offered_load import never_fits
from ray_sim.model.result import JobStatus
from ray_sim.model.units import NEVER_US
from ray_sim.solvers.fluid import backlog_at, fluid_backlog
from tests.history import History, Span
from tests.random_worlds import WHOLE_S, PolicyChoice, policies, worlds
from tests.worlds import Job, replay, world_of


def test_backlog_of_three_jobs() -> None:
    # Two units of work a second. 10 at 0 s; 4 left at 3 s, plus 6; all done at 8 s; 1 at 20 s.
    submit, work = np.array([0, 3, 20]), np.array([10.0, 6.0, 1.0])
    backlog = fluid_backlog(submit, work, 2.0)
    assert backlog.tolist() == [10, 10, 1]
    # At 4 s one second after the second job; at 8 s nothing is left, and before the first job nothing was.
    assert backlog_at(submit, backlog, 2.0, np.array([-1, 0, 4, 8, 19, 20])).tolist() == [0, 10, 8, 0, 0, 1]


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
    assert fluid_backlog(np.cumsum(gaps), work.astype(float), rate).tolist() == expected


@settings(max_examples=100)
@given(world=worlds(), policy=policies())
def test_no_policy_ever_has_less_unfinished_work(world: World, policy: PolicyChoice) -> None:
    for left, bound, slack in backlogs(replace(world, horizon_us=NEVER_US - 1), policy):
        assert left + slack >= bound


GANGS = st.builds(Job, WHOLE_S, st.just(4.0), WHOLE_S)


@settings(max_examples=60)
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
    spans, shop = History(result).spans, world.shop
    speed = dict(zip(world.cluster.server_names, world.cluster.speed.tolist(), strict=True))
    for part in range(len(shop.part_ptr) - 1):
        jobs = np.flatnonzero((shop.job_part == part) & completed)
        servers = shop.part_servers[shop.part_ptr[part] : shop.part_ptr[part + 1]]
        rate = float((shop.capacity[servers, 0] * shop.speed[servers]).sum())
        submit, length = world.table.submit_us[jobs], world.table.work_us[jobs]
        demand = (world.table.tasks * world.table.demand[:, 0])[jobs].astype(float)
        backlog = fluid_backlog(submit, demand * length, rate)
        of_jobs = [spans[world.table.job_id[int(job)]] for job in jobs]
        # A job ends at the first microsecond at which its work is done.
        slack = float(demand.sum()) * max(speed.values())
        for now in (*submit.tolist(), *(submit + 700_000).tolist()):
            traced_us = now + world.table.origin_us
            done = np.array([progress_us(own, traced_us, world.restart_us, speed) for own in of_jobs])
            left = float((demand * (length - done))[submit <= now].sum())
            yield left, backlog_at(submit, backlog, rate, np.array([now]))[0], slack


def progress_us(spans: list[Span], now: int, restart_us: int, speed: dict[str, float]) -> float:
    """What a job has done by an instant of the work it had at first."""
    done = 0.0
    for span in spans:
        pause = restart_us if span.pauses else 0
        done += max(0, min(span.end_us, now) - span.begin_us - pause) * min(speed[s] for s in span.holding)
    return done
