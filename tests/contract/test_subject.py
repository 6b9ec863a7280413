"""Worlds on which policies are checked are what their names say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from ray_sim.contract.announced_worlds import announced_edge_cases
from ray_sim.contract.chunked_worlds import chunk_edge_cases
from ray_sim.contract.elastic_worlds import bounded_edge_cases, elastic_edge_cases
from ray_sim.contract.rigid_worlds import EdgeCase, edge_cases
from ray_sim.engine.world import World

Case = World | EdgeCase


@pytest.mark.parametrize(
    "cases", [edge_cases, chunk_edge_cases, elastic_edge_cases, bounded_edge_cases, announced_edge_cases]
)
def test_edge_cases_have_none_one_or_many_jobs_at_once(cases: Callable[[], Mapping[str, Case]]) -> None:
    tables = {name: (case if isinstance(case, World) else case[0]).table for name, case in cases().items()}
    assert [len(tables[name]) for name in ("no job", "one job", "all at once")] == [0, 1, 20]
    assert len(np.unique(tables["all at once"].submit_us)) == 1
