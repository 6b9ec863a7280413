"""A run may carry the exact optimum in whole slots, which no policy that decides on slots exceeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.chunked.jobs import CHUNKED
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.kinds.elastic.limits import world_optimum
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import Summary, UtilityCertificate
from ray_sim.policies.registry import create_policy, policy_classes
from ray_sim.reports.tables import RunRow, run_table, summary_rows
from ray_sim.solvers.utility_optimum import SearchLimits
from tests.best_utility import SLOT_S, SLOTS, best_utility, slot_jobs, tiny_world
from tests.policies.utility_worlds import example_1_a, pd_ors_job, utility_world, worth
from tests.proofs import instances
from tests.worlds import confined

ROUNDED = 1e-9
SOLVER = 1e-6
"""HiGHS's tolerance."""

NODES: Mapping[str, object] = {"optimum_nodes": 1000}
SLOTTED = [
    name
    for name, policy in policy_classes().items()
    if (policy.slotted or "slot_s" in policy.needs) and policy.schedules != CHUNKED
]


NO_LOSSES: Mapping[str, Mapping[str, object]] = {"optimus": {"remaining": "known"}}
"""Parameters of policies that look at losses, which these worlds have not."""


def summary_of(world: World, policy: str = "pd_ors", trim: Trim | None = None) -> Summary:
    return run_world(world, create_policy(policy, NO_LOSSES.get(policy, {})), trim=trim).summary


def certificate(summary: Summary) -> UtilityCertificate:
    assert summary.utility_certificate is not None
    return summary.utility_certificate


def test_example_1_a_earns_8_of_13() -> None:
    # PD-ORS sells slot 0 to A, who comes first, and slot 1 to B: 5 + 3. B first would earn 9 + 4.
    summary = summary_of(example_1_a(params=NODES))
    found = certificate(summary)
    assert summary.utility == pytest.approx(8)
    assert found.optimum == pytest.approx(13)
    assert found.optimum_ratio == pytest.approx(1.625)
    assert found.optimum_proven is True
    assert found.optimum_bound == pytest.approx(13, rel=SOLVER)


def test_it_keeps_to_the_gpu_types_that_jobs_accept() -> None:
    # Two servers, one slot, a server a job. A and B, worth 5 and 9, accept V100 only, C, worth 2, any.
    utilities = [worth(5, 4), worth(9, 3), worth(2, 1)]
    world = utility_world([0.0] * 3, [pd_ors_job()] * 3, utilities, [6, 6], 1, params=NODES)
    assert certificate(summary_of(world)).optimum == pytest.approx(5 + 9)
    found = certificate(summary_of(confined(world, ("T4", "V100"), ("V100", "V100", None))))
    assert found.optimum == pytest.approx(9 + 2)
    assert found.bound >= 9 + 2


@pytest.mark.parametrize("seed", range(instances(300)))
def test_with_gpu_types_it_is_what_trying_everything_finds(seed: int) -> None:
    draw, tiny = np.random.default_rng(seed), tiny_world(seed)
    lists = draw.choice(["x", "y", "x|y", ""], len(tiny.table)).tolist()
    world = confined(tiny, ("x", "y")[: len(tiny.cluster)], [each or None for each in lists])
    barred = np.array([[bool(on) and kind not in on for kind in world.cluster.gpu_type] for on in lists])
    best = best_utility(slot_jobs(world), world.arrays.capacity, barred)
    found = world_optimum(world, SearchLimits())
    assert found.proven
    assert found.utility == pytest.approx(best, rel=SOLVER, abs=SOLVER)


def test_it_leaves_the_rest_of_the_certificate_as_it_is() -> None:
    asked, plain = (certificate(summary_of(example_1_a(params=facts))) for facts in (NODES, {}))
    nothing = {f"optimum{suffix}": None for suffix in ("", "_bound", "_ratio", "_proven")}
    assert replace(asked, **nothing) == plain  # type: ignore[arg-type]  # None is what all four may be


@pytest.mark.slow
@pytest.mark.parametrize("policy", SLOTTED)
def test_no_policy_that_decides_on_slots_earns_more(policy: str) -> None:
    earning = 0
    for seed in range(25):
        tiny = tiny_world(seed)
        world = replace(tiny, facts=replace(ElasticFacts.in_world(tiny), optimum_nodes=1000))
        found = certificate(summary_of(world, policy))
        assert found.optimum == pytest.approx(
            best_utility(slot_jobs(world), world.arrays.capacity), rel=SOLVER
        )
        assert found.optimum_proven
        assert found.optimum_bound is not None
        assert found.optimum_bound <= found.bound * (1 + SOLVER)
        if found.optimum_ratio is not None:
            assert found.optimum_ratio >= 1 - ROUNDED, seed
            earning += 1
    assert earning >= 10  # oasis earns nothing on one server


