"""Enrichment: how the jobs of a workload train, drawn from a profile and consistent with each row.

The row gives the GPUs and the run time. Everything else is drawn, but the samples of an epoch: they are
solved for, so that the bundle asked for, on the fewest reference servers, trains for the traced run time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.streams import Streams
from ray_sim.model.units import BoolArray, FloatArray
from workloads.bundles import reasons_against
from workloads.checks import refuse_absurd
from workloads.draws import ends
from workloads.enrich_columns import drawn_columns
from workloads.files import sha256
from workloads.provenance import Counts, Provenance, Source
from workloads.reference_servers import (
    any_of,
    bundles_of,
    reasons_against_reference,
    reference_rates,
    shortest_s,
)
from workloads.schema import SCHEMA
from workloads.sources import name_of
from workloads.store import read_frame, read_provenance, write_workload
from workloads.training_draws import BY_ROW, GIVEN, SOLVED, TrainingDraws

VERSION = "1"
"""Changes when the same arguments draw other numbers."""


@dataclass(frozen=True, slots=True)
class EnrichReport:
    """What became of the jobs of a workload."""

    read: int
    kept: int
    outside_range: dict[str, int]
    """By column and side, values that follow from the row and leave the profile's range; they are kept."""
    infeasible: dict[str, int]
    """By reason, jobs whose bundle never fits; dropped where that was asked for."""

    def to_dict(self) -> dict[str, object]:
        """Plain nested values, for JSON."""
        return asdict(self)

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line to show."""
        return [
            ("jobs read", self.read),
            ("jobs kept", self.kept),
            *((f"outside the range, {where}", self._share(n)) for where, n in self.outside_range.items()),
            *((f"infeasible, {reason}", self._share(n)) for reason, n in self.infeasible.items()),
        ]

    def _share(self, count: int) -> str:
        return f"{count:,} ({count / max(self.read, 1):.1%})"


@dataclass(frozen=True, slots=True)
class Feasibility:
    """When a job counts as infeasible, and what becomes of it."""

    cluster: Cluster | None = None
    """What must hold a job's bundle; without it, reference servers without end."""
    horizon_s: float | None = None
    """Time after the first submission by which a job must be able to end, alone, on one server, with as many
    workers as its batch has samples; unlimited without it."""
    only: bool = False
    """Whether infeasible jobs are left out; they are counted either way."""


def enrich(
    frame: pl.DataFrame, draws: TrainingDraws, seed: int, feasibility: Feasibility = Feasibility()
) -> tuple[pl.DataFrame, EnrichReport]:
    """Fill the columns that the profile draws, and those that follow from them.

    A draw is keyed by seed, column, vc and trace_order: leaving jobs out changes nothing for the others.

    Parameters
    ----------
    frame : columns of `SCHEMA`, assumed sound, without values in the columns to fill

    Raises
    ------
    InvalidWorkloadError : a column to fill has values already, a job would train absurdly much, or no job
        is left
    InvalidInputError : the profile has nothing by which to judge what is feasible as asked
    """
    _refuse_values(frame, draws)
    _refuse_idle(draws, feasibility)
    filled = frame.with_columns(drawn_columns(frame, draws, Streams(seed)).get_columns()).select(*SCHEMA)
    if SOLVED in draws.columns:
        work = filled["duration_s"].to_numpy() * reference_rates(filled, draws)
        filled = filled.with_columns(samples=work / filled["epochs"].to_numpy())
    refuse_absurd(filled, (SOLVED, "epochs"), "check its duration_s and num_gpus, and the profile")
    against = _against(filled, draws, feasibility)
    never = any_of(against, frame.height)
    kept = filled.filter(~never) if feasibility.only else filled
    if kept.is_empty():
        raise InvalidWorkloadError(
            f"none of {frame.height:,} jobs is feasible; take larger servers or a later horizon"
        )
    infeasible = {reason: int(jobs.sum()) for reason, jobs in against.items() if jobs.any()}
    return kept, EnrichReport(frame.height, kept.height, _outside(filled, draws), infeasible)


