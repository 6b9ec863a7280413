"""The exact optimum of total utility, against trying everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import IntArray
from ray_sim.solvers.planning.slot_job import SlotJob
from ray_sim.solvers.utility_optimum import MOST_VARIABLES, Optimum, SearchLimits, utility_optimum
from tests.best_utility import best_utility, slot_jobs, tiny_world
from tests.proofs import instances

SOLVER = 1e-6
"""HiGHS's tolerance."""


def job(number: int, utility: list[float], **other: float) -> SlotJob:
    """The jobs of example 1.A: 100 samples, 2 worker-slots inside a server, 4 between two."""
    given = {"arrival": 0.0, "samples": 100.0, "most_workers": 4.0, **other}
    return SlotJob(
        number=number,
        arrival=int(given["arrival"]),
        samples=given["samples"],
        theta_internal=0.02,
        theta_external=0.04,
        most_workers=int(given["most_workers"]),
        workers_per_ps=1.0,
        worker_demand=np.array([2]),
        ps_demand=np.array([1]),
        utility=np.array(utility),
    )


def optimum(jobs: list[SlotJob], capacity: IntArray) -> Optimum:
    found = utility_optimum(jobs, capacity, SearchLimits())
    assert found.proven
    assert_holds(found, jobs, capacity)
    return found


def assert_holds(found: Optimum, jobs: list[SlotJob], capacity: IntArray) -> None:
    """The rows keep to capacities, to F and to gamma, and none lies before an arrival."""
    used: dict[tuple[int, int], IntArray] = {}
    tasks: dict[tuple[int, int], IntArray] = {}
    by_number = {job.number: job for job in jobs}
    for number, slot, server, workers, ps in found.rows.tolist():
        job = by_number[number]
        assert slot >= job.arrival
        demand = workers * job.worker_demand + ps * job.ps_demand
        used[slot, server] = used.get((slot, server), np.zeros(len(demand), dtype=np.int64)) + demand
        tasks[number, slot] = tasks.get((number, slot), np.zeros(2, dtype=np.int64)) + np.array([workers, ps])
    for (_, server), amount in used.items():
        assert (amount <= capacity[server]).all()
    for (number, _), (workers, ps) in tasks.items():
        assert workers <= by_number[number].most_workers
        assert workers <= by_number[number].workers_per_ps * ps


def test_the_optimum_of_the_example_of_three_jobs() -> None:
    """Example 1.A: 2 workers and 2 parameter servers fill the server's 6, so one job ends in each slot."""
    jobs = [job(0, [5.0, 4.0]), job(1, [9.0, 3.0]), job(2, [2.0, 1.0])]
    found = optimum(jobs, np.array([[6]]))
    assert found.utility == pytest.approx(9 + 4, rel=SOLVER)
    assert found.completed == {1: 0, 0: 1}
    assert found.rows.tolist() == [[0, 1, 0, 2, 2], [1, 0, 0, 2, 2]]


def test_a_job_that_spans_servers_trains_at_the_external_rate() -> None:
    """A server of 3 holds one worker and one parameter server: two of them give 2 of the 4 worker-slots."""
    assert optimum([job(0, [5.0, 4.0])], np.array([[3], [3]])).completed == {0: 1}
    assert optimum([job(0, [5.0])], np.array([[3], [3]])).utility == 0.0
    assert optimum([job(0, [5.0])], np.array([[3], [6]])).completed == {0: 0}


def test_nothing_is_done_before_a_job_comes() -> None:
    late = replace(job(0, [5.0]), arrival=1)
    assert optimum([late], np.array([[3]])).utility == 0.0
    assert optimum([replace(late, samples=50.0)], np.array([[3]])).completed == {0: 1}


def test_a_job_that_cannot_end_in_time_earns_nothing() -> None:
    slow = job(0, [5.0, 5.0], samples=1000.0)
    found = optimum([slow, job(1, [1.0, 1.0])], np.array([[100]]))
    assert found.completed.keys() == {1}
    assert found.utility == pytest.approx(1.0, rel=SOLVER)


def test_no_jobs_earn_nothing() -> None:
    assert optimum([], np.array([[6]])).utility == 0.0
    assert optimum([job(0, [0.0, 0.0])], np.array([[6]])).gap is None
    assert optimum([job(0, [5.0])], np.array([[0]])).utility == 0.0


def _agrees_with_enumeration(seeds: range) -> None:
    for seed in seeds:
        world = tiny_world(seed)
        jobs, capacity = slot_jobs(world), world.arrays.capacity
        best = best_utility(jobs, capacity)
        found = optimum(jobs, capacity)
        assert found.utility == pytest.approx(best, rel=SOLVER, abs=SOLVER), seed
        assert found.bound >= best * (1 - SOLVER), seed
        earned = sum(jobs[i].utility[slot - jobs[i].arrival] for i, slot in found.completed.items())
        assert found.utility == pytest.approx(earned), seed


@pytest.mark.slow
def test_it_is_what_trying_everything_finds() -> None:
    _agrees_with_enumeration(range(instances(700, 25)))


def test_a_search_that_is_cut_off_still_has_a_bound() -> None:
    draw = np.random.default_rng(0)
    jobs = [
        replace(job(i, sorted(draw.uniform(1, 9, 6), reverse=True)), samples=float(draw.integers(60, 300)))
        for i in range(8)
    ]
    capacity = np.array([[7], [8], [5]])
    cut = utility_optimum(jobs, capacity, SearchLimits(seconds=0.0))
    assert not cut.proven
    assert cut.bound >= cut.utility
    assert cut.bound <= sum(job.utility[0] for job in jobs) * (1 + SOLVER)
    assert_holds(cut, jobs, capacity)


def test_what_is_too_large_is_refused_with_its_size() -> None:
    many = [job(i, [1.0] * 100) for i in range(100)]
    size = 100 * 100 * (4 * 1 + 2)
    assert size > MOST_VARIABLES
    with pytest.raises(
        InvalidInputError, match=f"100 jobs on 1 servers in 100 slots take {size:,} variables"
    ):
        utility_optimum(many, np.array([[6]]), SearchLimits())


SOUND = job(7, [2.0, 1.0])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (replace(SOUND, utility=np.array([1.0, 2.0])), "never rise"),
        (replace(SOUND, utility=np.array([1.0, -2.0])), "at least 0"),
        (replace(SOUND, utility=np.array([np.nan, 1.0])), "at least 0"),
        (replace(SOUND, theta_internal=0.0), "slots per sample must be above 0"),
        (replace(SOUND, workers_per_ps=0.0), "workers per parameter server"),
        (replace(SOUND, most_workers=0), "most workers at least 1"),
        (replace(SOUND, samples=0.0), "samples and slots per sample must be above 0"),
    ],
)
def test_jobs_that_cannot_be_are_refused_by_number(wrong: SlotJob, text: str) -> None:
    with pytest.raises(InvalidInputError, match=f"job 7: .*{text}"):
        utility_optimum([wrong], np.array([[6]]), SearchLimits())


def test_a_negative_capacity_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="server 1 has"):
        utility_optimum([job(0, [1.0])], np.array([[6], [-1]]), SearchLimits())
