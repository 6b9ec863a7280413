"""The best welfare after the fact and its linear relaxation, against trying everything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.statement import NANO, NEVER_ROUND, Statements
from ray_sim.model.units import IntArray
from ray_sim.solvers import welfare_optimum
from ray_sim.solvers.utility_optimum import SearchLimits
from ray_sim.solvers.welfare_optimum import BestWelfare, best_welfare, fitting, fractional_welfare
from tests.best_welfare import Announced, best_by_trying, statements_of, tiny_jobs, without_chance
from tests.proofs import instances

SOLVER = 3e-6
"""HiGHS's tolerance, and the factor by which bounds are rounded up."""


def rounds_of(*numbers: int) -> IntArray:
    return np.array(numbers, dtype=np.int64)


def assert_fits(
    found: BestWelfare, made: Statements, arrival: IntArray, duration: IntArray, nodes: int, rounds: int
) -> None:
    """Starts keep to arrivals, to the nodes and to the horizon, and earn the welfare."""
    load, earned = np.zeros(rounds, dtype=np.int64), 0
    for j in np.flatnonzero(found.starts != NEVER_ROUND).tolist():
        start, end = int(found.starts[j]), int(found.starts[j] + duration[j])
        assert arrival[j] <= start
        assert end <= rounds
        load[start:end] += made.concurrency[j]
        earned += int(made.values[made.value_row[j], end - made.birth[j]])
    assert (load <= nodes).all()
    assert found.welfare == pytest.approx(earned / NANO, rel=1e-15)


def test_two_jobs_on_one_node_take_turns_in_the_better_order() -> None:
    """First the one that loses 9 - 2 by waiting, then the one that loses 5 - 4."""
    made = statements_of([Announced([5, 5, 4]), Announced([9, 9, 2])])
    found = best_welfare(made, rounds_of(0, 0), rounds_of(1, 1), 1, 5)
    assert found.proven
    assert found.welfare == 13
    assert found.starts.tolist() == [1, 0]


def test_a_later_start_of_equal_value_makes_room() -> None:
    """Both earn 4; only if the one that can wait does wait."""
    made = statements_of([Announced([4, 4, 4, 4]), Announced([4, 4])])
    assert best_welfare(made, rounds_of(0, 0), rounds_of(1, 1), 1, 5).starts.tolist() == [1, 0]


def test_values_count_from_the_birth_and_starts_from_the_arrival() -> None:
    """Born at 2, comes at 4, runs for 2 rounds: the finish at 6 is 4 rounds after the birth."""
    made = statements_of([Announced([9, 8, 7, 6, 5], birth=2)])
    assert best_welfare(made, rounds_of(4), rounds_of(2), 1, 6).welfare == 5
    assert best_welfare(made, rounds_of(4), rounds_of(2), 1, 5).welfare == 0
    assert best_welfare(made, rounds_of(5), rounds_of(2), 1, 9).welfare == 0


def test_a_job_larger_than_the_nodes_earns_nothing() -> None:
    made = statements_of([Announced([9, 9], concurrency=3)])
    assert best_welfare(made, rounds_of(0), rounds_of(1), 3, 5).welfare == 9
    found = best_welfare(made, rounds_of(0), rounds_of(1), 2, 5)
    assert (found.welfare, found.bound, found.proven) == (0, 0, True)
    assert found.starts.tolist() == [NEVER_ROUND]
    assert fractional_welfare(made, rounds_of(0), rounds_of(1), 2, 5) == 0


def test_a_job_that_never_comes_earns_nothing() -> None:
    made = statements_of([Announced([9, 9])])
    assert best_welfare(made, rounds_of(NEVER_ROUND), rounds_of(1), 1, 5).welfare == 0


def test_no_jobs_earn_nothing() -> None:
    made, none = statements_of([]), rounds_of()
    assert best_welfare(made, none, none, 1, 5).welfare == 0
    assert fractional_welfare(made, none, none, 1, 5) == 0


def test_fractions_earn_more_where_jobs_do_not_fit_side_by_side() -> None:
    """Two jobs of 2 nodes on 3 nodes, worth 6 in the one round that counts: one and a half of them."""
    made = statements_of([Announced([6, 6], concurrency=2)] * 2)
    realised = made, rounds_of(0, 0), rounds_of(1, 1), 3, 5
    assert best_welfare(*realised).welfare == 6
    assert fractional_welfare(*realised) == pytest.approx(9, rel=SOLVER)


def test_no_vector_of_starts_is_better() -> None:
    for seed in range(instances(3000, 60)):
        jobs, nodes, rounds = tiny_jobs(seed, jobs=4)
        arrival, duration = without_chance(jobs, seed)
        made = statements_of(jobs)
        found = best_welfare(made, arrival, duration, nodes, rounds)
        assert_fits(found, made, arrival, duration, nodes, rounds)
        best = best_by_trying(jobs, arrival, duration, nodes, rounds)
        assert found.proven, seed
        assert found.welfare == pytest.approx(best), seed
        assert found.bound >= best * (1 - SOLVER), seed
        assert fractional_welfare(made, arrival, duration, nodes, rounds) >= best, seed


