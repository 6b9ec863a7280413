"""Policies over common seeds: pairs, baseline, verdict, and what is said about few or missing pairs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest

from ray_sim.model.errors import UnknownNameError
from ray_sim.reports.compare import (
    GroupComparison,
    SignificanceVerdict,
    compare_policies,
    completion_note,
    completion_notes,
    default_metric,
    lower_is_better,
)
from ray_sim.reports.small_tables import comparison_table

Values = Mapping[int, float] | Mapping[None, float]


def _runs(**policies: Values) -> pl.DataFrame:
    """Runs by policy and seed, each of 10 completed jobs."""
    rows = [
        (policy, seed, value, 10) for policy, values in policies.items() for seed, value in values.items()
    ]
    schema = {"policy": pl.String, "seed": pl.Int64, "value": pl.Float64, "completed": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _over(count: int, level: float, step: float = 1.0) -> dict[int, float]:
    return {seed: level + step * (seed % 7) for seed in range(count)}


def _drawn(draw: int) -> dict[str, Values]:
    """Three policies of 15 seeds that differ by chance alone."""
    noise = np.random.default_rng(draw).normal(10.0, 1.0, (3, 15)).tolist()
    return {name: dict(enumerate(values)) for name, values in zip(("fifo", "las", "sjf"), noise, strict=True)}


def test_the_difference_is_the_mean_over_pairs_and_the_percentage_that_of_the_means() -> None:
    # 12 - 10 = 2 and 26 - 20 = 6: mean 4. Means 19 and 15: 19 / 15 - 1 = 26.67 %.
    (las,) = compare_policies(_runs(fifo={0: 10.0, 1: 20.0}, las={0: 12.0, 1: 26.0}), "jct_s.mean").policies
    assert (las.policy, las.pairs, las.mean, las.baseline_mean, las.difference) == ("las", 2, 19.0, 15.0, 4.0)
    assert las.relative_percent == pytest.approx(100 * 4 / 15, rel=1e-12)
    assert las.superiority == 0.0
    # d_z: mean 4 over standard deviation sqrt(2^2 + 2^2).
    assert las.effect_size == pytest.approx(4 / np.sqrt(8), rel=1e-12)
    assert las.p_value == 0.5  # 2 of 4 sign patterns


def test_twelve_seeds_of_one_sign_are_a_verdict() -> None:
    las = {seed: value + 5.0 + 0.1 * seed for seed, value in _over(12, 100.0).items()}
    compared = compare_policies(_runs(fifo=_over(12, 100.0), las=las), "jct_s.mean")
    assert compared.baseline == "fifo"  # the lower mean
    assert compared.policies[0].verdict is SignificanceVerdict.WORSE
    assert compared.policies[0].p_value == pytest.approx(2 / 4096, rel=1e-12)
    assert compared.notes == ()
    other_way = compare_policies(_runs(fifo=_over(12, 100.0), las=las), "jct_s.mean", baseline="las")
    assert other_way.policies[0].verdict is SignificanceVerdict.BETTER
    assert other_way.policies[0].superiority == 1.0


def test_more_utilisation_is_better() -> None:
    runs = _runs(fifo=_over(8, 0.5, 0.01), las=_over(8, 0.8, 0.01))
    compared = compare_policies(runs, "utilisation.gpu")
    assert compared.baseline == "las"
    assert compared.policies[0].verdict is SignificanceVerdict.WORSE
    assert [lower_is_better(metric) for metric in ("jct_s.p99", "makespan_s", "completed")] == [
        True,
        True,
        False,
    ]


def test_more_welfare_and_fewer_evictions_are_better() -> None:
    earned = [f"welfare.{name}" for name in ("welfare", "revenue", "surplus", "fates.completed")]
    assert not any(lower_is_better(metric) for metric in [*earned, "policy_figures.planned_welfare"])
    assert lower_is_better("welfare.eviction_rate")
    assert lower_is_better("welfare.jct_from_arrival_s.mean")


def test_the_welfare_is_compared_only_if_every_run_has_one() -> None:
    announced, other = {"jct_s.mean", "welfare.welfare"}, {"jct_s.mean"}
    assert default_metric([announced, announced]) == "welfare.welfare"
    assert default_metric([announced, other]) == default_metric([other]) == default_metric([]) == "jct_s.mean"


def test_noise_around_nothing_is_not_distinguishable() -> None:
    assert (
        compare_policies(_runs(**_drawn(5)), "jct_s.mean").policies[0].verdict
        is SignificanceVerdict.NOT_DISTINGUISHABLE
    )


def test_holm_is_over_the_policies_of_the_group() -> None:
    # 6 pairs of one sign: p = 2 / 64 = 0.031. Alone that is real, beside an equal second one it is not.
    worse = {seed: value + 1 for seed, value in _over(6, 10.0).items()}
    alone = compare_policies(_runs(fifo=_over(6, 10.0), las=worse), "jct_s.mean")
    assert alone.policies[0].verdict is SignificanceVerdict.WORSE
    beside = compare_policies(_runs(fifo=_over(6, 10.0), las=worse, sjf=worse), "jct_s.mean")
    assert [each.p_holm for each in beside.policies] == [4 / 64, 4 / 64]
    assert {(each.verdict, each.seeds_needed) for each in beside.policies} == {
        (SignificanceVerdict.TOO_FEW_SEEDS, 7)
    }


def test_a_pair_that_one_baseline_tells_apart_another_may_not() -> None:
    # Flipped signs: 4 of 128 patterns reach |a - b|, 2 reach |a - c|, many |b - c|.
    b = _over(7, 10.0)
    a = {seed: value + each for (seed, value), each in zip(b.items(), (1, 2, 3, 4, 5, 6, -0.5), strict=True)}
    near = (-0.5, -0.5, -0.5, 0.5, -0.5, 0.5, 1.0)
    c = {seed: value - each for (seed, value), each in zip(b.items(), near, strict=True)}
    by_a, by_b = (compare_policies(_runs(a=a, b=b, c=c), "jct_s.mean", baseline) for baseline in "ab")
    found = {each.policy: (each.p_holm, each.verdict) for each in by_a.policies}
    assert found["b"] == (4 / 128, SignificanceVerdict.BETTER)
    found = {each.policy: (each.p_holm, each.verdict) for each in by_b.policies}
    assert found["a"] == (8 / 128, SignificanceVerdict.NOT_DISTINGUISHABLE)


def test_too_few_seeds_are_no_verdict_and_the_number_needed_is_one() -> None:
    # -97.6 % in 5 of 5 seeds: least p 2 / 2^5 = 0.0625. With 6, 2 / 2^6 = 0.031.
    fast = {seed: 24.0 + 0.1 * seed for seed in range(6)}
    slow = {seed: 1000.0 + 3.0 * seed for seed in range(6)}
    five = _runs(fifo=slow, las=fast).filter(pl.col("seed") < 5)
    (las,) = compare_policies(five, "jct_s.mean", "fifo").policies
    assert las.relative_percent == pytest.approx(-97.6, abs=0.05)
    assert (las.superiority, las.verdict, las.seeds_needed) == (1.0, SignificanceVerdict.TOO_FEW_SEEDS, 6)
    (las,) = compare_policies(_runs(fifo=slow, las=fast), "jct_s.mean", "fifo").policies
    assert (las.verdict, las.seeds_needed) == (SignificanceVerdict.BETTER, None)


def test_no_verdict_contradicts_the_interval() -> None:
    # 19 differences of 1 and one of 30: 2 of 2^20 sign patterns are as extreme. But the t interval is wide:
    # mean 2.45, standard deviation 6.485, t of 19 degrees of freedom 2.093, 2.45 -+ 3.035.
    base = dict.fromkeys(range(20), 100.0)
    las = {seed: 130.0 if seed == 0 else 101.0 for seed in base}
    (found,) = compare_policies(_runs(fifo=base, las=las), "jct_s.mean", "fifo").policies
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((2.45 - 3.035, 2.45 + 3.035), abs=1e-3)
    assert found.p_holm is not None
    assert found.p_holm <= 0.05
    assert found.verdict is SignificanceVerdict.NOT_DISTINGUISHABLE


def test_policies_that_are_alike_in_every_seed_need_no_more_seeds() -> None:
    (las,) = compare_policies(_runs(fifo=_over(3, 10.0), las=_over(3, 10.0)), "jct_s.mean", "fifo").policies
    assert (las.verdict, las.seeds_needed) == (SignificanceVerdict.NOT_DISTINGUISHABLE, None)


def test_only_common_seeds_count_and_the_others_are_counted() -> None:
    runs = _runs(fifo={0: 10.0, 1: 20.0, 2: 900.0}, las={0: 12.0, 1: 26.0, 5: 1.0, 6: 1.0})
    compared = compare_policies(runs, "jct_s.mean")
    # Over seeds 0 and 1 fifo has the lower mean, 15 to 19; over all it has not.
    assert compared.baseline == "fifo"
    assert (compared.policies[0].pairs, compared.policies[0].runs) == (2, 4)
    assert compared.policies[0].difference == 4.0
    assert compared.notes == (
        "2 of 4 seeds of las left out: fifo lacks them",
        "1 of 3 seeds of fifo left out: las lacks them",
    )


def test_no_common_seed_is_no_comparison() -> None:
    (las,) = compare_policies(_runs(fifo={0: 1.0}, las={1: 2.0}), "jct_s.mean").policies
    assert (las.pairs, las.difference, las.verdict) == (0, None, SignificanceVerdict.NOT_TESTED)


def test_one_pair_is_a_difference_without_an_interval() -> None:
    compared = compare_policies(_runs(fifo={None: 10.0}, las={None: 15.0}), "jct_s.mean")
    (las,) = compared.policies
    assert (las.pairs, las.difference, las.relative_percent) == (1, 5.0, 50.0)
    assert (las.interval, las.p_value, las.effect_size) == (None, None, None)
    assert las.verdict is SignificanceVerdict.NOT_TESTED
    assert compared.notes == (
        "n = 1: a difference without an interval and without a test",
        "seed-free: no run here depends on a seed",
    )


def test_a_run_that_needs_no_seed_is_paired_with_every_seed() -> None:
    compared = compare_policies(_runs(fifo={None: 10.0}, lottery=_over(7, 12.0)), "jct_s.mean")
    (lottery,) = compared.policies
    # 12 to 18 minus 10: 2 to 8, mean 5.
    assert (lottery.pairs, lottery.difference) == (7, 5.0)
    assert "seed-free, paired with every seed of the others: fifo" in compared.notes


def test_unequal_numbers_of_completed_jobs_are_said() -> None:
    runs = _runs(fifo=_over(7, 10.0), las=_over(7, 12.0))
    fewer = runs.with_columns(completed=pl.when(policy="las").then(8).otherwise("completed"))
    compared = compare_policies(fewer, "jct_s.mean")
    assert compared.notes == (
        "different numbers of completed jobs, on average 8 (las) to 10 (fifo); times are over completed jobs "
        "only",
    )
    table = comparison_table(compared)
    at = table.columns.index("completed")
    assert [(row[0].text, row[at].text) for row in table.rows] == [("fifo", "10"), ("las", "8")]
    assert "completed" not in comparison_table(compare_policies(runs, "jct_s.mean")).columns


def test_the_order_of_the_runs_does_not_matter() -> None:
    runs = _runs(**_drawn(6))
    shuffled = runs.sample(fraction=1.0, shuffle=True, seed=3)
    assert compare_policies(shuffled, "jct_s.mean") == compare_policies(runs, "jct_s.mean")


def test_another_policy_beside_them_changes_no_interval() -> None:
    parts = _drawn(7)

    def las(compared: GroupComparison) -> object:
        return next(each.interval for each in compared.policies if each.policy == "las")

    few = compare_policies(_runs(fifo=parts["fifo"], las=parts["las"]), "jct_s.mean", "fifo")
    assert las(few) == las(compare_policies(_runs(**parts), "jct_s.mean", "fifo"))


def test_a_baseline_may_leave_out_its_parameters_where_that_is_clear() -> None:
    runs = pl.concat(
        [
            _runs(fifo={0: 1.0, 1: 2.0}),
            *(_runs(x={0: 3.0, 1: 4.0}).with_columns(policy=pl.lit(f"las(knob={k})")) for k in (1, 2)),
        ]
    )
    assert compare_policies(runs, "jct_s.mean", "las(knob=2)").baseline == "las(knob=2)"
    with pytest.raises(UnknownNameError, match=r"unknown baseline 'las'\..*las\(knob=1\), las\(knob=2\)"):
        compare_policies(runs, "jct_s.mean", "las")
    with pytest.raises(UnknownNameError, match="Did you mean 'fifo'"):
        compare_policies(runs, "jct_s.mean", "fiffo")
    clear = runs.filter(pl.col("policy") != "las(knob=1)")
    with pytest.raises(UnknownNameError, match=r"Did you mean 'las'\? Known: fifo, las, las\(knob=2\)"):
        compare_policies(clear, "jct_s.mean", "lass")
    assert compare_policies(clear, "jct_s.mean", "las").baseline == "las(knob=2)"


def test_equal_numbers_with_each_common_seed_need_no_remark() -> None:
    # Seed 1 draws fewer jobs; las lacks seed 2.
    fifo = [("fifo", 0, 10), ("fifo", 1, 8), ("fifo", 2, 3)]
    assert completion_note([*fifo, ("las", 0, 10), ("las", 1, 8)]) is None
    assert completion_note([*fifo, ("las", 7, 1)]) is None  # no common seed
    assert completion_note(fifo) is None
    assert completion_note([]) is None


def test_the_least_and_the_most_are_named() -> None:
    runs = [("fifo", None, 10), ("las", 0, 10), ("las", 1, 9), ("sjf", 0, 0), ("sjf", 1, 1)]
    assert completion_note(runs) == (
        "different numbers of completed jobs, on average 0.5 (sjf) to 10 (fifo); times are over completed "
        "jobs only"
    )


def test_places_are_compared_each_by_itself() -> None:
    runs = [("edge", "fifo", 0, 3), ("pool", "fifo", 0, 5), ("edge", "las", 0, 3), ("pool", "las", 0, 4)]
    (place,) = completion_notes(runs)
    assert place == "pool"
