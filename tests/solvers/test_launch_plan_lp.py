"""The programme over launch plans: closed forms, and the best adaptive scheduler by trying everything."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.solvers import launch_plan_lp
from ray_sim.solvers.launch_plan_lp import launch_plan_bound
from ray_sim.solvers.welfare_optimum import best_welfare
from tests.best_welfare import Announced, best_adaptive, best_by_trying, outcomes, statements_of, tiny_jobs
from tests.proofs import instances

SOLVER = 3e-6
"""HiGHS's tolerance, and the factor by which bounds are rounded up."""
SIGNALS = ("none", "partial", "full")


def test_the_plan_of_one_job_follows_its_signal() -> None:
    """Example 4.A without prices: comes at 1 for 1 or 2 rounds, V = 4 up to round 2 and 2 at round 3."""
    job = Announced([4, 4, 4, 2], points=[(1, 1, 0.5), (1, 2, 0.5)])
    for signal in SIGNALS:
        assert 3 <= launch_plan_bound(statements_of([job], signal), 5, 9) <= 3 * (1 + SOLVER)


def test_a_scheduler_that_knows_which_job_is_short_starts_that_one() -> None:
    """One node; a job worth 1 if it lasts 1 round and nothing if 2, and a job surely worth 0.6.

    With the signal the node goes to the first job if it is short, for 1/2 + 0.6/2; without, to the second.
    """
    jobs = [Announced([1, 1], points=[(0, 1, 0.5), (0, 2, 0.5)]), Announced([0.6, 0.6])]
    assert launch_plan_bound(statements_of(jobs, "full"), 1, 3) == pytest.approx(0.5 + 0.3, rel=SOLVER)
    assert launch_plan_bound(statements_of(jobs, "none"), 1, 3) == pytest.approx(0.6, rel=SOLVER)


def test_capacity_holds_in_expectation() -> None:
    """Two jobs that come with probability 1/2 each in the one round that counts fit one node on average."""
    job = Announced([6, 6, 0, 0, 0], points=[(0, 1, 0.5), (3, 1, 0.5)])
    made = statements_of([job, job])
    assert launch_plan_bound(made, 1, 9) == pytest.approx(6, rel=SOLVER)
    expected = sum(p * best_by_trying([job, job], a, d, 1, 9) for p, a, d in outcomes([job, job]))
    assert expected == pytest.approx(6 * 0.75)


def test_a_plan_loads_a_round_by_the_probability_that_the_job_still_runs() -> None:
    """One node. Job 0 earns 2 after 1 or 2 rounds, each 0.5; job 1 earns 1 in round 1, half free."""
    jobs = [
        Announced([2, 2, 2], points=[(0, 1, 0.5), (0, 2, 0.5)]),
        Announced([1, 1, 1], points=[(1, 1, 1.0)]),
    ]
    for evictions in (True, False):
        bound = launch_plan_bound(statements_of(jobs, "none"), 1, 9, evictions=evictions)
        assert bound == pytest.approx(2.5, rel=SOLVER)


def test_schedulers_that_evict_can_beat_plans_that_do_not() -> None:
    """One node. Job 0 lasts 1 round, for 1, or 10, for nothing; job 1 comes at 1 and earns 1 after 9.

    Evicting job 0 after a round leaves both their chance, 0.5 + 1; without, round 1 has 0.5 x0 + x1 <= 1.
    """
    jobs = [Announced([1, 1], points=[(0, 1, 0.5), (0, 10, 0.5)]), Announced([1] * 11, points=[(1, 9, 1.0)])]
    made = statements_of(jobs, "none")
    assert launch_plan_bound(made, 1, 20, evictions=False) == pytest.approx(1, rel=SOLVER)
    assert launch_plan_bound(made, 1, 20) == pytest.approx(1.5, rel=SOLVER)
    assert best_adaptive(jobs, "none", 1, 20, evictions=True) == pytest.approx(1.5)


@pytest.mark.parametrize("chance", [0.5, 0.1, 0.01])
def test_no_blind_scheduler_competes_with_the_clairvoyant_one(chance: float) -> None:
    """C nodes, C / x jobs that are worth H if they last one round, with probability x, and else nothing.

    Blind starts earn C x H in expectation. After the fact k short jobs earn H min(C, k), and k is binomial.
    The ratio is E[min(C, k)] / (C x), which tends to 1 / x as C grows.
    """
    ratios = []
    for nodes in (1, 10, 100):
        count, high = round(nodes / chance), 8.0
        job = Announced([high, high, 0], points=[(0, 1, chance), (0, 2, 1 - chance)])
        for evictions in (True, False):
            blind = launch_plan_bound(
                statements_of([job], "none", copies=count), nodes, 3, evictions=evictions
            )
            assert blind == pytest.approx(nodes * chance * high, rel=SOLVER)
        told = launch_plan_bound(statements_of([job], "full", copies=count), nodes, 3)
        assert told == pytest.approx(nodes * high, rel=SOLVER)
        short = np.arange(count + 1)
        after_the_fact = high * float(binom.pmf(short, count, chance) @ np.minimum(short, nodes))
        assert after_the_fact <= told
        ratios.append(after_the_fact / blind)
    assert ratios == sorted(ratios)
    assert 0.95 / chance <= ratios[-1] <= 1 / chance


