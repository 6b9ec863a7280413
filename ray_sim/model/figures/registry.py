"""Figures of all kinds of jobs, in the order of their keys in a summary."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from ray_sim.model.figures.announced import AnnouncedFigures
from ray_sim.model.figures.base import GangFigures, KindFigures
from ray_sim.model.figures.chunked import ChunkedFigures
from ray_sim.model.figures.elastic import ElasticFigures

FIGURES: tuple[type[KindFigures], ...] = (ChunkedFigures, GangFigures, ElasticFigures, AnnouncedFigures)


def all_figures(found: Mapping[str, Any], kinds: Sequence[type[KindFigures]] = FIGURES) -> dict[str, Any]:
    """The figures found by name, and null for those that only other kinds of jobs have."""
    return dict.fromkeys(each.name for kind in kinds for each in fields(kind)) | dict(found)


def class_of(
    found: Collection[str], kinds: Sequence[type[KindFigures]] = FIGURES
) -> type[KindFigures] | None:
    """The class with the fewest figures that has all of those found, by name; None if no class has all."""
    fitting = [kind for kind in kinds if set(found) <= {each.name for each in fields(kind)}]
    return min(fitting, key=lambda kind: len(fields(kind)), default=None)
