"""Intervals cover as often as they say, tests and corrections give what a hand gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.reports.statistics import (
    Interval,
    bootstrap_interval,
    cohens_d_z,
    holm,
    mean,
    paired_difference,
    pairs_needed,
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


def test_the_interval_of_a_normal_mean_covers_it_in_95_of_100_samples() -> None:
    # 400 samples of 50: the share has a standard deviation of sqrt(0.95 x 0.05 / 400) = 0.011.
    draws = _stream(1).normal(7.0, 2.0, (400, 50))
    intervals = [bootstrap_interval([draw], mean, _stream(i), 2000) for i, draw in enumerate(draws)]
    covered = np.mean([each is not None and each.low <= 7.0 <= each.high for each in intervals])
    assert 0.95 - 2.5 * 0.011 <= covered <= 0.95 + 2.5 * 0.011


def test_the_interval_of_a_ratio_covers_it_although_the_samples_are_not_centred() -> None:
    # Job lengths differ a lot from seed to seed, the ratio of a pair does not: true ratio 1.2.
    stream = _stream(2)
    baseline = stream.lognormal(8.0, 0.5, (300, 50))
    draws = 1.2 * baseline * stream.normal(1.0, 0.1, baseline.shape)
    intervals = [
        bootstrap_interval([draws[i], baseline[i]], ratio_of_means, _stream(i), 2000) for i in range(300)
    ]
    covered = np.mean([each is not None and each.low <= 1.2 <= each.high for each in intervals])
    assert 0.95 - 3 * 0.0126 <= covered <= 0.95 + 3 * 0.0126  # sqrt(0.95 x 0.05 / 300) = 0.0126


def test_the_width_is_that_of_the_normal_theory() -> None:
    # Standard deviation 1, 400 pairs: 2 x 1.96 / sqrt(400) = 0.196.
    sample = _stream(3).normal(size=400)
    sample = (sample - sample.mean()) / sample.std()
    interval = bootstrap_interval([sample], mean, _stream())
    assert interval is not None
    assert interval.method == "bca"
    assert interval.high - interval.low == pytest.approx(0.196, rel=0.05)


def test_one_pair_has_no_interval() -> None:
    assert bootstrap_interval([np.array([4.0])], mean, _stream()) is None


def test_pairs_that_are_all_alike_leave_percentiles() -> None:
    assert bootstrap_interval([np.full(5, 3.0)], mean, _stream()) == Interval(3.0, 3.0, "percentile")


def test_a_ratio_to_nothing_has_no_interval() -> None:
    assert math.isnan(ratio_of_means(np.ones(3), np.zeros(3)))
    assert bootstrap_interval([np.ones(3), np.zeros(3)], ratio_of_means, _stream()) is None


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
