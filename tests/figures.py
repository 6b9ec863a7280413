"""Figures of a result that its kind of jobs must have."""

from __future__ import annotations

from ray_sim.model.figures import AnnouncedFigures, ChunkedFigures, ElasticFigures, WelfareFigures
from ray_sim.model.result import FiguresT, RunResult


def figures_of(result: RunResult, kind: type[FiguresT]) -> FiguresT:
    """The figures of the jobs, which are of this class."""
    found = result.summary.figures_as(kind)
    assert found is not None
    return found


def chunked_of(result: RunResult) -> ChunkedFigures:
    """Figures of chunked jobs."""
    return figures_of(result, ChunkedFigures)


def elastic_of(result: RunResult) -> ElasticFigures:
    """Figures of elastic jobs."""
    return figures_of(result, ElasticFigures)


def welfare_of(result: RunResult) -> WelfareFigures:
    """Earnings of announced jobs."""
    return figures_of(result, AnnouncedFigures).welfare
