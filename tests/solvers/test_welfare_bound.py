"""The cheap bound on welfare: never below the optimum, exact without contention, close to the LP."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.kernels.planning.best_starts import total_surplus
from ray_sim.model.statement import NANO, NEVER_ROUND, Outlooks, Statements
from ray_sim.model.units import IntArray
from ray_sim.solvers import welfare_bound as bound_module
from ray_sim.solvers.realised_jobs import realised_jobs
from ray_sim.solvers.welfare_bound import _choices, _PricedRounds, welfare_bound
from ray_sim.solvers.welfare_optimum import fractional_welfare
from tests.best_welfare import Announced, best_by_trying, statements_of, tiny_jobs, without_chance, worth
from tests.proofs import instances, quick_first

ROUNDED = 2e-9
SOLVER = 3e-6


def crowd(
    seed: int, jobs: int, overload: float, *, linear: bool = True
) -> tuple[Statements, IntArray, IntArray, int, int]:
    """Jobs of 1 to 16 nodes and some 20 rounds each that ask for ``overload`` times what 50 nodes offer."""
    draw = np.random.default_rng(seed)
    longest = 120
    duration = np.minimum(1 + draw.geometric(1 / 20, jobs), longest // 2)
    concurrency = 2 ** draw.integers(0, 5, jobs)
    rounds = longest + int((duration * concurrency).sum() / (50 * overload))
    life, most = draw.integers(longest // 2, longest, (64, 1)), 20 * np.exp(draw.normal(0, 1, (64, 1)))
    after = np.arange(longest + 1)
    worth = most * (np.maximum(1 - after / life, 0) if linear else after <= life)
    worth[:, -1] = 0
    birth = np.sort(draw.integers(0, rounds - longest, jobs))
    row = draw.integers(0, 64, jobs)
    one = Outlooks(*(np.array([x]) for x in (0, 0, 1, 1.0, 1)))
    made = Statements(birth, concurrency, row, np.zeros_like(row), (worth * NANO).astype(np.int64), one)
    return made, birth + draw.integers(0, 3, jobs), duration, 50, rounds


def test_two_jobs_that_share_a_node() -> None:
    """At prices 3 and 0 of rounds 0 and 1, job 0 gains 4 in round 1 and job 1 9 - 3 in round 0: 4 + 6 + 3."""
    made = statements_of([Announced([5, 5, 4]), Announced([9, 9, 2])])
    bound = welfare_bound(made, np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64), 1, 5)
    assert 13 <= bound <= 13.2


def test_without_contention_it_is_what_all_jobs_earn_alone() -> None:
    for seed in range(instances(1000, 50)):
        jobs, _, rounds = tiny_jobs(seed, jobs=5)
        arrival, duration = without_chance(jobs, seed)
        nodes = sum(job.concurrency for job in jobs)
        alone = sum(
            worth(job, a + d)
            for job, a, d in zip(jobs, arrival.tolist(), duration.tolist(), strict=True)
            if a + d <= rounds
        )
        found = welfare_bound(statements_of(jobs), arrival, duration, nodes, rounds)
        assert found == pytest.approx(alone, rel=ROUNDED), seed


def test_no_vector_of_starts_beats_it() -> None:
    for seed in range(instances(5000, 100)):
        jobs, nodes, rounds = tiny_jobs(seed, jobs=4)
        arrival, duration = without_chance(jobs, seed)
        made = statements_of(jobs)
        found = welfare_bound(made, arrival, duration, nodes, rounds)
        assert found >= best_by_trying(jobs, arrival, duration, nodes, rounds), seed


def test_any_prices_give_a_bound() -> None:
    """The search may stop anywhere: L is a bound at random prices, and in buckets of several rounds."""
    for seed in range(instances(5000, 100)):
        jobs, nodes, rounds = tiny_jobs(seed, jobs=4)
        arrival, duration = without_chance(jobs, seed)
        draw = np.random.default_rng(seed)
        starts = np.arange(0, rounds, int(draw.integers(1, 3)))
        realised = realised_jobs(statements_of(jobs), arrival, duration, nodes, rounds)
        priced = _PricedRounds(_choices(realised), nodes, starts, rounds)
        value, _ = priced.value(draw.uniform(0, 4, len(starts)) * draw.integers(0, 2, len(starts)))
        assert value >= best_by_trying(jobs, arrival, duration, nodes, rounds) - 1e-9, seed


def test_the_slope_is_a_subgradient() -> None:
    """L(q) >= L(p) + (q - p) slope(p) for any prices p and q."""
    made, arrival, duration, nodes, rounds = crowd(1, 60, 2.0)
    starts = np.arange(0, rounds, 7)
    priced = _PricedRounds(
        _choices(realised_jobs(made, arrival, duration, nodes, rounds)), nodes, starts, rounds
    )
    draw = np.random.default_rng(0)
    for p, q in draw.uniform(0, 0.5, (200, 2, len(starts))):
        here, slope = priced.value(p)
        assert priced.value(q)[0] >= here + float((q - p) @ slope) - 1e-9


@pytest.mark.parametrize(
    ("overload", "linear", "most"), quick_first([(1.3, True, 0.01), (3.0, True, 0.01), (2.0, False, 0.01)])
)
def test_it_is_close_to_the_linear_relaxation(overload: float, linear: bool, most: float) -> None:
    """With prices for buckets of up to 3 rounds."""
    realised = crowd(2, 120, overload, linear=linear)
    relaxed = fractional_welfare(*realised)
    found = welfare_bound(*realised)
    assert relaxed * (1 - SOLVER) <= found <= relaxed * (1 + most)


def test_a_sample_sets_the_prices_of_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices that are found with a fifth of the jobs give a bound that is little higher."""
    realised = crowd(3, 2000, 2.0)
    full = welfare_bound(*realised)
    monkeypatch.setattr(bound_module, "MOST_SEARCHED", 400)
    sampled = welfare_bound(*realised)
    assert full < sampled < full * 1.03


