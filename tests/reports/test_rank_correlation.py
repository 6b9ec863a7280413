"""Rank correlations are Spearman's, and their intervals those of resampled groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.rank_cover import cover
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.reports import rank_correlation
from ray_sim.reports.rank_correlation import LEAST_GROUPS, RankAgreement, rank_agreement

REAL = np.array([10.0, 20.0, 30.0, 40.0, 50.0])
SIMULATED = np.array([0.0, 0.0, 5.0, 9.0, 7.0])
PRIORITY = np.array([1, 1, 1, 0, 0])


def _stream() -> np.random.Generator:
    return np.random.default_rng(0)


def _each_alone(rows: int) -> IntArray:
    return np.arange(rows)


def test_five_jobs_by_hand() -> None:
    # Ranks about their mean 3: real -2 -1 0 1 2; simulated, the first two tie, -1.5 -1.5 0 2 1.
    # Products 3 + 1.5 + 0 + 2 + 2 = 8.5, squares 10 and 2.25 + 2.25 + 0 + 4 + 1 = 9.5.
    # Means of the classes are 20 and 45, ranks -1 -1 -1 1.5 1.5: products 2 + 1 + 0 + 1.5 + 3, squares 7.5.
    found = rank_agreement(REAL, SIMULATED, PRIORITY, _each_alone(5), _stream())
    assert found.simulated.value == pytest.approx(8.5 / math.sqrt(10 * 9.5), rel=1e-15)
    assert found.constant.value == pytest.approx(7.5 / math.sqrt(10 * 7.5), rel=1e-15)
    assert found.difference.value == found.simulated.value - found.constant.value
    assert found.simulated.interval is None  # five groups


def test_what_is_the_same_for_all_jobs_orders_nothing() -> None:
    found = rank_agreement(REAL, np.zeros(5), np.zeros(5, np.int64), _each_alone(5), _stream())
    assert (found.simulated.value, found.constant.value) == (0.0, 0.0)
    assert rank_agreement(np.ones(5), SIMULATED, PRIORITY, _each_alone(5), _stream()).simulated.value == 0.0


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2)), min_size=2, max_size=30))
def test_correlations_are_spearmans_of_values_and_of_class_means(rows: list[tuple[int, int, int]]) -> None:
    real, simulated = (np.array(column, dtype=np.float64) for column in list(zip(*rows, strict=True))[:2])
    classes = np.array([each for _, _, each in rows])
    found = rank_agreement(real, simulated, classes, np.zeros(len(rows), np.int64), _stream())
    assert found.simulated.value == pytest.approx(_spearman(simulated, real), abs=1e-12)
    assert found.constant.value == pytest.approx(_spearman(_class_means(real, classes), real), abs=1e-12)


@pytest.mark.parametrize("cells", [1, 500, 2**20])
def test_intervals_are_those_of_groups_drawn_one_by_one(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # 60 jobs of 20 groups with ties; one class is in one group only, so that some resamples lack it.
    monkeypatch.setattr(rank_correlation, "_CELLS_AT_ONCE", cells)
    monkeypatch.setattr(rank_correlation, "RESAMPLES", 50)
    stream = np.random.default_rng(3)
    groups = stream.permutation(np.repeat(np.arange(20), 3))
    real = np.round(groups + stream.exponential(5.0, 60))
    simulated = np.round(real + stream.exponential(9.0, 60))
    classes = np.where(groups == 0, 2, stream.integers(0, 2, 60))
    found = rank_agreement(real, simulated, classes, groups, _stream())
    drawn = np.array(
        [
            _naive(real, simulated, classes, groups, times)
            for times in _stream().multinomial(20, [1 / 20] * 20, 50)
        ]
    )
    for name, column in zip(("simulated", "constant", "difference"), drawn.T, strict=True):
        interval = getattr(found, name).interval
        assert [interval.low, interval.high] == pytest.approx(
            list(np.quantile(column, [0.025, 0.975])), abs=1e-12
        )


def _naive(
    real: FloatArray, simulated: FloatArray, classes: IntArray, groups: IntArray, times: IntArray
) -> list[float]:
    """Correlations of a resample with every row written out."""
    rows = [
        row for group, count in enumerate(times) for row in np.flatnonzero(groups == group).tolist() * count
    ]
    means = _class_means(real[rows], classes[rows])
    one, other = _spearman(simulated[rows], real[rows]), _spearman(means, real[rows])
    return [one, other, one - other]


def _class_means(real: FloatArray, classes: IntArray) -> FloatArray:
    return np.array([np.mean(real[classes == each]) for each in classes])


def _spearman(one: FloatArray, other: FloatArray) -> float:
    if not np.ptp(one) or not np.ptp(other):
        return 0.0
    return float(stats.spearmanr(one, other).statistic)


def test_fewer_than_twenty_groups_have_no_interval() -> None:
    def agreement(groups: int) -> RankAgreement:
        rows = np.arange(40)
        return rank_agreement(rows / 7, rows % 5 / 1, rows % 3, rows % groups, _stream())

    assert agreement(LEAST_GROUPS - 1).difference.interval is None
    assert agreement(LEAST_GROUPS).difference.interval is not None


def test_a_job_more_in_a_group_is_no_independent_job() -> None:
    # Each of 20 groups ten times over: the same correlation and the same interval.
    stream = np.random.default_rng(1)
    real, simulated, classes = stream.random(20), stream.random(20), stream.integers(0, 3, 20)
    once = rank_agreement(real, simulated, classes, _each_alone(20), _stream())
    rows = np.repeat(_each_alone(20), 10)
    tenfold = rank_agreement(real[rows], simulated[rows], classes[rows], rows, _stream())
    assert tenfold.simulated.value == pytest.approx(once.simulated.value, abs=1e-12)
    assert tenfold.simulated.interval is not None
    assert once.simulated.interval is not None
    assert tenfold.simulated.interval.low == pytest.approx(once.simulated.interval.low, abs=1e-12)


@pytest.mark.long
def test_intervals_of_a_hundred_groups_hold_the_truth_nineteen_times_in_twenty() -> None:
    # 200 samples: the standard error of a share of 95 % is 1.5 %.
    assert 0.9 <= cover("single jobs", 100, samples=200).simulated <= 0.99
    assert 0.9 <= cover("ten jobs each", 100, samples=200).difference <= 0.99
