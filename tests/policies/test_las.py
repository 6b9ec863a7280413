"""LAS: queues by service in GPU-seconds, and in core-seconds where no job of a workload asks for a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ray_sim as rs
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import Loop
from ray_sim.engine.world import World
from ray_sim.kernels.core.attained_service import crossing_us, level_of, promotion_us
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.policies.registry import create_policy
from tests.command_line import answer
from tests.proofs import quick_first
from tests.worlds import (
    HOUR,
    Job,
    Times,
    cluster_of,
    events_of,
    fingerprint,
    job_table,
    replay,
    times_of,
    world_of,
)

LOOPS = pytest.mark.parametrize("loop", ["auto", "general"])

STARVING = [Job(0, 1, 6), Job(1, 1, 2), Job(3, 1, 2), Job(5, 1, 2)]


@LOOPS
def test_a_knob_beyond_the_clock_is_no_knob(loop: Loop) -> None:
    # 2 s of service times 1e15 is more than the clock holds: J1 is promoted never, not at once.
    world = world_of(STARVING, [1])
    never = fingerprint(replay(world, "las", loop=loop, limits_gpu_s=(2,)))
    for knob in (1e15, 9e15):
        assert fingerprint(replay(world, "las", loop=loop, limits_gpu_s=(2,), knob=knob)) == never


@LOOPS
def test_an_earlier_start_suspends_jobs_of_the_same_queue_unless_those_that_run_come_first(
    loop: Loop,
) -> None:
    # 2 GPUs, limit 4 GPU-s. J1 (2 GPUs) moves down at 2; J2 and J3 (1 each) take its place at 2 and 3 and
    # move down at 6 and 7. By first start J1 then comes first: 7-11, and J2 and J3 have 5 s and 6 s left.
    # With those that run first J1 needs both GPUs at once: 13-17.
    world = world_of([Job(0, 2, 6), Job(1, 1, 10), Job(3, 1, 10)], [2])
    by_start = replay(world, "las", loop=loop, limits_gpu_s=(4,))
    assert times_of(by_start) == {"J1": (0, 11), "J2": (2, 16), "J3": (3, 17)}
    by_place = replay(world, "las", loop=loop, limits_gpu_s=(4,), queue_order="running_first")
    assert times_of(by_place) == {"J1": (0, 17), "J2": (2, 12), "J3": (3, 13)}


@LOOPS
def test_service_beyond_64_bits_is_beyond_every_limit(loop: Loop) -> None:
    # 20,000 GPUs x 8e6 s are 1.6e20 milli-GPU microseconds. J1 is in the last queue, so J2 goes first.
    world = world_of([Job(0, 20_000, 8.5e6), Job(8e6, 1, 10)], [20_000])
    result = replay(world, "las", loop=loop)
    assert times_of(result) == {"J1": (0, 8.5e6 + 10), "J2": (8e6, 8e6 + 10)}


def of_cores(cores: Sequence[float], jobs: Sequence[Job], name: str = "cpu", amount: float = 4) -> World:
    """Jobs, one task each, on a server with 8 GPUs and so much CPU; ``cores`` is the demand of each."""
    amounts: Mapping[str, Any] = {name: [amount]}
    cluster = cluster_of([8], **amounts)
    table = job_table(jobs, cluster.resources, {f"{name}_per_task": list(cores)})
    return build_world(table, cluster)


@LOOPS
def test_a_share_of_the_largest_server_counts_as_that_share_of_a_core(loop: Loop) -> None:
    # J1 holds the whole server, 1: it reaches 2 core-s at 2 s. J2 runs 2-5, then J1 ends at 5 + 4.
    world = of_cores([1, 0.5], [Job(0, 0, 6), Job(1, 0, 3)], "cpu_norm", 1)
    result = replay(world, "las", loop=loop, limits_core_s=(2,))
    assert times_of(result) == {"J1": (0, 9), "J2": (2, 5)}


@pytest.mark.parametrize("demand", [of_cores, None])
def test_without_gpus_and_cpu_each_task_counts_as_a_core(demand: object) -> None:
    # 7 s of 1 task reach 6 core-s, with and without CPU on the servers; jobs that hold nothing never wait.
    jobs = [Job(0, 0, 7), Job(1, 0, 3)]
    world = of_cores([0, 0], jobs) if demand else world_of(jobs, [1])
    result = replay(world, "las", limits_core_s=(6,))
    assert times_of(result) == {"J1": (0, 7), "J2": (1, 4)}
    assert [event[:2] for event in events_of(result, "J1") if event[1] == "level"] == [(6, "level")]


@pytest.mark.parametrize("name", ["limits_gpu_s", "limits_core_s"])
@pytest.mark.parametrize(
    "limits", [(), (-1.0,), (5.0, 5.0), (7.0, 2.0), tuple(map(float, range(1, 17))), (1e10,)]
)
def test_limits_must_be_few_increase_and_be_countable(name: str, limits: tuple[float, ...]) -> None:
    # 1e10 GPU-s are 1e19 milli-GPU microseconds, more than 64 bits hold.
    with pytest.raises(InvalidScenarioError, match=name):
        create_policy("las", {name: limits})


def test_a_job_crosses_a_limit_at_the_first_microsecond_that_reaches_it() -> None:
    limits = np.array([10, 25])
    assert [level_of(service, limits) for service in (0, 9, 10, 24, 25, 1000)] == [0, 0, 1, 1, 2, 2]
    # With 3 GPUs from service 0, 10 is reached in ceil(10 / 3) = 4; from 12, 25 in ceil(13 / 3) = 5.
    assert [crossing_us(service, 3, limits) for service in (0, 12, 25)] == [4, 5, -1]


def test_promotion_comes_after_the_whole_wait() -> None:
    # 7 us x 1.5 = 10.5, so 11.
    assert [promotion_us(7, knob) for knob in (1.0, 1.5, 2.0)] == [7, 11, 14]


US = 1_000_000


@dataclass(frozen=True, slots=True)
class Cores:
    """A job without GPUs: `tasks` tasks of `each` cores."""

    submit_s: float
    tasks: int
    each: float
    duration_s: float


def _cores_world(jobs: Sequence[Cores], cpu: Sequence[float]) -> World:
    """Jobs without GPUs, and servers with `cpu` cores."""
    return build_world(_cores_table(jobs), cluster_of([0] * len(cpu), cpu=cpu))


def _cores_table(jobs: Sequence[Cores], vcs: Sequence[str | None] | None = None) -> JobTable:
    rigid = [
        Job(job.submit_s, 0, job.duration_s, vc)
        for job, vc in zip(jobs, vcs or [None] * len(jobs), strict=True)
    ]
    columns: dict[str, list[object]] = {
        "num_tasks": [job.tasks for job in jobs],
        "cpu_per_task": [job.each for job in jobs],
    }
    return job_table(rigid, ("gpu", "cpu"), columns)


def _naive_las(jobs: Sequence[Cores], cores: float, limits_core_s: Sequence[float]) -> Times:
    """Preemptive LAS on one pool of cores, in whole microseconds and thousandths of a core.

    All jobs, in the order of (queue, first start, submission), take what is free; those left over wait.
    """
    size = [round(1000 * job.tasks * job.each) for job in jobs]
    submit = [round(US * job.submit_s) for job in jobs]
    left = [round(US * job.duration_s) for job in jobs]
    limits = [round(1000 * US * limit) for limit in limits_core_s]
    service = [0] * len(jobs)
    starts, ends = dict[int, int](), dict[int, int]()
    running: list[int] = []
    now = -1
    while len(ends) < len(jobs):
        times = [at for at in submit if at > now] + [now + left[job] for job in running]
        for job in running:
            missing = [limit - service[job] for limit in limits if limit > service[job]]
            times += [now + -(-gap // size[job]) for gap in missing[:1]]
        passed, now = min(times) - now, min(times)
        for job in running:
            left[job] -= passed
            service[job] += size[job] * passed
            if left[job] == 0:
                ends[job] = now
        present = [job for job in range(len(jobs)) if submit[job] <= now and job not in ends]
        queue = {job: sum(service[job] >= limit for limit in limits) for job in present}
        free, running = round(1000 * cores), []
        for job in sorted(present, key=lambda j: (queue[j], starts.get(j, 2**62), submit[j], j)):
            if size[job] <= free:
                free -= size[job]
                running.append(job)
                starts.setdefault(job, now)
    return {f"J{job + 1}": (starts[job] / US, ends[job] / US) for job in range(len(jobs))}


@LOOPS
def test_the_documented_example_with_cores_instead_of_gpus(loop: Loop) -> None:
    # 4 cores, limit 8 core-h. J1 has them at 2 h; J2 ends at 5 h, J3 has them at 6 h; J1 first: 6-9, J3 9-11.
    jobs = [Cores(0, 4, 1, 5 * HOUR), Cores(HOUR, 2, 1, 3 * HOUR), Cores(HOUR, 2, 1, 6 * HOUR)]
    result = replay(_cores_world(jobs, [4]), "las", loop=loop, limits_core_s=(8 * HOUR,))
    expected = {"J1": (0, 9 * HOUR), "J2": (2 * HOUR, 5 * HOUR), "J3": (2 * HOUR, 11 * HOUR)}
    assert times_of(result) == expected
    assert _naive_las(jobs, 4, [8 * HOUR]) == expected


def _drawn(draw: int) -> list[Cores]:
    rng = np.random.default_rng(draw)
    count = int(rng.integers(2, 12))
    submit = np.sort(rng.integers(0, 40, count)).tolist()
    tasks = rng.integers(1, 4, count).tolist()
    durations = rng.integers(1, 30, count).tolist()
    return [Cores(*row) for row in zip(submit, tasks, [1.0] * count, durations, strict=True)]


@LOOPS
@pytest.mark.parametrize("limits", [(6.0,), (20.0,), (3.0, 10.0, 31.0)])
def test_drawn_jobs_start_and_finish_as_in_a_naive_simulator(limits: tuple[float, ...], loop: Loop) -> None:
    for draw in range(12):
        jobs = _drawn(draw)
        found = replay(_cores_world(jobs, [4]), "las", loop=loop, limits_core_s=limits)
        assert times_of(found) == _naive_las(jobs, 4, limits), draw


def test_parts_of_cores_count_as_parts() -> None:
    # 1 core. J1 of 2 x 0.25 cores has 3 core-s after 6 s, and J2 of 0.75 cores does not fit beside it.
    jobs = [Cores(0, 2, 0.25, 20), Cores(1, 1, 0.75, 5), Cores(2, 1, 0.5, 2)]
    result = replay(_cores_world(jobs, [1]), "las", limits_core_s=(3.0,))
    assert times_of(result) == _naive_las(jobs, 1, [3.0])
    # J3 fits beside J1: 2-4. J2 takes the place of J1 at 6, has 3 core-s at 10, and gives way to J1.
    assert times_of(result) == {"J1": (0, 24), "J2": (6, 25), "J3": (2, 4)}


def test_the_limit_is_reached_in_the_first_whole_microsecond() -> None:
    # 3 cores reach 1 core-s after 333,333.3 us. J2 starts then and runs 0.5 s; it reaches 1 never.
    jobs = [Cores(0, 3, 1, 1), Cores(0.1, 1, 2, 0.4)]
    result = replay(_cores_world(jobs, [3]), "las", limits_core_s=(1.0,))
    assert times_of(result) == _naive_las(jobs, 3, [1.0])
    assert times_of(result) == {"J1": (0, 1.4), "J2": (0.333334, 0.733334)}


@LOOPS
@pytest.mark.parametrize("cpu", [[5.0], [2.0, 3.0]])
@pytest.mark.parametrize(
    "params",
    quick_first(
        [
            {"queue_order": "running_first"},
            {"knob": 1.5},
            {"knob": 0.5, "queue_order": "running_first", "placement": "pooled"},
            {"placement": "spread"},
        ]
    ),
)
def test_cores_are_served_as_as_many_gpus_would_be(
    params: dict[str, Any], cpu: list[float], loop: Loop
) -> None:
    for draw in range(4):
        jobs = _drawn(100 + draw)
        twins = [Job(job.submit_s, job.tasks, job.duration_s) for job in jobs]
        gpus = build_world(job_table(twins), cluster_of(cpu))
        expected = replay(gpus, "las", loop=loop, limits_gpu_s=(5.0, 25.0), **params)
        found = replay(_cores_world(jobs, cpu), "las", loop=loop, limits_core_s=(5.0, 25.0), **params)
        assert times_of(found) == times_of(expected), draw
        columns = ["preemptions", "restarts", "queue_s", "run_s"]
        assert found.jobs.select(columns).equals(expected.jobs.select(columns)), draw


def test_the_limit_of_gpu_seconds_says_nothing_where_no_job_has_gpus() -> None:
    jobs = _drawn(7)
    world = _cores_world(jobs, [3])
    runs = [replay(world, "las", limits_core_s=(8.0,), limits_gpu_s=(each,)) for each in (0.001, 8.0, 1e6)]
    assert {str(times_of(run)) for run in runs} == {str(_naive_las(jobs, 3, [8.0]))}


def test_gpus_of_the_cluster_that_no_job_asks_for_change_nothing() -> None:
    jobs = _drawn(11)
    params: dict[str, Any] = {"limits_core_s": [9.0]}
    result = rs.simulate(_cores_table(jobs), cluster_of([8], cpu=[4]), policy="las", params=params)
    assert times_of(result) == _naive_las(jobs, 4, [9.0])


MIXED = job_table(
    [Job(0, 0, 20), Job(1, 0, 5), Job(100, 1, 1)],
    ("gpu", "cpu"),
    {"num_tasks": [1, 1, 1], "cpu_per_task": [4.0, 4.0, 1.0]},
)


@pytest.mark.parametrize("limits_core_s", [None, (4.0,), (1e6,)])
def test_with_one_job_that_asks_for_a_gpu_service_counts_gpus(
    limits_core_s: tuple[float, ...] | None,
) -> None:
    # Jobs without GPUs count as a thousandth of one. At 0.003 GPU-s J1 moves down after 3 s, J2 at 6 s;
    # then J1 comes first, 6-23. At 5 GPU-s nothing moves. Cores would move J1 after 1 s, or never.
    given: dict[str, Any] = {} if limits_core_s is None else {"limits_core_s": limits_core_s}
    world = build_world(MIXED, cluster_of([1], cpu=[4]))
    moved = replay(world, "las", limits_gpu_s=(0.003,), **given)
    assert times_of(moved) == {"J1": (0, 23), "J2": (3, 25), "J3": (100, 101)}
    still = replay(world, "las", limits_gpu_s=(5.0,), **given)
    assert times_of(still) == {"J1": (0, 20), "J2": (20, 25), "J3": (100, 101)}


def test_every_vc_of_a_workload_without_gpus_counts_cores() -> None:
    jobs = [*_drawn(3), *_drawn(4)]
    first = len(_drawn(3))
    vcs = ["a"] * first + ["b"] * (len(jobs) - first)
    world = build_world(
        _cores_table(jobs, vcs), cluster_of([0, 0], cpu=[4, 3], vc=["a", "b"]), partition="vc"
    )
    found = times_of(replay(world, "las", limits_core_s=(7.0,)))
    alone = [_naive_las(jobs[:first], 4, [7.0]), _naive_las(jobs[first:], 3, [7.0])]
    assert [found[f"J{i + 1}"] for i in range(len(jobs))] == [*alone[0].values(), *alone[1].values()]


def test_the_limits_of_core_seconds_are_listed_with_their_unit(capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, "policies", "las")
    units = {each["name"]: each["unit"] for each in told["parameters"]}
    assert units["limits_gpu_s"] == "GPU-s"
    assert units["limits_core_s"] == "core-s"
