"""Base of the figures that a kind of job adds to a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Rows = Sequence[tuple[str, object]]
"""Labels and values."""


class FigureRows(NamedTuple):
    """Rows of the printed summary by the place where they stand."""

    earned: Rows = ()
    """After the utility."""
    progress: Rows = ()
    """After preemptions and restarts."""
    estimates: Rows = ()
    """Before the figures of the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """Figures of the counted jobs of a run; each field is a key of summary.json.

    The fields are numbers, dataclasses or null. List a subclass in `ray_sim.model.figures.registry`, so that
    its keys stand in every summary.json and its figures are read back.
    """

    def rows(self) -> FigureRows:
        """Rows of the printed summary; figures without a row are in summary.json only."""
        return FigureRows()


def known(*rows: tuple[str, object]) -> Rows:
    """The rows that have a value."""
    return [(label, value) for label, value in rows if value is not None]