def test_where_nothing_is_earned_there_is_no_ratio() -> None:
    # 100 samples of 0.02 slots are 2 worker-slots; on 3 GPUs there is room for one worker, in one slot.
    found = certificate(summary_of(utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [3], 1, params=NODES)))
    assert (found.optimum, found.optimum_bound, found.optimum_ratio) == (0, 0, None)
    assert found.optimum_proven


@pytest.mark.long
def test_a_search_that_ends_at_its_last_node_is_not_proven_and_still_bounds() -> None:
    draw = np.random.default_rng(0)
    jobs = [pd_ors_job(samples=float(draw.integers(30, 150))) for _ in range(8)]
    utilities = [worth(most, most * draw.uniform(0.5, 0.9)) for most in draw.uniform(1, 9, 8)]
    world = utility_world([0.0] * 8, jobs, utilities, [7, 8, 5], 6, params={"optimum_nodes": 1})
    summary = summary_of(world)
    found = certificate(summary)
    assert found.optimum_proven is False
    assert found.optimum is not None
    assert found.optimum_bound is not None
    assert summary.utility is not None
    assert max(summary.utility, found.optimum) <= found.optimum_bound
    assert ("no schedule in whole slots earns more than", found.optimum_bound) in summary_rows(summary)
    assert found == certificate(summary_of(world))


def test_of_a_trimmed_run_it_is_that_of_the_jobs_that_count() -> None:
    # 40 % of 200 s are cut off at the front: of the jobs that come at 0, 100 and 200 s the last two count.
    utilities = [worth(5, 4), worth(9, 3), worth(2, 1)]
    world = utility_world([0.0, 100.0, 200.0], [pd_ors_job()] * 3, utilities, [6], 4, params=NODES)
    found = certificate(summary_of(world, trim=Trim(80, 0)))
    assert found.hopeful == 2
    assert found.optimum == pytest.approx(9 + 2)


def test_it_is_among_the_metrics_and_in_the_tables() -> None:
    asked, plain = (summary_of(example_1_a(params=facts)) for facts in (NODES, {}))
    assert asked.flat()["utility_certificate.optimum_ratio"] == pytest.approx(1.625)
    assert asked.flat()["utility_certificate.optimum_proven"] == 1.0
    assert dict(summary_rows(asked))["optimum in whole slots"] == pytest.approx(13)
    table = run_table([RunRow("w", "c", "", "pd_ors", 0, each) for each in (asked, plain)])
    assert table["utility_certificate.optimum_ratio"].to_list() == [pytest.approx(1.625), None]
    unasked = run_table([RunRow("w", "c", "", "pd_ors", 0, plain)])
    assert "utility_certificate.optimum_ratio" not in unasked.columns
    assert not any("optimum" in name for name in plain.flat())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"params": {"slot_s": None}}, "give slots and an end"),
        ({"params": {"horizon_s": None}}, "give slots and an end"),
        ({"params": {"restart_cost_s": 1e-6}}, "restart_cost_s plays no part"),
        ({"params": {"data_move_s": 1e-6}}, "data_move_s plays no part"),
        ({"params": {"straggler_probability": 0.1}}, "straggler_probability plays no part"),
        ({"outages": [(10.0, 0, False)]}, "availability"),
        ({"vc": ["a"] * 3, "server_vc": ["a"], "partition": "vc"}, "partition"),
        ({"speed": [2.0]}, "must be of speed 1; s0 is not"),
        ({"params": {"slot_s": 0.01}}, r"take 360,000 variables.* take fewer jobs"),
    ],
)
def test_worlds_without_such_an_optimum_are_refused_before_they_run(
    options: dict[str, object], text: str
) -> None:
    given = options.pop("params", {})
    assert isinstance(given, dict)
    world = example_1_a(params={**NODES, **given}, **options)
    with pytest.raises(InvalidScenarioError, match=f"(?s){text}.*leave out optimum_nodes"):
        run_world(world, create_policy("fifo", {}))


def test_workloads_without_utilities_or_work_are_refused() -> None:
    world = example_1_a(params=NODES)
    blank = replace(world, table=replace(world.table, utility=None))
    with pytest.raises(InvalidScenarioError, match=r"(?s)what its jobs are worth.*leave out optimum_nodes"):
        summary_of(blank, "fifo")
    idle = utility_world([0.0], [pd_ors_job(samples=0)], [worth(5, 4)], [6], 2, params=NODES)
    with pytest.raises(InvalidScenarioError, match=r"(?s)has no samples.*leave out optimum_nodes"):
        summary_of(idle, "fifo")


@pytest.mark.parametrize("truth", ["rigid", "placement", "a_online"])
def test_it_is_about_the_truth_of_pd_ors_only(truth: str) -> None:
    world = tiny_world(0)
    facts = {"slot_s": SLOT_S, "horizon_s": SLOTS * SLOT_S, "truth": truth, **NODES}
    with pytest.raises(InvalidScenarioError, match=r"optimum_nodes: .* set truth=pd_ors, or leave it out"):
        build_world(world.table, world.cluster, params=facts)
