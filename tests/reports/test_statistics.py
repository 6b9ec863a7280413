"""Intervals cover as often as they say, tests and corrections give what a hand gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ray_sim.reports import statistics
from ray_sim.reports.statistics import (
    FEWEST_VALUES,
    ConfidenceInterval,
    ValueRange,
    cohens_d_z,
    holm,
    interval_text,
    mean_interval,
    metric_range,
    paired_difference,
    pairs_needed,
    ratio_interval,
    ratio_of_means,
    sign_flip_p_value,
    superiority,
)


def _stream(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_differences_are_taken_pair_by_pair() -> None:
    np.testing.assert_array_equal(paired_difference(np.array([3.0, 5.0]), np.array([1.0, 9.0])), [2.0, -4.0])


def test_samples_that_cannot_be_paired_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sample has shape \(2,\), baseline \(3,\)"):
        paired_difference(np.zeros(2), np.zeros(3))


@pytest.mark.parametrize("pairs", [5, 7, 40])
def test_the_interval_of_a_mean_is_that_of_the_t_test(pairs: int) -> None:
    sample = _stream(1).lognormal(7.0, 2.0, pairs)
    expected = stats.ttest_1samp(sample, 0.0).confidence_interval(0.95)
    found = mean_interval(sample)
    assert found is not None
    assert found.low == pytest.approx(float(expected.low), rel=1e-12)
    assert found.high == pytest.approx(float(expected.high), rel=1e-12)


def test_intervals_of_three_values_by_hand() -> None:
    # Mean 4, standard deviation 2; t of 2 degrees of freedom has a closed form, 4.302653 at 97.5 %.
    sample = np.array([2.0, 4.0, 6.0])
    half = 0.95 * math.sqrt(2 / (4 * 0.975 * 0.025)) * 2 / math.sqrt(3)
    assert _ends(mean_interval(sample, fewest=3)) == pytest.approx((4 - half, 4 + half), rel=1e-9)
    # The logarithm of the mean has the half width of the mean over the mean.
    factor = math.exp(half / 4)
    times = _ends(mean_interval(sample, ValueRange.NOT_NEGATIVE, 3))
    assert times == pytest.approx((4 / factor, 4 * factor), rel=1e-9)
    # The logit of a mean of 0.4 has that of the mean over 0.4 (1 - 0.4), and odds of 0.4 / 0.6.
    odds = [0.4 / 0.6 * math.exp(sign * half / 10 / (0.4 * 0.6)) for sign in (-1, 1)]
    shares = _ends(mean_interval(sample / 10, ValueRange.SHARE, 3))
    assert shares == pytest.approx([each / (1 + each) for each in odds], rel=1e-9)


def _ends(interval: ConfidenceInterval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


@given(st.lists(st.floats(0, 1), min_size=FEWEST_VALUES, max_size=9))
def test_intervals_stay_in_the_range_of_the_values_and_hold_their_mean(values: list[float]) -> None:
    sample = np.array(values)
    low, high = _ends(mean_interval(sample, ValueRange.SHARE))
    assert 0 <= low <= np.mean(sample) * (1 + 1e-9)
    assert np.mean(sample) * (1 - 1e-9) <= high <= 1
    low, high = _ends(mean_interval(sample * 1e6, ValueRange.NOT_NEGATIVE))
    assert 0 <= low <= np.mean(sample) * 1e6 <= high * (1 + 1e-9)
    ratio = ratio_interval(sample, sample[::-1])
    assert ratio is None or ratio.low >= 0


@pytest.mark.parametrize("values", ValueRange)
def test_values_that_are_all_alike_have_an_interval_without_width(values: ValueRange) -> None:
    for value in (0.0, 0.25, 1.0):
        assert _ends(mean_interval(np.full(6, value), values)) == (value, value)


def test_waits_of_which_all_but_one_are_0_have_an_interval() -> None:
    low, high = _ends(mean_interval(np.array([0.0, 0.0, 0.0, 0.0, 100.0]), ValueRange.NOT_NEGATIVE))
    assert 0 < low < 20 < 100 < high


def test_a_metric_that_may_be_negative_keeps_the_t_interval() -> None:
    assert metric_range("jct_s.mean") is metric_range("queue_s.p99") is ValueRange.NOT_NEGATIVE
    assert metric_range("utilisation.gpu") is metric_range("restart_share") is ValueRange.SHARE
    assert metric_range("welfare.surplus") is metric_range("policy_figures.x") is ValueRange.ANY
    negative = np.array([-5.0, 1.0, 2.0, 3.0, 4.0])  # of a metric that should not be
    assert mean_interval(negative, ValueRange.NOT_NEGATIVE) == mean_interval(negative)


def test_an_end_of_the_interval_of_a_ratio_is_a_ratio_that_the_t_test_just_keeps() -> None:
    stream = _stream(2)
    baseline = stream.lognormal(8.0, 0.5, 6)
    sample = 1.2 * baseline * stream.normal(1.0, 0.1, 6)
    found = ratio_interval(sample, baseline)
    ratio = ratio_of_means(sample, baseline)
    assert found is not None
    assert ratio is not None
    assert found.low < ratio < found.high
    for end in (found.low, found.high):
        assert stats.ttest_rel(sample, end * baseline).pvalue == pytest.approx(0.05, rel=1e-9)


def test_over_a_constant_baseline_the_interval_of_the_ratio_is_that_of_the_mean() -> None:
    sample = np.array([12.0, 15.0, 9.0, 20.0, 14.0])
    ratio, mean = ratio_interval(sample, np.full(5, 10.0)), mean_interval(sample)
    assert ratio is not None
    assert mean is not None
    np.testing.assert_allclose([ratio.low, ratio.high], [mean.low / 10, mean.high / 10], rtol=1e-12)


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1000)), min_size=FEWEST_VALUES, max_size=9))
def test_the_ratio_may_be_1_if_and_only_if_the_difference_may_be_0(pairs: list[tuple[int, int]]) -> None:
    sample, baseline = np.array(pairs, dtype=np.float64).T
    ratio, difference = ratio_interval(sample, baseline), mean_interval(sample - baseline)
    assert difference is not None
    nearest = min(abs(difference.low), abs(difference.high))
    if ratio is not None and nearest > 1e-9:
        assert (ratio.low <= 1 <= ratio.high) == (difference.low <= 0 <= difference.high)


@pytest.mark.parametrize("seeds", [1, 2, 3, 4, 5])
def test_fewer_than_five_seeds_have_no_interval(seeds: int) -> None:
    sample = np.arange(1.0, seeds + 1)
    assert (mean_interval(sample) is None) == (seeds < 5)
    assert (ratio_interval(sample, sample + 20) is None) == (seeds < 5)
    absent = {1: "-"}.get(seeds, "too few seeds")
    assert interval_text(mean_interval(np.ones(seeds)), seeds) == (absent if seeds < 5 else "1 to 1")


def test_equal_ratios_have_an_interval_without_width() -> None:
    baseline = np.array([10.0, 12.0, 14.0, 16.0, 18.0])
    assert ratio_interval(1.5 * baseline, baseline) == ConfidenceInterval(1.5, 1.5)


def test_a_ratio_to_nothing_has_no_interval() -> None:
    assert ratio_of_means(np.ones(3), np.zeros(3)) is None
    assert ratio_of_means(np.ones(0), np.ones(0)) is None
    assert ratio_interval(np.ones(3), np.zeros(3)) is None
    # Mean 1, standard deviation sqrt(5), 5 values: 1 -+ 2.8, so the baseline may be 0 and the ratio anything.
    assert ratio_interval(np.arange(3.0, 8.0), np.array([0.0, 0.0, 0.0, 0.0, 5.0])) is None


@pytest.mark.parametrize(
    ("difference", "p_value"),
    [
        # All 8 sign patterns. Sums of 1, 2, 3: +-6, +-4, +-2, 0, 0; as extreme as 6: 2 of 8.
        ([1.0, 2.0, 3.0], 2 / 8),
        # -1 + 2 + 3 = 4; as extreme: +-6, +-4.
        ([-1.0, 2.0, 3.0], 4 / 8),
        # 1 - 2 + 3 = 2; all but the two zeros (1 + 2 - 3 and its mirror).
        ([1.0, -2.0, 3.0], 6 / 8),
        ([1.0, 2.0, -3.0], 1.0),
        ([0.0, 0.0, 0.0], 1.0),
        # Twelve of one sign: the two patterns of 4096 without a mixed sign.
        ([1.0] * 12, 2 / 4096),
    ],
)
def test_sign_flips_count_the_patterns_as_extreme(difference: list[float], p_value: float) -> None:
    assert sign_flip_p_value(np.array(difference), _stream()) == pytest.approx(p_value, rel=1e-12)


def test_sampled_sign_flips_come_near_the_exact_ones() -> None:
    # 20 equal differences of which 5 are negative: P(at most 5 or at least 15 heads of 20) = 0.0414.
    difference = np.array([-1.0] * 5 + [1.0] * 15)
    exact = 2 * sum(math.comb(20, k) for k in range(6)) / 2**20
    # 9,999 draws on each side: standard deviation 2 sqrt(0.0207 x 0.9793 / 9999) = 0.0028.
    assert sign_flip_p_value(difference, _stream()) == pytest.approx(exact, abs=3 * 0.0028)
    assert sign_flip_p_value(difference, _stream()) == sign_flip_p_value(difference, _stream())


def test_sampled_sign_flips_are_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    difference = np.random.default_rng(0).normal(0.2, 1, 60)
    at_once = sign_flip_p_value(difference, _stream())
    monkeypatch.setattr(statistics, "BATCH_VALUES", 60 * 1000)
    assert sign_flip_p_value(difference, _stream()) == at_once


def test_holm_by_hand() -> None:
    # Sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1: 0.04, 0.06, 0.06, 0.04; none below one before: 0.06.
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03, 0.02])), [0.06, 0.04, 0.06, 0.06], rtol=1e-15)
    np.testing.assert_array_equal(holm(np.array([0.9, 0.6])), [1.0, 1.0])
    assert holm(np.array([])).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_between_no_correction_and_bonferroni_and_keeps_the_order(p_values: list[float]) -> None:
    given_values = np.array(p_values)
    adjusted = holm(given_values)
    assert (adjusted >= given_values).all()
    assert (adjusted <= np.minimum(1.0, given_values * len(p_values))).all()
    order = np.argsort(given_values, kind="stable")
    assert (np.diff(adjusted[order]) >= 0).all()


@pytest.mark.parametrize("comparisons", [1, 2, 3, 10])
def test_fewer_pairs_than_needed_cannot_reach_5_percent(comparisons: int) -> None:
    needed = pairs_needed(comparisons)
    assert comparisons * 2 / 2**needed <= 0.05 < comparisons * 2 / 2 ** (needed - 1)


def test_effect_sizes_by_hand() -> None:
    # Mean 2, deviations -1, 0, 1: standard deviation sqrt(2 / 2) = 1.
    assert cohens_d_z(np.array([1.0, 2.0, 3.0])) == pytest.approx(2.0, rel=1e-15)
    assert cohens_d_z(np.array([1.0])) is None
    assert cohens_d_z(np.array([2.0, 2.0])) is None
    # Below 0, above 0, a tie, below 0: (1 + 0 + 1/2 + 1) / 4.
    assert superiority(np.array([-1.0, 2.0, 0.0, -3.0])) == 0.625
