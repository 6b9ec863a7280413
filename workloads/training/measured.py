"""Enrichment with measured speeds: a model and a batch for each job, and the steps of its run time on V100.

So Gavel's traces are made. `workloads.layers.fill` calls it for the profile that is a table of speeds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.measured_speeds import SpeedTable
from ray_sim.model.streams import Streams, text_entities
from ray_sim.model.text import short_text
from workloads.checks import refuse_absurd
from workloads.provenance import Counts, Provenance, SourceFile
from workloads.schema import SCHEMA
from workloads.training.speed_tables import reference_rows

VERSION = "1"
"""Changes when the same arguments draw other numbers."""

FILLED = ("model", "batch", "steps")
"""Columns that are filled."""


@dataclass(frozen=True, slots=True)
class MeasuredReport:
    """Counts of the jobs read, and of those left without a model."""

    read: int
    unmeasured: dict[str, int]
    """Jobs by number of GPUs, on which the table has no speed."""
    kept: int
    """All jobs, or those with a model."""

    def to_dict(self) -> dict[str, object]:
        """Plain nested values, for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line to show."""
        without = sum(self.unmeasured.values())
        return [
            ("jobs read", self.read),
            ("jobs kept", self.kept),
            ("jobs with a model", self.read - without),
            *((f"without, {gpus} GPUs", count) for gpus, count in self.unmeasured.items()),
        ]


def draw_models(
    frame: pl.DataFrame, table: SpeedTable, seed: int, *, only: bool = False
) -> tuple[pl.DataFrame, MeasuredReport]:
    """Fill the columns `FILLED` of every job whose number of GPUs the table has.

    Model and batch are drawn uniformly from those measured on the job's number of GPUs of `REFERENCE`; a draw
    is keyed by seed and job_id. Steps are run time times speed on one server, rounded, at least 1.

    Parameters
    ----------
    frame : columns of `SCHEMA`, assumed sound, without values in those to fill
    only : whether to leave out the jobs without a model

    Raises
    ------
    InvalidWorkloadError : a column has values already, a job would have too many steps, or no job is left
    InvalidInputError : the table has no speed on `REFERENCE`
    """
    rows = reference_rows(table)
    if taken := [name for name in FILLED if frame[name].null_count() < frame.height]:
        raise InvalidWorkloadError(
            f"the workload already says {', '.join(taken)}; drawn and other values must not mix, so "
            f"{table.name} can only fill a workload without these columns"
        )
    gpus = frame["num_gpus"].to_numpy()
    uniform = Streams(seed).uniforms("measured model", text_entities(frame["job_id"]))
    drawn = np.full(frame.height, -1)
    for n in {row.gpus for row in rows}:
        jobs, choices = gpus == n, np.array([i for i, row in enumerate(rows) if row.gpus == n])
        drawn[jobs] = choices[np.floor(uniform[jobs] * len(choices)).astype(np.int64)]
    chosen = pl.Series(drawn).replace(-1, None)
    speed = pl.Series([row.steps_per_s for row in rows]).gather(chosen)
    filled = frame.with_columns(
        model=pl.Series([row.model for row in rows]).gather(chosen),
        batch=pl.Series([row.batch for row in rows], dtype=pl.Int64).gather(chosen),
        steps=(pl.col("duration_s") * speed).round().clip(lower_bound=1).cast(pl.Int64),
    ).select(*SCHEMA)
    refuse_absurd(filled, ("steps",), "check its duration_s, and the table of speeds")
    kept = filled.filter(drawn >= 0) if only else filled
    if kept.is_empty():
        raise InvalidWorkloadError(f"no job has a number of GPUs of which {table.name} has a speed")
    counts = Counter(gpus[drawn < 0].tolist())
    unmeasured = {short_text(n): counts[n] for n in sorted(counts)}
    return kept, MeasuredReport(frame.height, unmeasured, kept.height)


def measured_provenance(
    table: SpeedTable, seed: int, report: MeasuredReport, source: SourceFile, made: Provenance | None
) -> Provenance:
    """Provenance of drawn models; ``made`` is that of the jobs before, None where they have none."""
    dropped = report.read - report.kept
    rejected = {"unmeasured": dropped} if dropped else {}
    return Provenance(
        sources=(source,),
        converter="measured",
        converter_version=VERSION,
        options={"profile": table.name, "profile_sha256": table.sha256},
        seed=seed,
        counts=Counts(read=report.read, kept=report.kept, rejected=rejected),
        notes={
            **({} if made is None else made.clock_notes),
            "drawn": [*FILLED],
            "unmeasured": dict(report.unmeasured),
            "source_provenance": None if made is None else made.model_dump(mode="json"),
        },
    )