def test_the_clairvoyant_optimum_of_that_example_is_the_number_of_short_jobs() -> None:
    made = statements_of([Announced([8, 8, 0])] * 20)
    for short in (0, 1, 2, 3, 9):
        duration = np.where(np.arange(20) < short, 1, 2)
        found = best_welfare(made, np.zeros(20, dtype=np.int64), duration, 2, 3)
        assert found.welfare == 8 * min(2, short)


def test_jobs_of_equal_statements_share_variables() -> None:
    """The same jobs, with rows of their own and with one row for all."""
    for seed in range(10):
        jobs, nodes, rounds = tiny_jobs(seed)
        tripled = [job for job in jobs for _ in range(3)]
        apart = launch_plan_bound(statements_of(tripled, "none"), nodes, rounds)
        shared = launch_plan_bound(statements_of(jobs, "none", copies=3), nodes, rounds)
        assert shared == pytest.approx(apart, rel=SOLVER), seed


def test_no_adaptive_scheduler_earns_more() -> None:
    for seed in range(instances(1500, 8)):
        jobs, nodes, rounds = tiny_jobs(seed)
        for signal in SIGNALS:
            made = statements_of(jobs, signal)
            evicting = best_adaptive(jobs, signal, nodes, rounds, evictions=True)
            patient = best_adaptive(jobs, signal, nodes, rounds, evictions=False)
            assert patient <= evicting + 1e-9
            assert evicting <= launch_plan_bound(made, nodes, rounds) + 1e-9, (seed, signal)
            assert patient <= launch_plan_bound(made, nodes, rounds, evictions=False) + 1e-9, (seed, signal)


def test_if_durations_are_told_it_bounds_the_expected_clairvoyant_optimum() -> None:
    for seed in range(instances(1000, 5)):
        jobs, nodes, rounds = tiny_jobs(seed)
        bound = launch_plan_bound(statements_of(jobs, "full"), nodes, rounds)
        expected = sum(p * best_by_trying(jobs, a, d, nodes, rounds) for p, a, d in outcomes(jobs))
        assert expected <= bound + 1e-9, seed
        never = launch_plan_bound(statements_of(jobs, "full"), nodes, rounds, evictions=False)
        assert never == pytest.approx(bound, rel=SOLVER, abs=1e-9), seed


def test_knowing_more_or_evicting_never_lowers_the_bound() -> None:
    for seed in range(instances(1000, 5)):
        jobs, nodes, rounds = tiny_jobs(seed, jobs=5, points=5)
        bounds = [launch_plan_bound(statements_of(jobs, signal), nodes, rounds) for signal in SIGNALS]
        for less, more in pairwise(bounds):
            assert less <= more * (1 + SOLVER), seed
        for signal, bound in zip(SIGNALS, bounds, strict=True):
            plain = launch_plan_bound(statements_of(jobs, signal), nodes, rounds, evictions=False)
            assert plain <= bound * (1 + SOLVER), (seed, signal)


def test_jobs_that_fit_on_no_nodes_and_no_jobs_earn_nothing() -> None:
    assert launch_plan_bound(statements_of([Announced([9, 9], concurrency=3)]), 2, 5) == 0
    assert launch_plan_bound(statements_of([Announced([9, 9], concurrency=2)]), 2, 5) == pytest.approx(
        9, rel=SOLVER
    )
    assert launch_plan_bound(statements_of([]), 2, 5) == 0
    assert launch_plan_bound(statements_of([Announced([9, 9])]), 2, 0) == 0


def test_what_is_too_large_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Announced([1] * 12, points=[(0, 1, 0.5), (0, 3, 0.5)])
    monkeypatch.setattr(launch_plan_lp, "MOST_VARIABLES", 19)
    with pytest.raises(
        InvalidScenarioError, match=r"over launch plans: .* 20 variables .* 38 loads, more than 19"
    ):
        launch_plan_bound(statements_of([job], "none"), 1, 1000)