def test_it_is_the_same_every_time() -> None:
    realised = crowd(4, 500, 2.0)
    assert welfare_bound(*realised) == welfare_bound(*realised)


def test_more_nodes_or_fewer_jobs_never_let_it_pass_what_all_earn_alone() -> None:
    made, arrival, duration, _, rounds = crowd(5, 300, 1.5)
    ample = int(made.concurrency.sum())
    alone = welfare_bound(made, arrival, duration, ample, rounds)
    bounds = [welfare_bound(made, arrival, duration, nodes, rounds) for nodes in (16, 32, 64, 128)]
    assert bounds == sorted(bounds)
    assert bounds[-1] <= alone * (1 + ROUNDED)
    assert bounds[0] < 0.8 * alone


def test_jobs_that_earn_nothing_do_not_count() -> None:
    made = statements_of([Announced([9, 9]), Announced([9, 9], concurrency=3), Announced([9, 9])])
    arrival, duration = np.array([0, 0, NEVER_ROUND]), np.array([1, 1, 1])
    assert welfare_bound(made, arrival, duration, 2, 5) == pytest.approx(9, rel=ROUNDED)
    assert welfare_bound(made, arrival, duration, 0, 5) == 0
    assert welfare_bound(made, arrival, duration, 2, 0) == 0


def test_the_scan_finds_the_earliest_best_start() -> None:
    """Values 9, 9, 7, 7 at starts 0 to 3; at prices 3, 1, 0, 0 the surplus is 6, 8, 7, 7. Ties: earliest."""
    made = statements_of([Announced([9, 9, 9, 7, 7])])
    choices = _choices(realised_jobs(made, np.array([0]), np.array([1]), 1, 9))
    for prices, surplus, start in (
        ([3, 1, 0, 0], 8, 1),
        ([0, 0, 0, 0], 9, 0),
        ([3, 3, 1, 1], 6, 0),
        ([3, 3, 0, 0], 7, 2),
        ([9] * 4, 0, None),
    ):
        change = np.zeros(10)
        before = np.concatenate([[0.0], np.cumsum(np.array([*prices, *[9.0] * 5], dtype=np.float64))])
        assert total_surplus(choices, before, change) == surplus
        expected = np.zeros(10)
        if start is not None:
            expected[[start, start + 1]] = 1, -1
        assert change.tolist() == expected.tolist()
