"""Goals of plans: their texts, and metrics in which a job that did not complete never ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.experiments.capacity.goal import Goal, parse_goal, quantile
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
        ("utility>12", Goal("utility", ">", 12.0)),
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
        ("speed<1", "unknown metric 'speed'."),
    ],
)
def test_a_wrong_goal_is_refused_by_its_text(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_goal(text)
    assert str(refused.value).startswith(complaint)


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
