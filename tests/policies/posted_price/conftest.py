"""Fixtures of the posted-price mechanism."""

from __future__ import annotations

import pytest

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.planner import Launch, PlannedJob, Planner


@pytest.fixture
def utilities(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Expected utilities of all plans that are made, in units."""
    found: list[float] = []
    plan = Planner.plan

    def recorded(
        planner: Planner,
        job: PlannedJob,
        node_prices: tuple[IntArray, BoolArray],
        failure: FloatArray | None = None,
        bought: BoolArray | None = None,
    ) -> tuple[Launch, float]:
        made = plan(planner, job, node_prices, failure, bought)
        found.append(made[1])
        return made

    monkeypatch.setattr(Planner, "plan", recorded)
    return found
