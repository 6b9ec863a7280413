"""Goals of plans: their texts, and metrics in which a job that did not complete never ends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.experiments.capacity.goal import Goal, mean, parse_goal, quantile
from ray_sim.model.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("p95_jct_s<7200", Goal("jct_s.p95", "<", 7200.0)),
        ("jct_s.p95 < 7200", Goal("jct_s.p95", "<", 7200.0)),
        ("p99.9_queue_s<=1e3", Goal("queue_s.p99.9", "<=", 1000.0)),
        ("mean_jct_s<60", Goal("jct_s.mean", "<", 60.0)),
        ("utilisation.gpu>=0.5", Goal("utilisation.gpu", ">=", 0.5)),
        ("makespan_s<86400", Goal("makespan_s", "<", 86400.0)),
        ("within_slo.team-a>=0.95", Goal("within_slo.team-a", ">=", 0.95)),
        ("utility>12", Goal("utility", ">", 12.0)),
        ("mean_queue_s <= 0.5 x now", Goal("queue_s.mean", "<=", math.nan, factor=0.5)),
        ("p95_jct_s<0.8*now", Goal("jct_s.p95", "<", math.nan, factor=0.8)),
        ("makespan_s < now", Goal("makespan_s", "<", math.nan, factor=1.0)),
    ],
)
def test_a_goal_is_a_metric_a_relation_and_a_number(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal
    assert parse_goal(str(goal)) == goal


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "p95_jct_s",
            "--goal p95_jct_s: expected METRIC<NUMBER with <, <=, > or >=, such as 'p95_jct_s<7200'",
        ),
        ("p95_jct_s<soon", "--goal p95_jct_s<soon: expected a number after <"),
        ("p95_jct_s<inf", "--goal p95_jct_s<inf: expected a number after <"),
        ("p101_jct_s<1", "--goal p101_jct_s<1: expected pNN with NN above 0, at most 100"),
        ("p0_jct_s<1", "--goal p0_jct_s<1: expected pNN with NN above 0, at most 100"),
        (
            "mean_jct_s<0 x now",
            "--goal mean_jct_s<0 x now: expected a number after <, or one above 0 times now",
        ),
        ("mean_jct_s<x now", "--goal mean_jct_s<x now: expected a number after <"),
        ("speed<1", "unknown metric 'speed'."),
    ],
)
def test_a_wrong_goal_is_refused_by_its_text(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_goal(text)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize(
    ("goal", "value", "met"),
    [
        # Rounding of sums and of interpolation: three times 0.1, and a quantile of 97.6.
        ("mean_jct_s<=0.1", (0.1 + 0.1 + 0.1) / 3, True),
        ("mean_jct_s<0.1", (0.1 + 0.1 + 0.1) / 3, False),
        ("p99_jct_s<97.6", 97.59999999999998, False),
        ("p99_jct_s<97.6", 97.599, True),
        ("utility>=73", 72.99999999999999, True),
        ("utility>73", 73.00000000000001, False),
        ("mean_queue_s<=0", 1e-6, False),
        ("mean_jct_s<5", math.inf, False),
    ],
)
def test_a_value_that_is_the_limit_up_to_rounding_is_equal_to_it(goal: str, value: float, met: bool) -> None:
    assert parse_goal(goal).met(value) == met


@given(values=st.lists(st.integers(0, 10**6), min_size=1, max_size=30), limit=st.integers(1, 10**6))
def test_a_mean_meets_a_goal_as_fractions_do(values: list[int], limit: int) -> None:
    found = mean(np.array(values) / 10)
    exact = Fraction(sum(values), 10 * len(values))
    assert parse_goal(f"mean_jct_s<{limit / 10}").met(found) == (exact < Fraction(limit, 10))
    assert parse_goal(f"mean_jct_s<={limit / 10}").met(found) == (exact <= Fraction(limit, 10))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.floats(0, 1), st.integers(0, 20))
def test_a_quantile_is_that_of_numpy_and_infinite_once_it_reaches_an_infinite_value(
    finite: list[float], share: float, infinite: int
) -> None:
    assert quantile(np.array(finite), share) == pytest.approx(
        np.quantile(finite, share), rel=1e-12, abs=1e-300
    )
    values = np.array(finite + [np.inf] * infinite)
    position = (len(values) - 1) * share  # index between order statistics
    found = quantile(values, share)
    if math.ceil(position) >= len(finite):
        assert found == math.inf
    else:
        assert found <= max(finite)


def test_a_relative_goal_has_a_limit_per_seed_and_in_the_mean() -> None:
    goal = parse_goal("mean_jct_s <= 0.5 x now").relative_to([10.0, 30.0])
    assert (goal.limit, str(goal)) == (10.0, "jct_s.mean <= 0.5 x now")
    values, limits = goal.paired(np.array([6.0, 8.0]))
    assert (values.tolist(), limits.tolist()) == ([6.0, 8.0], [5.0, 15.0])
    free, each = goal.paired(np.array([6.0]))  # a run that depends on no seed
    assert (free.tolist(), each.tolist()) == ([6.0, 6.0], [5.0, 15.0])
    for now in ([math.inf], [-3.0]):
        with pytest.raises(InvalidInputError, match="expected a metric that now is finite and at least 0"):
            parse_goal("mean_jct_s <= 0.5 x now").relative_to(now)
