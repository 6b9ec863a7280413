"""Policies of elastic jobs keep to the GPU types that jobs accept."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim.contract.elastic_worlds import busy_bounded, failing_bounded
from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.model.job import UtilityProfile
from ray_sim.policies.registry import describe_policy
from tests.policies.test_eligible_servers import misplaced, typed
from tests.policies.utility_worlds import pd_ors_job, utility_world, worth
from tests.proofs import instances, quick_first
from tests.training import profile, together
from tests.worlds import Job, cluster_of, confined, fingerprint, job_table, replay

TYPES = ("T4", "V100", "V100", "P100")
LISTS = ("V100", "T4|P100", None, "T4", "V100|P100", "V100")


def typed_elastic_world(lists: tuple[str | None, ...]) -> World:
    """Six jobs of three workers and a parameter server, of 1 GPU and of CPU only, on four servers."""
    n = len(lists)
    table = job_table(
        [Job(5.0 * job, 3, 100) for job in range(n)],
        ("gpu", "cpu"),
        {"gpu_types": list(lists)},
    )
    one = profile(num_workers=3, num_ps=1, samples=4000, workers_per_ps=2)
    training = together(*[one] * n)
    training = replace(
        training, worker_demand=np.tile([1000, 1000], (n, 1)), ps_demand=np.tile([0, 1000], (n, 1))
    )
    table = replace(table, training=training)
    cluster = replace(cluster_of([4, 2, 4, 2], cpu=[6, 4, 6, 4]), gpu_type=TYPES)
    return build_world(table, cluster, params={"truth": "placement", "slot_s": 10})


POLICIES: list[tuple[str, dict[str, Any]]] = [
    *[(name, {}) for name in ("fifo", "srtf", "load_balance", "tetris_packing", "drf", "tetris", "dorm")],
    ("drf", {"pooled": True}),
    ("optimus", {"remaining": "known"}),
    ("optimus", {"remaining": "known", "placement": "spread", "allocation": "tetris"}),
]


@pytest.mark.parametrize(("policy", "params"), quick_first(POLICIES, 2))
def test_workers_run_on_accepted_types_and_jobs_complete(policy: str, params: dict[str, Any]) -> None:
    result = replay(typed_elastic_world(LISTS), policy, **params)
    assert result.jobs["status"].to_list() == ["completed"] * len(LISTS)
    rows = result.events.filter(pl.col("server").is_not_null(), pl.col("role") == "worker")
    on = {
        (int(job[1:]) - 1, TYPES[int(server[1:])]) for job, server in rows.select("job_id", "server").rows()
    }
    assert all(LISTS[job] is None or found in str(LISTS[job]).split("|") for job, found in on)
    assert {job for job, _ in on} == set(range(len(LISTS)))


@pytest.mark.parametrize(("policy", "params"), quick_first(POLICIES, 2))
def test_lists_of_all_types_change_no_byte(policy: str, params: dict[str, Any]) -> None:
    every, none = typed_elastic_world(("T4|V100|P100",) * 4), typed_elastic_world((None,) * 4)
    assert fingerprint(replay(every, policy, **params)) == fingerprint(replay(none, policy, **params))


def test_listings_say_which_policies_respect_types() -> None:
    assert all(describe_policy(name).gpu_types for name in ("drf", "pd_ors", "oasis"))
    assert not any(describe_policy(name).gpu_types for name in ("a_online", "posted_price"))


PLANNERS: list[tuple[str, dict[str, Any]]] = [
    ("pd_ors", {}),
    ("pd_ors", {"round": "last", "gain": "packing", "idle": "give"}),
    ("pd_ors", {"replan": "failed", "unfinished": "extend", "idle": "give", "record": True}),
    ("oasis", {"replan": "failed", "unfinished": "extend"}),
]


@pytest.mark.parametrize(("policy", "params"), PLANNERS)
@pytest.mark.parametrize("seed", quick_first(range(instances(60, 5))))
def test_planners_place_no_task_on_types_that_jobs_do_not_accept(
    policy: str, params: dict[str, Any], seed: int
) -> None:
    world = typed((failing_bounded if params else busy_bounded)(20, seed), seed)
    result = replay(world, policy, **params)
    assert misplaced(world, result) == []
    assert result.summary.completed > 0
    certificate = result.summary.utility_certificate
    assert certificate is None or (result.summary.utility or 0.0) <= certificate.bound


@pytest.mark.parametrize(("policy", "params"), quick_first(PLANNERS))
def test_lists_of_all_types_change_no_byte_of_plans(policy: str, params: dict[str, Any]) -> None:
    world = (failing_bounded if params else busy_bounded)(20)
    types = ["x", "y"] * 3 + ["x"]
    every, none = (confined(world, types, [each] * 20) for each in ("y|x", None))
    assert fingerprint(replay(every, policy, **params)) == fingerprint(replay(none, policy, **params))


def two_servers(lists: tuple[str | None, ...], utilities: tuple[float, ...], **others: Any) -> World:
    """Jobs that each take all 6 GPUs of a T4 or of a V100 server for the only slot, as in example 1.A."""
    jobs, worths = [pd_ors_job()] * len(lists), [worth(each, each / 2) for each in utilities]
    return confined(
        utility_world([0.0] * len(lists), jobs, worths, [6, 6], 1, **others), ("T4", "V100"), lists
    )


def test_a_job_waits_for_no_type_but_its_own() -> None:
    # A takes the V100 server and pays 6 x L. B finds it full, the T4 server being no help; C gets that one.
    result = replay(two_servers(("V100", "V100", None), (5, 9, 2)), "pd_ors")
    assert result.jobs["utility"].to_list() == pytest.approx([5, 0, 2])
    assert result.jobs["reason"].to_list() == [None, "infeasible", None]
    # L = 2 x 12 / 12 / (2 x 12) = 1 / 12 and U = 9 / 3: prices are those of both servers.
    figures = result.summary.policy_figures or {}
    assert figures["price_span"] == pytest.approx(math.log(36))
    ignored = replay(two_servers(("V100", "V100", None), (5, 9, 2), params={"gpu_types": "ignore"}), "pd_ors")
    assert ignored.jobs["utility"].to_list() == pytest.approx([5, 9, 0])


def test_a_job_that_cannot_end_on_its_types_makes_no_price() -> None:
    # D accepts no server; its utility would make L a thousandth and U a hundred times as much.
    result = replay(two_servers(("V100", None, "P100"), (9, 2, 900)), "pd_ors")
    assert result.jobs["utility"].to_list() == pytest.approx([9, 2, 0])
    assert (result.summary.policy_figures or {})["price_span"] == pytest.approx(math.log(36))


@pytest.mark.parametrize(("accepted", "utility"), [("V100", 5), ("T4", 0), ("T4|V100", 0)])
def test_plans_count_on_the_slowest_server_of_the_types_accepted(accepted: str, utility: float) -> None:
    # At speed 0.5 a sample takes 3 s in place of 2: 2 workers train 67 of the 100 in a slot.
    world = two_servers((accepted,), (5,), speed=[0.5, 1.0])
    assert replay(world, "pd_ors").jobs["utility"].to_list() == pytest.approx([utility])


def test_parameter_servers_without_gpus_stand_on_any_server() -> None:
    # The core of the V100 server serves one worker; spread, 4 workers need 4 cores: those of the T4 server.
    training = replace(pd_ors_job(), worker_demand=np.array([[2000, 0]]), ps_demand=np.array([[0, 1000]]))
    utility = UtilityProfile(*np.array([[value] for value in worth(5, 4)]))
    table = replace(job_table([Job(0.0, 1, 100)], ("gpu", "cpu")), training=training, utility=utility)
    params = {"truth": "pd_ors", "slot_s": 100, "horizon_s": 100}
    world = build_world(table, cluster_of([4, 16], cpu=[4, 1]), params=params)
    result = replay(confined(world, ("T4", "V100"), ("V100",)), "pd_ors")
    started = result.events.filter(pl.col("event") == "start").select("role", "server", "count")
    assert sorted(started.rows()) == [("ps", "s0", 4), ("worker", "s1", 4)]


@pytest.mark.parametrize(("accepted", "utility"), [("V100", 5), ("T4", 0), (None, 5)])
def test_oasis_looks_for_types_on_each_side(accepted: str | None, utility: float) -> None:
    # The first two of four servers hold workers, one of each type; 4 workers of 2 GPUs take the 8 of V100.
    one_slot = utility_world([0.0], [pd_ors_job()], [worth(5, 4)], [6, 8, 6, 6], 1)
    world = confined(one_slot, ("T4", "V100", "T4", "V100"), (accepted,))
    result = replay(world, "oasis")
    assert result.jobs["utility"].to_list() == pytest.approx([utility])
    started = result.events.filter(pl.col("event") == "start").select("role", "server", "count").rows()
    assert accepted != "V100" or started == [("worker", "s1", 4), ("ps", "s3", 4)]
