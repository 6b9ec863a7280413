"""Numbers have ranges: one that is out of it is refused by name, one at its end takes effect."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import Loop, run_world
from ray_sim.engine.world_parameters import WORLD_PARAMETERS
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.parameters import resolve
from ray_sim.model.streams import Streams
from ray_sim.model.units import MAX_TIME_S
from ray_sim.policies.registry import create_policy, policy_infos
from tests.worlds import HOUR, Job, cluster_of, job_table

EXTREME = (1e13, 1e14, 1e300, -1e300, math.nan, math.inf, -math.inf, -1, 2**63, -(2**63), 10**400, "", "x")
"""Values that a slip of the keyboard or a program may give."""

NUMBERS = ("int", "float", "floats")


DECLARED = [
    (owner, parameter)
    for owner, parameters in (
        ("the world", WORLD_PARAMETERS),
        *((info.name, info.parameters) for info in policy_infos()),
    )
    for parameter in parameters
    if parameter.kind in NUMBERS
]
"""Every parameter of the world and of every policy that is a number."""


def test_a_number_is_in_its_range_or_refused_by_name_with_the_range() -> None:
    for (owner, parameter), given in itertools.product(DECLARED, EXTREME):
        try:
            resolved = resolve(owner, [parameter], {parameter.name: given})[parameter.name]
        except InvalidScenarioError as refusal:
            said = str(refusal)
            assert f"  {parameter.name}: must be " in said
            assert parameter.range_text in said or "must be a number, got" in said
            assert len(said) < 300
        else:
            assert resolved in (given, (given,))
            assert isinstance(given, int | float)
            assert parameter.minimum <= given <= parameter.largest


def test_the_ends_of_a_range_are_accepted() -> None:
    for owner, parameter in DECLARED:
        for end in (parameter.largest, *(() if parameter.exclusive else (parameter.minimum,))):
            resolved = resolve(owner, [parameter], {parameter.name: end})[parameter.name]
            assert resolved in (end, (end,))


def test_every_time_has_the_same_range() -> None:
    times = [parameter for _, parameter in DECLARED if parameter.name.endswith("_s")]
    assert {parameter.name for parameter in times} >= {"restart_cost_s", "slot_s", "least_stay_s"}
    assert {parameter.largest for parameter in times if parameter.unit == "s"} == {MAX_TIME_S}
    assert [parameter.name for parameter in times if parameter.unit != "s"] == [
        "limits_gpu_s",
        "limits_core_s",
        "limits_gpu_s",
    ]


def test_a_time_below_the_clocks_microsecond_is_refused_by_name() -> None:
    with pytest.raises(
        InvalidScenarioError, match="slot_s: must be at least a microsecond, 1e-06 s, got 4e-07"
    ):
        resolve("the world", WORLD_PARAMETERS, {"slot_s": 4e-7})


# One server with one GPU. J0 of 100 s starts, J1 of 10 s comes at 1 s and goes first under SRTF.
JOBS = [Job(0, 1, 100), Job(1, 1, 10)]


def ends_s(policy: str, **world: object) -> list[float]:
    jobs, servers = job_table(JOBS), cluster_of([1])
    facts = build_world(jobs, servers, params=world)
    result = run_world(facts, create_policy(policy))
    return result.jobs["finish_s"].fill_null(-1.0).to_list()


def test_the_longest_times_take_effect() -> None:
    # J0 resumes at 11 s, pauses for as long as a pause may be, and then trains its other 99 s.
    assert ends_s("srtf") == [110, 11]
    assert ends_s("srtf", restart_cost_s=MAX_TIME_S) == [11 + MAX_TIME_S + 99, 11]
    assert ends_s("srtf", horizon_s=MAX_TIME_S) == [110, 11]
    assert ends_s("srtf", horizon_s=50) == [-1, 11]


@pytest.mark.parametrize("seed", [-3, -1, 2**63, 10**30, 1.5, "1", None, True, math.nan])
def test_a_seed_out_of_its_range_is_refused(seed: int) -> None:
    with pytest.raises(InvalidInputError, match="seed: must be a whole number, at least 0, below 2"):
        Streams(seed)
    facts = build_world(job_table(JOBS), cluster_of([1]))
    with pytest.raises(InvalidInputError, match="seed: must be"):
        run_world(facts, create_policy("fifo"), seed=seed)


def test_numpy_seeds_are_seeds() -> None:
    seed: Any = np.int64(3)
    assert Streams(seed).generator("x").random() == Streams(3).generator("x").random()


@pytest.mark.parametrize("sites", [0, -1, 2, 10**9])
def test_sites_out_of_range_are_refused_whichever_loop_is_taken(sites: int) -> None:
    facts = build_world(job_table(JOBS), cluster_of([1]))
    with pytest.raises(InvalidScenarioError, match="sites: must be 1 to 1, the number of servers"):
        run_world(facts, create_policy("fifo"), sites=sites)


TOO_MUCH = 2**62


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda t: replace(t, work_us=np.array([5, -1])),
            "work_us: must be 0 to 68,719,476,736,000,000, is -1 for",
        ),
        (lambda t: replace(t, work_us=np.array([TOO_MUCH, 1])), "work_us: must be 0 to"),
        (lambda t: replace(t, submit_us=np.array([-1, 0])), "submit_us: must be 0 to"),
        (lambda t: replace(t, submit_us=np.array([3, 1])), "comes before the one in front of it"),
        (lambda t: replace(t, tasks=np.array([0, 1])), "tasks: must be 1 to"),
        (lambda t: replace(t, demand=np.array([[1], [-1]])), "demand: must be 0 to"),
        (lambda t: replace(t, tasks=np.array([2**40, 1]), demand=np.array([[2**40], [1]])), "tasks x demand"),
    ],
)
def test_a_table_made_in_python_is_checked_like_a_file(
    change: Callable[[JobTable], JobTable], said: str
) -> None:
    with pytest.raises(InvalidInputError, match="jobs: ") as refusal:
        build_world(change(job_table(JOBS)), cluster_of([1]))
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda c: replace(c, speed=np.array([math.nan])),
            "speed: must be 1e-06 to 1,000,000, is nan for server",
        ),
        (lambda c: replace(c, speed=np.array([0.0])), "speed: must be 1e-06"),
        (lambda c: replace(c, capacity=np.array([[-1]])), "capacity: must be at least 0"),
        (lambda c: replace(c, capacity=np.array([[TOO_MUCH]])), "gpu: all servers offer"),
    ],
)
def test_a_cluster_made_in_python_is_checked_like_a_file(
    change: Callable[[Cluster], Cluster], said: str
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        build_world(job_table(JOBS), change(cluster_of([1])))
    assert said in str(refusal.value)


def test_jobs_that_take_longer_than_the_clock_runs_are_refused_before_the_run() -> None:
    # The clock runs for 2^61 us; 2^61 / (2^36 10^6) = 33.6 of the longest jobs fit at speed 1.
    def jobs(count: int) -> JobTable:
        return job_table([Job(0, 1, MAX_TIME_S)] * count)

    result = run_world(build_world(jobs(33), cluster_of([1])), create_policy("fifo"))
    assert result.jobs["finish_s"].to_list() == [MAX_TIME_S * (i + 1) for i in range(33)]
    with pytest.raises(InvalidInputError, match="duration_s: one after the other, on the slowest server"):
        build_world(jobs(34), cluster_of([1]))
    with pytest.raises(InvalidInputError, match="duration_s"):
        build_world(jobs(1), replace(cluster_of([1]), speed=np.array([0.01])))


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_jobs_that_the_end_of_the_clock_cuts_off_are_not_called_stalled(loop: Loop) -> None:
    # After an hour each job is preempted; to resume costs 2^36 s, and 67 such pauses fit in 2^62 us.
    jobs = job_table([Job(0, 1, 2 * HOUR)] * 70)
    world = build_world(jobs, cluster_of([1]), params={"restart_cost_s": MAX_TIME_S})
    result = run_world(world, create_policy("las"), loop=loop)
    assert result.jobs["finish_s"].drop_nulls().max() == 67 * MAX_TIME_S + (70 + 67) * HOUR
    assert result.summary.reasons == {"clock": 3}


def test_a_horizon_before_the_end_of_the_clock_is_the_reason_within_a_restart_pause() -> None:
    world = build_world(
        job_table(JOBS), cluster_of([1]), params={"restart_cost_s": MAX_TIME_S, "horizon_s": 50}
    )
    assert run_world(world, create_policy("srtf")).summary.reasons == {"horizon": 1}