def enrich_file(
    source: str,
    out: Path,
    draws: TrainingDraws,
    seed: int,
    feasibility: Feasibility = Feasibility(),
) -> EnrichReport:
    """Write the enriched jobs of a workload file; its provenance says what was drawn, and from what.

    Raises
    ------
    InvalidWorkloadError : see `read_frame` and `enrich`
    InvalidInputError : the file cannot be written
    """
    frame, made = read_frame(source), read_provenance(source)
    enriched, report = enrich(frame, draws, seed, feasibility)
    dropped = report.read - report.kept
    notes = {} if made is None else {key: made.notes[key] for key in ("epoch_utc",) if key in made.notes}
    provenance = Provenance(
        sources=(Source(name=name_of(source).name, sha256=sha256(source)),),
        converter="enrich",
        converter_version=VERSION,
        options={
            "profile": draws.name,
            "profile_sha256": draws.sha256,
            "feasible_only": feasibility.only,
            "cluster": None if feasibility.cluster is None else feasibility.cluster.name,
            "horizon_s": feasibility.horizon_s,
        },
        seed=seed,
        counts=Counts(
            read=report.read, kept=report.kept, rejected={"infeasible": dropped} if dropped else {}
        ),
        notes={
            **notes,
            **_origins(draws),
            "outside_range": dict(report.outside_range),
            "infeasible": dict(report.infeasible),
            "source_provenance": None if made is None else made.model_dump(mode="json"),
        },
    )
    write_workload(enriched, provenance, out)
    return report


def _filled(draws: TrainingDraws) -> list[str]:
    """Columns that an enrichment fills."""
    return [*draws.columns, *draws.following]


def _origins(draws: TrainingDraws) -> dict[str, JsonValue]:
    """The columns that are drawn, those that are solved for, and those that follow from row and draws."""
    drawn = [name for name in draws.columns if name not in (SOLVED, *GIVEN)]
    solved = [name for name in (SOLVED,) if name in draws.columns]
    following = [name for name in _filled(draws) if name not in (*drawn, *solved)]
    return {"drawn": [*drawn], "solved": [*solved], "following": [*following]}


def _refuse_values(frame: pl.DataFrame, draws: TrainingDraws) -> None:
    taken = [name for name in _filled(draws) if frame[name].null_count() < frame.height]
    if taken:
        raise InvalidWorkloadError(
            f"the workload already says {', '.join(taken)}; drawn and other values must not mix, so enrich a "
            "workload without these columns"
        )


def _refuse_idle(draws: TrainingDraws, feasibility: Feasibility) -> None:
    """Options that would do nothing."""
    if feasibility.horizon_s is not None and SOLVED not in draws.columns:
        raise InvalidInputError(
            f"horizon: profile {draws.name} has no step time to compare with it; leave it out"
        )
    if feasibility.only and feasibility.cluster is None and not draws.reference_server:
        raise InvalidInputError(
            f"feasible only: profile {draws.name} has no reference server to judge by; name a cluster"
        )


def _against(frame: pl.DataFrame, draws: TrainingDraws, wanted: Feasibility) -> dict[str, BoolArray]:
    """Jobs that are infeasible, by the first reason that applies."""
    cluster = wanted.cluster
    if cluster is not None:
        reasons = reasons_against(bundles_of(frame, cluster.resources), cluster.capacity, endless=False)
    else:
        reasons = reasons_against_reference(frame, draws)
    if wanted.horizon_s is not None and SOLVED in draws.columns:
        late = _earliest_end_s(frame) > wanted.horizon_s
        reasons["it cannot end by the horizon"] = late & ~any_of(reasons, frame.height)
    return reasons


def _earliest_end_s(frame: pl.DataFrame) -> FloatArray:
    """Seconds after the first submission at which each job could end alone, V theta^i / F after its own."""
    submit_s = frame["submit_s"].to_numpy()
    ends_s: FloatArray = submit_s - submit_s.min() + shortest_s(frame)
    return ends_s


def _outside(frame: pl.DataFrame, draws: TrainingDraws) -> dict[str, int]:
    """Values that the row decides and that leave the range of the profile, by column and side."""
    counts: dict[str, int] = {}
    for family in draws.families:
        jobs = frame if family.name is None else frame.filter(pl.col("model") == family.name)
        for name in BY_ROW:
            if name not in family.columns:
                continue
            low, high = ends(family.columns[name])
            for side, beyond in (("below", jobs[name] < low), ("above", jobs[name] > high)):
                key = f"{name} {side}"
                counts[key] = counts.get(key, 0) + int(beyond.sum())
    return {key: count for key, count in counts.items() if count}
