"""PD-ORS in the engine: the worked example, its objectives, and what it takes to declare ranges."""

from __future__ import annotations

import math

import polars as pl
import pytest

from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.policies.utility_worlds import (
    SLOT_S,
    example_1_a,
    paper_world,
    pd_ors_job,
    utility_world,
    worth,
)

RANGES = {
    "constants": "declared",
    "declared_utility": (1.0, 9.0),
    "declared_demand": (3.0,),
    "declared_work": (12.0, 12.0),
}
"""Those of example 1.A: L = 1 x 12 / 12 / (2 x 2 x 6) = 1 / 24, U = 9 / 3."""


NONE_POOR = {"admitted_below_1_percent": 0}


def run(world: World, **params: object) -> RunResult:
    return run_world(world, create_policy("pd_ors", params))


@pytest.mark.parametrize("params", [{}, RANGES])
def test_example_1_a_runs_as_worked_out(params: dict[str, object]) -> None:
    # A holds 2 workers and 2 parameter servers in slot 0, B in slot 1; for C nothing is left.
    result = run(example_1_a(), **params)
    jobs = result.jobs
    assert jobs["status"].to_list() == ["completed", "completed", "rejected"]
    assert jobs["reason"].to_list() == [None, None, "infeasible"]
    assert jobs["start_s"].to_list()[:2] == [0, SLOT_S]
    assert jobs["finish_s"].to_list()[:2] == [SLOT_S, 2 * SLOT_S]
    assert jobs["utility"].to_list() == pytest.approx([5, 3, 0])
    starts = result.events.filter(pl.col("event") == "start").select("job_id", "role", "count")
    assert starts.rows() == [("J1", "worker", 2), ("J1", "ps", 2), ("J2", "worker", 2), ("J2", "ps", 2)]
    assert result.summary.policy_counts == {
        "admitted": 2,
        "admitted_below_1_percent": 0,
        "operations": 3522,
        "refused_infeasible": 1,
        "unsolved_slots": 0,
    }
    # 40 quanta, 40 of which fit in a slot: a row of the table takes 1 + .. + 40 = 820 comparisons. A fraction
    # is cheaper than the one worker of 1 to 9 quanta: 9 x 50 roundings. A: 40 prices of the one state of both
    # slots, 1 step, 1 row, 450 roundings. B: 80 prices, 1 step, 2 rows, 450 roundings. C: 40 prices, no room.
    assert 3522 == (40 + 1 + 820 + 450) + (80 + 1 + 2 * 820 + 450) + 40


