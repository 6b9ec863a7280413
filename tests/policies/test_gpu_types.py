"""Policies of elastic jobs keep to the GPU types that jobs accept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.registry import describe_policy
from tests.training import profile, together
from tests.worlds import Job, cluster_of, fingerprint, job_table, replay

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


@pytest.mark.parametrize(("policy", "params"), POLICIES)
def test_workers_run_on_accepted_types_and_jobs_complete(policy: str, params: dict[str, Any]) -> None:
    result = replay(typed_elastic_world(LISTS), policy, **params)
    assert result.jobs["status"].to_list() == ["completed"] * len(LISTS)
    rows = result.events.filter(pl.col("server").is_not_null(), pl.col("role") == "worker")
    on = {
        (int(job[1:]) - 1, TYPES[int(server[1:])]) for job, server in rows.select("job_id", "server").rows()
    }
    assert all(LISTS[job] is None or found in str(LISTS[job]).split("|") for job, found in on)
    assert {job for job, _ in on} == set(range(len(LISTS)))


@pytest.mark.parametrize(("policy", "params"), POLICIES)
def test_lists_of_all_types_change_no_byte(policy: str, params: dict[str, Any]) -> None:
    every, none = typed_elastic_world(("T4|V100|P100",) * 4), typed_elastic_world((None,) * 4)
    assert fingerprint(replay(every, policy, **params)) == fingerprint(replay(none, policy, **params))


def test_planners_refuse_types_by_name_and_say_so_in_listings() -> None:
    assert describe_policy("drf").gpu_types
    refusing = {"pd_ors", "oasis", "a_online", "posted_price"}
    assert not any(describe_policy(name).gpu_types for name in refusing)
    world = typed_elastic_world(LISTS)
    bounded = build_world(
        world.table, world.cluster, params={"truth": "placement", "slot_s": 10, "horizon_s": 1000}
    )
    with pytest.raises(InvalidScenarioError, match=r"policy pd_ors .*gpu_types=ignore"):
        replay(bounded, "pd_ors")
