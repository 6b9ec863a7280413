"""Limits of announced jobs for bounds on their welfare."""

from __future__ import annotations

import numpy as np

from ray_sim.certificates.welfare import WelfareLimits
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.model.statement import Statements
from ray_sim.model.units import BoolArray


def welfare_limits(facts: AnnouncedFacts, horizon_us: int, counted: BoolArray | None = None) -> WelfareLimits:
    """True statements and what came of the counted jobs, (J,); the others could only take GPUs."""
    jobs = facts.statements
    chosen = np.ones(len(jobs.true), dtype=np.bool_) if counted is None else counted
    true = Statements(
        birth=jobs.true.birth[chosen],
        concurrency=jobs.true.concurrency[chosen],
        value_row=jobs.true.value_row[chosen],
        outlook_row=jobs.true.outlook_row[chosen],
        values=jobs.true.values,
        outlooks=jobs.true.outlooks,
    )
    # Nothing is worth anything S rounds after the last birth, so that no run need be bounded.
    worthless = int(true.birth.max(initial=0)) + true.values.shape[1] - 1
    return WelfareLimits(
        statements=true,
        arrival=jobs.arrival[chosen],
        duration=jobs.duration[chosen],
        nodes=facts.nodes,
        rounds=min(horizon_us // facts.slot_us, worthless),
    )