def test_the_dual_of_example_1_a_after_each_arrival() -> None:
    # D = 2 x 6 x L = 0.5; A: 0.5 + 4.75 + 6 (3 - L) = 23; B: 23 + 2.75 + 6 (3 - L) = 43.5; C changes nothing.
    utilities = [worth(5, 4), worth(9, 3), worth(2, 1)]
    found = []
    for n in (1, 2, 3):
        world = utility_world([0.0] * n, [pd_ors_job()] * n, utilities[:n], [6], 2)
        timeline = run(world, record=True, **RANGES).timeline
        found += [timeline["primal"][-1], timeline["dual"][-1]]
    assert found == pytest.approx([5, 23, 8, 43.5, 8, 43.5])

    # Worth less than 6 x L = 0.25, it costs more than it is worth and is no sale.
    result = run(utility_world([0.0], [pd_ors_job()], [worth(0.2, 0.1)], [6], 2), record=True, **RANGES)
    assert result.jobs["reason"].to_list() == ["price"]
    assert (result.timeline["primal"][-1], result.timeline["dual"][-1]) == pytest.approx((0, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("round_", ["each", "last"])
@pytest.mark.parametrize("gain", ["one", "packing", "covering"])
def test_whoever_is_admitted_earns_what_was_planned(round_: str, gain: str) -> None:
    result = run(paper_world(20, 50, 20, 1), record=True, gain=gain, round=round_)
    summary, timeline = result.summary, result.timeline
    assert summary.policy_counts is not None
    assert 0 < summary.policy_counts["admitted"] == summary.completed
    assert summary.unfinished == 0
    assert summary.utility == pytest.approx(timeline["primal"][-1])
    assert (timeline["primal"] <= timeline["dual"]).all()
    assert summary.utility_certificate is not None
    assert summary.utility is not None
    assert summary.utility <= summary.utility_certificate.bound


def test_a_narrow_price_span_keeps_room_for_jobs_that_are_worth_more() -> None:
    # One slot, and each job takes all 6 GPUs. U = 9 / 3. A is first and worth 1: at the trace's L it pays.
    world = utility_world([0.0] * 2, [pd_ors_job()] * 2, [worth(1, 0.5), worth(9, 3)], [6], 1)
    assert run(world).jobs["utility"].to_list() == pytest.approx([1, 0])
    # With L = U / e it would cost 6 x 3 / e = 6.6, B too.
    narrow = run(world, price_span=1.0)
    assert narrow.jobs["utility"].to_list() == pytest.approx([0, 9])
    assert narrow.jobs["reason"].to_list() == ["price", None]


def test_how_far_prices_span_is_told_and_warned_of_beyond_the_published_ranges() -> None:
    # Example 1.A: L = 1 / 24 and U = 9 / 3, ln(U / L) = ln 72 = 4.28.
    found = run_world(example_1_a(), create_policy("pd_ors", {})).summary
    assert (found.policy_figures or {})["price_span"] == pytest.approx(math.log(72), rel=1e-12)
    assert found.policy_warnings is None
    assert found.flat()["policy_figures.price_span"] == pytest.approx(4.2767, abs=1e-4)
    # Two jobs that each fill a slot are worth 5 in the first and 1e-30 in the second: L = 1e-30 / 24 and
    # U = 5 / 3, ln(40 e30) = 72.8. At L the second slot costs 6 L = 0.25e-30, so the second job is admitted.
    steep = utility_world([0.0] * 2, [pd_ors_job()] * 2, [worth(5, 1e-30)] * 2, [6], 2)
    found = run_world(steep, create_policy("pd_ors", {})).summary
    assert (found.policy_figures or {})["price_span"] == pytest.approx(
        math.log(40) + 30 * math.log(10), rel=1e-9
    )
    counts = found.policy_counts or {}
    assert (counts["admitted"], counts["admitted_below_1_percent"]) == (2, 1)
    [warning] = found.policy_warnings or []
    assert "ln(U/L) is 72.8" in warning
    assert "1 of 2 admitted jobs earn less than 1 % of their most" in warning
    assert "price_span" not in warning
    # With L raised to U e^-10 the second slot costs 6 (5 / 3) e^-10 = 4.5e-4.
    found = run_world(steep, create_policy("pd_ors", {"price_span": 10.0})).summary
    assert (found.policy_figures or {})["price_span"] == pytest.approx(10.0)
    assert (found.policy_counts or {})["admitted"] == 1


def test_jobs_refused_on_idle_servers_are_told_with_their_price() -> None:
    # 2 workers and 2 parameter servers take 6 GPU-slots at L = U / e = 9 / 3 / e. A is worth 5 and refused,
    # though the server is idle. B pays.
    world = utility_world([0.0] * 2, [pd_ors_job()] * 2, [worth(5, 4), worth(9, 3)], [6], 1)
    found = run(world, price_span=1.0)
    assert found.jobs["reason"].to_list() == ["price", None]
    [warning] = found.summary.policy_warnings or []
    assert "1 were refused by price, 1 of them at any load" in warning
    assert "row 0 of jobs.parquet: worth at most 5, cost 6.622, at L 6.622" in warning
    assert run(world).summary.policy_warnings is None


def test_the_span_applies_above_a_load_only() -> None:
    # Each job takes 0.04 x 100 = 4 worker-slots of 3 GPUs at the external rate, of 6 GPU-slots: a load of 2.
    world = utility_world([0.0] * 2, [pd_ors_job()] * 2, [worth(5, 4), worth(9, 3)], [6], 1)
    assert (run(world).summary.policy_figures or {})["load"] == pytest.approx(4)
    assert run(world, price_span=1.0, span_above_load=3.9).jobs["utility"].to_list() == pytest.approx([0, 9])
    assert run(world, price_span=1.0, span_above_load=4.1).jobs["utility"].to_list() == pytest.approx([5, 0])


@pytest.mark.parametrize("others", [{}, {"price_span": 11.0, **RANGES}])
def test_a_load_without_a_span_or_without_the_trace_is_refused(others: dict[str, object]) -> None:
    with pytest.raises(InvalidScenarioError, match=r"span_above_load=1\.5 needs a price_span"):
        create_policy("pd_ors", {"span_above_load": 1.5, **others})


def test_jobs_that_cannot_end_on_these_servers_make_no_price() -> None:
    # Four workers could train 300 samples in two slots, but the server holds two, with parameter servers.
    long, lasts = pd_ors_job(samples=150), worth(500, 0.001)
    alone = utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [6], 2)
    both = utility_world([0.0] * 2, [pd_ors_job(), long], [worth(5, 4), lasts], [6], 2)
    assert run(both).summary.policy_figures == run(alone).summary.policy_figures


def test_objectives_are_recorded_on_request_only() -> None:
    assert not {"primal", "dual"} & set(run(example_1_a()).timeline.columns)


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (
            {"constants": "declared"},
            r"constants=declared needs 2 numbers in declared_utility \(least, largest\); got none",
        ),
        ({**RANGES, "declared_demand": (1.0, 2.0)}, r"needs 1 numbers in declared_demand \(gpu\); got 2"),
        ({**RANGES, "declared_work": (2.0, 1.0)}, "must rise"),
    ],
)
def test_ranges_that_say_too_little_are_refused(params: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        run(example_1_a(), **params)


def test_each_partition_has_prices_of_its_own() -> None:
    # In vc a as in example 1.A. In vc b one job alone, that is worth little: were its prices those of vc a,
    # where the lowest is 1 / 24, it would cost 0.25 and not pay.
    world = utility_world(
        [0.0] * 4,
        [pd_ors_job()] * 4,
        [worth(5, 4), worth(9, 3), worth(2, 1), worth(0.2, 0.1)],
        [6, 6],
        2,
        vc=["a", "a", "a", "b"],
        server_vc=["a", "b"],
        partition="vc",
    )
    assert run(world).jobs["utility"].to_list() == pytest.approx([5, 3, 0, 0.2])
