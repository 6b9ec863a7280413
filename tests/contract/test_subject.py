"""Worlds on which policies are checked are what their names say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ray_sim.contract.announced_worlds import announced_edge_cases
from ray_sim.contract.chunked_worlds import chunk_edge_cases
from ray_sim.contract.elastic_worlds import bounded_edge_cases, elastic_edge_cases
from ray_sim.contract.rigid_worlds import SHARED, TYPED, EdgeCase, edge_cases
from ray_sim.contract.subject import Subject
from ray_sim.contract.suite import CLAUSES
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import devices
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.fifo import Fifo

Case = World | EdgeCase


class Blind(Fifo):
    """Knows neither types nor devices, and says so."""

    name = "blind"
    respects_types = False
    respects_shares = False


@pytest.mark.parametrize(("case", "remedy"), [(TYPED, "gpu_types=ignore"), (SHARED, "gpu_shares=pooled")])
def test_types_and_shares_are_among_the_edge_cases_and_are_refused_by_name(case: str, remedy: str) -> None:
    world = edge_cases()[case]
    assert len(world.arrays.pool_ptr) > 2 or devices(world.arrays)
    assert Subject(Fifo).run(world).summary.unfinished == 0
    with pytest.raises(InvalidScenarioError, match=f"policy blind .*{remedy}"):
        run_world(world, Blind())
    told = CLAUSES["edge cases"](Subject(Blind))
    assert case not in told
    assert case in CLAUSES["edge cases"](Subject(Fifo))


@pytest.mark.parametrize(
    "cases", [edge_cases, chunk_edge_cases, elastic_edge_cases, bounded_edge_cases, announced_edge_cases]
)
def test_edge_cases_have_none_one_or_many_jobs_at_once(cases: Callable[[], Mapping[str, Case]]) -> None:
    tables = {name: (case if isinstance(case, World) else case[0]).table for name, case in cases().items()}
    assert [len(tables[name]) for name in ("no job", "one job", "all at once")] == [0, 1, 20]
    assert len(np.unique(tables["all at once"].submit_us)) == 1
