"""Base of the figures that a kind of job adds to a summary, and those of gangs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """Figures of the counted jobs of a run; each field is a key of summary.json.

    The fields are numbers, dataclasses or null. List a subclass in `ray_sim.model.figures.registry`, so that
    its keys stand in every summary.json and its figures are read back. Rows of the printed summary are
    registered with `ray_sim.reports.tables`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFigures(KindFigures):
    """Figures of rigid jobs, and of kinds that pause as they do."""

    restart_share: float | None = None
    """Share of the time with servers that jobs spent in restart pauses; null where no job had servers."""
