"""The bars of the picture of jobs on servers, and fragmentation, by hand and over random worlds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.experiments.explain import facts_of
from ray_sim.model.result import RunResult
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.history.gantt import gantt
from ray_sim.reports.run_report import fragmentation, jct_by_size, slowest_jobs
from tests.history import History
from tests.proofs import instances
from tests.random_worlds import PolicyChoice, policies, worlds
from tests.results_by_hand import three_jobs
from tests.worlds import DOWN, UP, Job, availability, cluster_of, job_table, replay, world_of


def bars_of(world: World, result: RunResult) -> dict[str, list[list[int]]]:
    """Job, begin and end (ms) of the bars of each server, lane by lane."""
    explainer = RunExplainer(facts_of(world, {}), result.jobs, result.events)
    data = gantt(explainer.history, world.cluster.server_names, result.jobs, world.there).data
    columns = [np.array(data[name], dtype=np.int64) for name in ("job", "begin", "length", "bars", "lanes")]
    job, step, length, bars, lanes = columns
    begin = np.cumsum(step)
    lane = np.repeat(np.arange(len(bars)), bars)
    server = np.repeat(np.arange(len(lanes)), lanes)[lane]
    found: dict[str, list[list[int]]] = {name: [] for name in world.cluster.server_names}
    for index in range(len(job)):
        row = [int(job[index]), int(begin[index]), int(begin[index] + length[index]), int(lane[index])]
        found[world.cluster.server_names[server[index]]].append(row)
    return found


@pytest.mark.slow
@settings(max_examples=instances(100, 8))
@given(world=worlds(), policy=policies())
def test_bars_are_the_stays_of_jobs_and_do_not_overlap_in_a_lane(world: World, policy: PolicyChoice) -> None:
    result = replay(world, policy.create())
    first_us = round(min(result.events["time_s"], default=0.0) * 1e6)
    index = {job: n for n, job in enumerate(world.table.job_id)}
    expected: dict[str, list[list[int]]] = {name: [] for name in world.cluster.server_names}
    for job, spans in History(result).spans.items():
        for span in spans:
            for server in span.holding if span.end_us > span.begin_us else ():
                begin, end = ((time_us - first_us) // 1000 for time_us in (span.begin_us, span.end_us))
                expected[server].append([index[job], begin, end])
    for server, bars in bars_of(world, result).items():
        closed = [bar for bar in bars if result.jobs["status"][bar[0]] != "unfinished"]
        done = [bar for bar in expected[server] if result.jobs["status"][bar[0]] != "unfinished"]
        assert sorted(bar[:3] for bar in closed) == sorted(done)
        for one, other in pairwise(bars):
            assert one[3] < other[3] or (one[3] == other[3] and one[2] <= other[1])


def test_lanes_endings_and_outages_by_hand() -> None:
    # s0 of 2 GPUs: J1 0-10 and J2 0-4 beside it, J3 4-6 in the lane that J2 left. At 6 s0 fails until 8: J3
    # and J1 lose it, and both start again at 8.
    cluster = replace(cluster_of([2.0]), availability=availability([(6, 0, DOWN), (8, 0, UP)]))
    world = build_world(job_table([Job(0, 1, 10), Job(0, 1, 4), Job(1, 1, 5)]), cluster)
    result = replay(world, "fifo")
    explainer = RunExplainer(facts_of(world, {}), result.jobs, result.events)
    data = gantt(explainer.history, ("s0",), result.jobs, world.there).data
    assert bars_of(world, result)["s0"] == [
        [0, 0, 6000, 0],
        [0, 8000, 12000, 0],
        [1, 0, 4000, 1],
        [2, 4000, 6000, 1],
        [2, 8000, 11000, 1],
    ]
    lost, finished = 3, 0
    assert data["ending"] == [lost, finished, finished, lost, finished]
    assert data["outages"] == [[0, 6000, 8000]]


def test_fragmentation_by_hand() -> None:
    # Two servers of 4. J1 takes 3 of s0 for 0-10, J2 takes 2 of s1 for 0-5 (s0 has 1 left). J3 wants 3 from 1
    # on: pieces are 1 and 2, all too small, until s1 is whole again at 5 and J3 starts. Then nobody waits.
    world = world_of([Job(0, 3, 10), Job(0, 2, 5), Job(1, 3, 2)], [4.0, 4.0])
    result = replay(world, "fifo")
    explainer = RunExplainer(facts_of(world, {}), result.jobs, result.events)
    seconds = np.array([0, 1, 4, 5, 9], dtype=np.int64) * 1_000_000
    found = fragmentation(explainer.facts, explainer.free, explainer.waits, seconds)
    assert found["fragmentation"].to_list() == [0, 1, 1, 0, 0]
    # A job of 6 GPUs, more than a server has, could use a whole server: 4 of the 5 free GPUs, not 1.
    world = world_of([Job(0, 3, 10), Job(1, 6, 2)], [4.0, 4.0])
    result = replay(world, "fifo")
    explainer = RunExplainer(facts_of(world, {}), result.jobs, result.events)
    found = fragmentation(explainer.facts, explainer.free, explainer.waits, seconds[1:2])
    assert found["fragmentation"].to_list() == [1 / 5]


@pytest.mark.parametrize(
    ("gpus", "upper"),
    [(0.0, 0.0), (0.25, 1.0), (1.0, 1.0), (1.5, 2.0), (2.0, 2.0), (3.0, 4.0), (4.0, 4.0), (5.0, 8.0)]
    + [(2.0**n, 2.0**n) for n in (3, 10, 29)],
)
def test_a_size_class_ends_at_a_power_of_two(gpus: float, upper: float) -> None:
    jobs = three_jobs().jobs.head(1).with_columns(num_gpus=pl.lit(gpus))
    assert jct_by_size(jobs)["gpus"].to_list() == [upper]


def test_only_completed_jobs_are_slow_and_the_earlier_of_equals_comes_first() -> None:
    jobs = three_jobs(last_jct_s=10.0).jobs
    assert slowest_jobs(jobs, 10)["job_id"].to_list() == ["a", "b"]
    assert slowest_jobs(jobs, 1)["job_id"].to_list() == ["a"]