def crowd(seed: int, jobs: int) -> tuple[Statements, IntArray, IntArray, int, int]:
    """Jobs that ask for more than 7 nodes offer."""
    draw = np.random.default_rng(seed)
    made = statements_of(
        [
            Announced(
                np.sort(draw.uniform(1, 9, 20))[::-1].tolist(),
                birth=birth,
                concurrency=int(draw.integers(1, 5)),
            )
            for birth in np.sort(draw.integers(0, 20, jobs)).tolist()
        ]
    )
    return made, made.birth + draw.integers(0, 3, jobs), draw.integers(1, 8, jobs), 7, 40


def test_values_of_very_different_size_are_all_counted() -> None:
    """A value of 1e-9 of a unit beside one of a unit is within HiGHS's tolerance, one of 1e-4 is not."""
    made = statements_of([Announced([1, 1]), Announced([1e-4, 1e-4]), Announced([2e-4, 2e-4])])
    found = best_welfare(made, rounds_of(0, 0, 0), rounds_of(1, 1, 1), 2, 3)
    assert found.welfare == pytest.approx(1.0002, rel=1e-12)


def test_all_scales_with_the_values() -> None:
    made, arrival, duration, nodes, rounds = crowd(3, 12)
    larger = replace(made, values=made.values * 1000)
    best, best_larger = (best_welfare(each, arrival, duration, nodes, rounds) for each in (made, larger))
    assert best_larger.welfare == pytest.approx(1000 * best.welfare, rel=SOLVER)


@pytest.mark.slow
def test_a_search_that_is_cut_off_still_has_a_bound() -> None:
    realised = crowd(2, 14)
    best = best_welfare(*realised)
    assert best.proven
    assert best.welfare <= fractional_welfare(*realised)
    cut = best_welfare(*realised, limits=SearchLimits(nodes=1))
    assert not cut.proven
    assert_fits(cut, *realised)
    assert cut.welfare <= best.welfare < cut.bound
    again = best_welfare(*realised, limits=SearchLimits(nodes=1))
    assert (again.welfare, again.bound, again.starts.tolist()) == (
        cut.welfare,
        cut.bound,
        cut.starts.tolist(),
    )


@pytest.mark.slow
def test_a_search_that_found_nothing_starts_nothing() -> None:
    """The bound is still that of the relaxation or of what all jobs would earn alone."""
    realised = crowd(2, 14)
    cut = best_welfare(*realised, limits=SearchLimits(nodes=0))
    assert not cut.proven
    assert (cut.welfare, set(cut.starts.tolist())) == (0, {NEVER_ROUND})
    assert cut.bound >= best_welfare(*realised).welfare


def test_starts_that_do_not_fit_are_dropped() -> None:
    made = statements_of([Announced([9, 9], concurrency=2)] * 3)
    starts = fitting(made, rounds_of(2, 1, 2), rounds_of(0, 1, 2), 3)
    assert starts.tolist() == [0, NEVER_ROUND, 2]
    assert fitting(made, rounds_of(2, 1, 2), rounds_of(0, 1, 2), 4).tolist() == [0, 1, 2]


def test_what_is_too_large_is_refused_with_its_size() -> None:
    made = statements_of([Announced([1.0] * 102)] * 300)
    realised = made, np.zeros(300, dtype=np.int64), np.ones(300, dtype=np.int64), 1, 1000
    assert welfare_optimum.MOST_VARIABLES < 300 * 101
    for solve in (best_welfare, fractional_welfare):
        with pytest.raises(
            InvalidScenarioError, match=r"30,300 variables .* more than 20,000 .* take fewer jobs"
        ):
            solve(*realised)


def test_loads_that_are_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = statements_of([Announced([1.0] * 12)])
    monkeypatch.setattr(welfare_optimum, "MOST_LOADS", 20)
    with pytest.raises(InvalidScenarioError, match=r"7 variables .* and 35 loads, more than .* or 20"):
        best_welfare(made, rounds_of(0), rounds_of(5), 1, 1000)


@pytest.mark.parametrize(
    ("arrival", "duration", "text"),
    [
        ([0, 1], [1, 1], "arrival: row 1 is 1, expected at least 2"),
        ([0, 2], [1, 0], "duration: row 1 is 0, expected at least 1"),
        ([0], [1, 1], "arrival: expected 2 rounds"),
        ([0, 2], [1], "duration: expected 2 rounds"),
    ],
)
def test_realisations_that_cannot_be_are_refused_by_row(
    arrival: list[int], duration: list[int], text: str
) -> None:
    made = statements_of([Announced([9, 9]), Announced([9, 9], birth=2)])
    with pytest.raises(InvalidInputError, match=text):
        best_welfare(made, rounds_of(*arrival), rounds_of(*duration), 1, 5)
