"""Figures of jobs that hold all their tasks or nothing."""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.figures.base import KindFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFigures(KindFigures):
    """Figures of rigid jobs, and of kinds that pause as they do."""

    restart_share: float | None = None
    """Share of the time with servers that jobs spent in restart pauses; null where no job had servers."""
