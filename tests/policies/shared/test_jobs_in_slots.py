"""PD-ORS and OASiS plan by speeds that the world keeps: bounds, plans, and worlds that are slower."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import Exchange, UtilityProfile
from ray_sim.model.result import RunResult
from ray_sim.model.units import IntArray
from ray_sim.policies.oasis import Oasis
from ray_sim.policies.pd_ors import PdOrs
from ray_sim.policies.registry import create_policy
from ray_sim.policies.shared.plan_at_arrival import Planned
from ray_sim.policies.shared.sold_plans import BookedPlans
from ray_sim.policy_api import ElasticView
from ray_sim.solvers.planning.market import SlotPlan
from ray_sim.solvers.planning.schedule import Infeasible, NotWorthIt, Schedule
from ray_sim.solvers.planning.slot_job import SlotJob
from tests.engine.kinds.elastic.test_rules import linear
from tests.policies.test_eligible_servers import misplaced, typed
from tests.policies.utility_worlds import SLOT_S, example_1_a, paper_world, pd_ors_job, utility_world, worth
from tests.proofs import instances, quick_first
from tests.training import profile, together
from tests.worlds import Job, cluster_of, fingerprint, job_table

BOTH = pytest.mark.parametrize("policy", ["pd_ors", "oasis"])


def run(world: World, policy: str = "pd_ors", **params: object) -> RunResult:
    return run_world(world, create_policy(policy, params))


Sold = list[tuple[SlotJob, SlotPlan]]


class Noting(Planned):
    """Keeps the plans that it sells."""

    sold: Sold

    def _plan(self, job: SlotJob, view: ElasticView, slot: int) -> Schedule | Infeasible | NotWorthIt:
        found = super()._plan(job, view, slot)
        if isinstance(found, Schedule):
            self.sold.append((job, found.plan))
        return found


class NotingPdOrs(Noting, PdOrs):
    """PD-ORS that keeps its plans."""


class NotingOasis(Noting, Oasis):
    """OASiS that keeps its plans."""


def random_world(seed: int) -> World:
    """A few jobs of all exchanges with parameter servers on a few servers of several speeds.

    Restarts are free and nothing is shared, so jobs train as if they were alone.
    """
    draw = np.random.default_rng(seed)
    slots, n, servers = int(draw.integers(2, 7)), int(draw.integers(1, 5)), int(draw.integers(2, 5))
    jobs = [
        replace(
            profile(
                exchange=int(draw.choice([Exchange.SYNC, Exchange.ASYNC])),
                epochs=int(draw.integers(1, 4)),
                samples=int(draw.integers(10, 400)),
                batch=int(draw.integers(1, 12)),
                sample_s=draw.uniform(0.2, 2.0),
                gradient_mb=draw.choice([0.0, 5.0, 50.0]),
                bandwidth_mbps=draw.uniform(50, 500),
                internal_bandwidth_mbps=draw.uniform(50, 5000),  # slower than between servers, sometimes
                step_s=draw.choice([0.0, 0.1]),
                step_s_per_worker=draw.choice([0.0, 0.05]),
                step_s_per_ps=draw.choice([0.0, 0.05]),
                workers_per_ps=draw.choice([1.0, 1.5, 2.0, 3.0]),
            ),
            worker_demand=1000 * draw.integers(1, 3, (1, 1)),
            ps_demand=1000 * draw.integers(0, 2, (1, 1)),
        )
        for _ in range(n)
    ]
    table = job_table([Job(float(draw.integers(0, int(SLOT_S))), 1, 100.0) for _ in range(n)])
    utility = UtilityProfile(draw.uniform(1, 100, n), draw.choice([0.0, 0.001], n), np.full(n, SLOT_S))
    cluster = cluster_of(
        draw.integers(2, 9, servers).tolist(), speed=draw.choice([0.5, 1.0, 2.0], servers).tolist()
    )
    params: Mapping[str, Any] = {
        "truth": draw.choice(["placement", "placement", "placement", "pd_ors"]).item(),
        "slot_s": SLOT_S,
        "horizon_s": slots * SLOT_S,
    }
    if params["truth"] == "placement":
        params = {**params, "nic": draw.choice(["per_task", "per_link"]).item()}
        params = {**params, "request_s": draw.choice([0.0, 0.01]).item()}
    return build_world(replace(table, training=together(*jobs), utility=utility), cluster, params=params)


def rates(world: World, job: int, plan: SlotPlan) -> list[tuple[IntArray, float]]:
    """Rows of each slot of a plan, and the samples that the world trains in it."""
    facts = ElasticFacts.in_world(world)
    progress = facts.progress(np.ones(len(world.table)), None)
    found = []
    for slot in np.unique(plan.slot).tolist():
        at = np.flatnonzero(plan.slot == slot)
        part = SlotPlan(plan.slot[at], plan.server[at], plan.workers[at], plan.ps[at])
        jobs = np.array([job])
        rows = BookedPlans.nothing().having(job, part).placements(jobs)
        found.append((at, SLOT_S * float(progress.samples_per_s(jobs, rows)[0])))
    return found


@pytest.mark.parametrize("types", [False, True])
@pytest.mark.parametrize("noting", [NotingPdOrs, NotingOasis])
@pytest.mark.parametrize("seed", quick_first(range(instances(300))))
def test_the_world_is_never_slower_than_a_plan(
    noting: type[NotingPdOrs | NotingOasis], seed: int, types: bool
) -> None:
    world = typed(random_world(seed), seed) if types else random_world(seed)
    policy = noting()
    policy.sold = []
    result = run_world(world, policy)
    for job, plan in policy.sold:
        done = 0.0
        for at, trained in rates(world, job.number, plan):
            workers, on_one = int(plan.workers[at].sum()), len(at) == 1
            assert trained >= job.samples_trained(workers, on_one_server=on_one) * (1 - 1e-15)
            done += trained
        assert done >= job.samples * (1 - 1e-9)
    assert result.summary.completed == len(policy.sold)
    assert not types or misplaced(world, result) == []
    assert "under_delivered" not in (result.summary.policy_counts or {})


@BOTH
def test_under_the_truth_of_pd_ors_both_speeds_give_the_same_bytes(policy: str) -> None:
    for world in (example_1_a(), utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [8, 4], 2)):
        by_world, published = (run(world, policy, speeds=speeds) for speeds in ("world", "published"))
        assert fingerprint(by_world) == fingerprint(published)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("params", [{}, {"unfinished": "extend"}])
def test_so_do_runs_of_the_paper(policy: str, params: dict[str, object]) -> None:
    for seed in range(2):
        world = paper_world(20, 60, 20, seed)
        found = [
            fingerprint(run(world, policy, speeds=speeds, **params)) for speeds in ("world", "published")
        ]
        assert found[0] == found[1]


@pytest.mark.slow
def test_idle_capacity_goes_to_the_same_jobs_by_both_speeds() -> None:
    world = paper_world(20, 60, 20, 1)
    found = [fingerprint(run(world, idle="give", speeds=speeds)) for speeds in ("world", "published")]
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "nic", "published", "by_world"),
    [
        # (admitted, completed) by each speed; with nic=per_task hardly a job of the paper can end in time.
        ("pd_ors", "per_task", (15, 0), (1, 1)),
        ("pd_ors", "per_link", (15, 15), (13, 13)),
        ("oasis", "per_task", (11, 0), (0, 0)),
        ("oasis", "per_link", (11, 11), (11, 11)),
    ],
)
def test_jobs_of_the_paper_that_are_admitted_complete_by_the_general_truth(
    policy: str, nic: str, published: tuple[int, int], by_world: tuple[int, int]
) -> None:
    world = paper_world(50, 100, 20, 1, params={"truth": "placement", "nic": nic})
    for speeds, expected in (("published", published), ("world", by_world)):
        summary = run(world, policy, speeds=speeds).summary
        counts = summary.policy_counts or {}
        admitted, completed = counts.get("admitted", 0), summary.completed
        assert (admitted, completed) == expected
        assert counts.get("under_delivered", 0) == admitted - completed


def in_pairs(world: World) -> World:
    """The same with a worker for each parameter server: with per_link, both forms take equal time."""
    training = ElasticFacts.in_world(world).profile
    alike = replace(training, workers_per_ps=np.ones(len(training.samples)))
    return build_world(replace(world.table, training=alike), world.cluster, params=world.params)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("seed", range(3))
def test_where_both_forms_take_equal_time_it_earns_as_much(policy: str, seed: int) -> None:
    own = paper_world(20, 50, 20, seed)
    links = paper_world(20, 50, 20, seed, params={"truth": "placement", "nic": "per_link"})
    earned = [run(in_pairs(world), policy).summary.utility or 0.0 for world in (own, links)]
    assert earned[0] > 0
    assert earned[1] == pytest.approx(earned[0], rel=0.05)


def slow_world(slots: int = 3) -> World:
    """One job on a server of speed 0.8: 2 workers train a sample in 2.25 s, 88.9 in a slot and not 100."""
    return utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [6], slots, speed=[0.8])


def test_plans_know_how_slow_servers_are() -> None:
    # 3 workers do not fit, so 2 train 88.9 samples in slot 0 and 11.1 in slot 1.
    result = run(slow_world())
    assert result.jobs["status"].to_list() == ["completed"]
    assert result.jobs["utility"].to_list() == pytest.approx([4])


def test_jobs_that_outlast_their_plan_are_counted_and_told() -> None:
    short = run(slow_world(), speeds="published").summary
    assert (short.policy_counts or {})["under_delivered"] == 1
    [warning] = short.policy_warnings or []
    assert "1 of 1 admitted jobs had work left when their plan ended" in warning
    assert "-p unfinished=extend" in warning
    assert "-p speeds=world" in warning
    extended = run(slow_world(), speeds="published", unfinished="extend").summary
    assert (extended.policy_counts or {})["under_delivered"] == 1
    assert "unfinished=extend" not in (extended.policy_warnings or [""])[0]


@BOTH
def test_a_world_that_slows_jobs_without_a_limit_is_told_before_the_run(policy: str) -> None:
    params = {"truth": "placement", "nic": "per_server", "straggler_probability": 0.1}
    world = utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [8, 4], 9, params=params)
    with pytest.warns(UserWarning, match=r"nic=per_server, straggler_probability, which may slow"):
        result = run(world, policy)
    assert any("nic=per_server" in text for text in result.summary.policy_warnings or [])


@BOTH
def test_a_run_in_which_no_job_can_end_is_told_before(policy: str) -> None:
    # 100 samples of 4 s across servers by 4 workers take a slot, by half as fast ones more.
    params = {"truth": "placement"}
    world = utility_world(
        [0.0] * 2, [pd_ors_job(sample_s=10)] * 2, [worth(5, 4)] * 2, [8, 4], 2, params=params
    )
    with pytest.warns(UserWarning, match="none of 2 jobs can earn utility by the horizon"):
        result = run(world, policy)
    assert result.jobs["reason"].to_list() == ["infeasible"] * 2


@BOTH
def test_a_rule_without_a_bound_is_refused_by_name(policy: str) -> None:
    world = linear(example_1_a(), slot_s=SLOT_S, horizon_s=2 * SLOT_S)
    with pytest.raises(InvalidScenarioError, match="truth=linear states none"):
        run(world, policy)
    assert run(world, policy, speeds="published").summary.jobs == 3
