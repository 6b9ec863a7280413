"""drf, worked out by hand. Every worker and parameter server of `tests.training.profile` takes one GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import create_policy
from tests.elastic_worlds import elastic_world
from tests.training import profile

Held = list[tuple[str, str, int]]
"""(server, role, tasks)."""


def drf(
    jobs: Sequence[TrainingProfile], gpus: Sequence[float], submit_s: Sequence[float] = (), **params: object
) -> RunResult:
    world = elastic_world(submit_s or [0] * len(jobs), jobs, gpus, {"slot_s": 100, "restart_cost_s": 10})
    return run_world(world, create_policy("drf", params))


def held(result: RunResult, job: str, time_s: float) -> Held:
    """What a job is given at this second."""
    rows = result.events.filter(job_id=job, time_s=time_s).filter(event="start")
    rows = rows if len(rows) else result.events.filter(job_id=job, time_s=time_s, event="move")
    return rows.select("server", "role", "count").rows()


def test_jobs_share_the_servers_at_the_next_slot() -> None:
    """Bundles of two GPUs: four for the first alone, two each from the slot after the second came."""
    result = drf([profile(), profile()], [8], [0, 130])
    assert held(result, "J1", 0) == [("s0", "worker", 4), ("s0", "ps", 4)]
    # 10 / 4 s, and each parameter server passes a quarter to four workers, 0.4 s a whole, there and back.
    assert result.jobs["finish_s"][0] == pytest.approx(20 * (10 / 4 + 2 * 0.4), abs=1e-5)
    assert held(result, "J2", 200) == [("s0", "worker", 4), ("s0", "ps", 4)]
    together = drf([profile(), profile()], [8], [0, 30], when="event")
    assert held(together, "J1", 30) == held(together, "J2", 30) == [("s0", "worker", 2), ("s0", "ps", 2)]


@pytest.mark.parametrize(
    ("params", "workers"),
    [({"cap": "asked"}, 2), ({"most_workers": 3}, 3), ({"cap": "asked", "most_workers": 1}, 1), ({}, 8)],
)
def test_a_job_gets_no_more_workers_than_it_may_have(params: dict[str, object], workers: int) -> None:
    result = drf([profile(num_workers=2)], [16], (), **params)
    assert held(result, "J1", 0) == [("s0", "worker", workers), ("s0", "ps", workers)]


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ({"workers_per_ps": 3}, [("s0", "worker", 3), ("s0", "ps", 1)]),
        # Three workers per parameter server asked for; one server of four GPUs holds no more.
        ({"workers_per_ps": 10}, [("s0", "worker", 3), ("s0", "ps", 1)]),
        ({"workers_per_ps": 3, "batch": 2}, [("s0", "worker", 2), ("s0", "ps", 1)]),
        ({"exchange": Exchange.ALL_REDUCE, "num_ps": 0}, [("s0", "worker", 4)]),
    ],
)
def test_a_bundle_is_workers_and_their_parameter_server(columns: dict[str, float], rows: Held) -> None:
    assert held(drf([profile(**columns)], [4]), "J1", 0) == rows


def test_a_bundle_that_no_server_holds_is_rejected_by_name() -> None:
    """A worker on one server and a parameter server on another would do, but a bundle is not split."""
    result = drf([profile(), profile()], [1, 1])
    assert result.summary.reasons == {"bundle_never_fits": 2}


def test_who_keeps_what_he_holds_pays_no_restart() -> None:
    """Each job has what it asks for; others come and go, behind it in the order of servers."""
    jobs = [profile(epochs=4), profile(epochs=1), profile()]
    result = drf(jobs, [2, 2, 2], [0, 0, 130], cap="asked", when="event")
    assert result.jobs["restarts"].to_list() == [0, 0, 0]
    assert result.jobs["finish_s"].to_list() == pytest.approx([432, 108, 130 + 216], abs=1e-5)


def test_a_pool_gives_what_no_server_holds() -> None:
    """Six GPUs in the pool are three bundles of two, but two servers of three hold one each."""
    plain, pooled = (drf([profile(), profile()], [3, 3], pooled=pooled) for pooled in (False, True))
    for result in (plain, pooled):
        assert held(result, "J1", 0) == [("s0", "worker", 1), ("s0", "ps", 1)]
        assert held(result, "J2", 0) == [("s1", "worker", 1), ("s1", "ps", 1)]
    # Both end at once, so there is one round.
    assert (plain.summary.policy_counts, pooled.summary.policy_counts) == (None, {"unplaced_bundles": 1})


def test_partitions_are_shared_apart() -> None:
    """Of the partition's six GPUs each of two jobs gets one bundle of two, and the first another."""
    world = elastic_world([0, 0, 0], [profile()] * 3, [6, 4], {"slot_s": 100})
    servers = replace(world.cluster, vc=("a", "b"))
    table = replace(world.table, vc=np.array([0, 0, 1]), vc_names=("a", "b"))
    world = build_world(table, servers, partition="vc", params={"truth": "placement", "slot_s": 100})
    result = run_world(world, create_policy("drf"))
    assert held(result, "J1", 0) == [("s0", "worker", 2), ("s0", "ps", 2)]
    assert held(result, "J2", 0) == [("s0", "worker", 1), ("s0", "ps", 1)]
    assert held(result, "J3", 0) == [("s1", "worker", 2), ("s1", "ps", 2)]
