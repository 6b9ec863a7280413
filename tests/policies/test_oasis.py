"""OASiS in the engine: prices from declared ranges in place of the trace."""

from __future__ import annotations

import math

import pytest

from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from ray_sim.policy_api import WHOLE_TRACE
from tests.policies.utility_worlds import pd_ors_job, utility_world, worth

RANGES = {
    "constants": "declared",
    "declared_utility": (4.0, 5.0),
    "declared_demand": (2.0, 1.0),
    "declared_work": (8.0, 8.0, 4.0, 4.0),
}
"""Those of one job with V theta_e = 4 worker-slots, workers of 2 GPUs and parameter servers of 1."""


def one_job_world() -> World:
    return utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [8, 4], 2)


def run(world: World, **params: object) -> RunResult:
    return run_world(world, create_policy("oasis", params))


def test_ranges_that_say_what_the_trace_says_give_the_same_prices_and_plans() -> None:
    # Workers: L = 4 / 8 x 8 / (4 x 2 x 8) = 1 / 16, U = 5 / 2; parameter servers: L = 4 / (4 x 2 x 4), U = 5.
    traced, declared = run(one_job_world()), run(one_job_world(), **RANGES)
    assert declared.summary.policy_figures == pytest.approx(traced.summary.policy_figures)
    assert declared.jobs.equals(traced.jobs)
    assert declared.events.equals(traced.events)
    assert declared.jobs["utility"].to_list() == pytest.approx([5])


def test_with_ranges_it_does_not_see_jobs_that_are_to_come() -> None:
    assert WHOLE_TRACE in create_policy("oasis").sees
    assert WHOLE_TRACE not in create_policy("oasis", RANGES).sees


def test_one_list_for_both_sides_spans_both() -> None:
    both = {**RANGES, "declared_demand": (1.0,), "declared_work": (4.0, 8.0)}
    apart, together = (
        run(one_job_world(), **ranges).summary.policy_figures or {} for ranges in (RANGES, both)
    )
    # On the workers' side half of the least demand and works that span a factor 2: U / L is 4 times as much.
    # 5 / 2 over 1 / 16 is 40, and 5 over 1 / 8 is as much.
    assert (apart["price_span"], together["price_span"]) == pytest.approx((math.log(40), math.log(160)))


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"constants": "declared"}, r"needs 2 numbers in declared_utility \(least, largest\); got none"),
        (
            {**RANGES, "declared_demand": (1.0, 2.0, 3.0)},
            r"needs 1 numbers in declared_demand \(gpu\), or those of workers and then those of parameter "
            r"servers; got 3",
        ),
        ({**RANGES, "declared_work": (2.0, 1.0)}, "must rise"),
    ],
)
def test_ranges_that_say_too_little_are_refused(params: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        run(one_job_world(), **params)
