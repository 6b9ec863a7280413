"""Fill a workload layer by layer: each layer draws columns that are empty so far."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import polars as pl

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.measured_speeds import SpeedTable
from workloads.announcements.announce import FILLED, AnnouncementReport, announce, announced_provenance
from workloads.announcements.profile import AnnouncementDraws
from workloads.files import require_other_file, require_replaceable
from workloads.progress import Progress, silent
from workloads.provenance import SourceFile
from workloads.sources import name_of
from workloads.store import has_provenance, read_frame, read_provenance, write_workload
from workloads.training.enrich import EnrichReport, Feasibility, enrich, enriched_provenance, filled_columns
from workloads.training.measured import FILLED as MEASURED
from workloads.training.measured import MeasuredReport, draw_models, measured_provenance
from workloads.training.profile import TrainingDraws

Draws: TypeAlias = TrainingDraws | AnnouncementDraws | SpeedTable
"""A profile that has been read: of training, of statements, or of measured speeds."""

LayerReport: TypeAlias = EnrichReport | AnnouncementReport | MeasuredReport


@dataclass(frozen=True, slots=True)
class EnrichmentLayer:
    """One profile to draw from, and the rule by which its jobs count as infeasible."""

    draws: Draws
    feasibility: Feasibility = field(default_factory=Feasibility)
    """An announcement leaves no job out; a table of speeds those of an unmeasured number of GPUs."""

    @property
    def filled(self) -> tuple[str, ...]:
        """Columns that the layer fills."""
        if isinstance(self.draws, TrainingDraws):
            return tuple(filled_columns(self.draws))
        return MEASURED if isinstance(self.draws, SpeedTable) else FILLED


def check_layers(layers: Sequence[EnrichmentLayer]) -> None:
    """Raise InvalidInputError for layers of which two fill the same column; names both and the columns."""
    for first, second in itertools.combinations(layers, 2):
        if both := [name for name in first.filled if name in second.filled]:
            raise InvalidInputError(
                f"layers {first.draws.name} and {second.draws.name}: both fill {', '.join(both)}; leave out "
                "one of the two, or give a profile of your own without these columns"
            )


def fill(
    frame: pl.DataFrame, layer: EnrichmentLayer, seed: int, progress: Progress = silent
) -> tuple[pl.DataFrame, LayerReport]:
    """Draw the columns of one layer; see `enrich`, `announce` and `draw_models`, also for errors."""
    if isinstance(layer.draws, AnnouncementDraws):
        return announce(frame, layer.draws, seed, progress)
    if isinstance(layer.draws, SpeedTable):
        return draw_models(frame, layer.draws, seed, only=layer.feasibility.only)
    return enrich(frame, layer.draws, seed, layer.feasibility, progress)


def enriched(frame: pl.DataFrame, layers: Sequence[EnrichmentLayer], seed: int) -> tuple[pl.DataFrame, int]:
    """Draw the columns of every job of a workload.

    Returns
    -------
    The jobs that are kept, and the number of infeasible jobs that are left out
    """
    jobs = frame.height
    for layer in layers:
        frame, _ = fill(frame, layer, seed)
    return frame, jobs - frame.height


def fill_file(
    source: str, out: Path, layers: Sequence[EnrichmentLayer], seed: int, progress: Progress = silent
) -> list[LayerReport]:
    """Write the jobs of a workload file with the columns of all layers; returns a report per layer.

    The provenance of the file is that of the last layer, whose ``source_provenance`` is that of the layer
    before, and so on to the provenance of the source. Errors: see `read_frame`, `fill` and `check_layers`.
    """
    check_layers(layers)
    require_other_file(source, out)
    require_replaceable(out, has_provenance)
    frame, made = read_frame(source), read_provenance(source)
    origin = SourceFile.of(source, name_of(source).name)
    reports: list[LayerReport] = []
    for layer in layers:
        frame, report = fill(frame, layer, seed, progress)
        reports.append(report)
        if isinstance(report, AnnouncementReport):
            assert isinstance(layer.draws, AnnouncementDraws)
            made = announced_provenance(layer.draws, seed, report, origin, made)
        elif isinstance(report, MeasuredReport):
            assert isinstance(layer.draws, SpeedTable)
            made = measured_provenance(layer.draws, seed, report, origin, made)
        else:
            assert isinstance(layer.draws, TrainingDraws)
            made = enriched_provenance(layer.draws, layer.feasibility, seed, report, origin, made)
    assert made is not None, "at least one layer"
    progress(frame.height, frame.height, "writing")
    write_workload(frame, made, out)
    return reports
