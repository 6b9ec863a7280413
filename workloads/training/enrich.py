"""Enrichment: draw how each job trains from a profile, consistent with its traced GPUs and run time.

The row gives the GPUs and the run time. All other columns are drawn, except the samples of an epoch: they
are solved for, so that the requested bundle trains for the traced run time on the fewest reference servers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import polars as pl
from pydantic import JsonValue

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.streams import Streams
from ray_sim.model.training_progress import Form
from ray_sim.model.units import MAX_TIME_S, BoolArray
from workloads.checks import refuse_absurd
from workloads.progress import Progress, silent
from workloads.provenance import Counts, Provenance, SourceFile
from workloads.schema import SCHEMA
from workloads.training.bundles import (
    any_reason,
    bundles_of,
    infeasible_bundles,
    infeasible_on_reference,
    reference_rates,
    shortest_s,
    traced_rates,
)
from workloads.training.draws import draw_range
from workloads.training.enrich_columns import drawn_columns, with_view_columns
from workloads.training.profile import BY_ROW, GIVEN, SOLVED, TrainingDraws

VERSION = "3"
"""Changes when the same arguments draw other numbers."""

ROWS_AT_ONCE = 2**18
"""Jobs drawn at a time; bounds memory and sets the interval of progress reports."""


@dataclass(frozen=True, slots=True)
class EnrichReport:
    """Counts of the jobs read, kept, out of range and infeasible."""

    read: int
    kept: int
    outside_range: dict[str, int]
    """Values derived from the row that leave the profile's range, by column and side; they are kept."""
    infeasible: dict[str, int]
    """Jobs whose bundle never fits, by reason; dropped on request."""

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
    """Rule by which a job counts as infeasible, and whether infeasible jobs are dropped.

    Raises
    ------
    InvalidInputError : a horizon out of range, or a truth without a horizon to judge by it
    """

    cluster: Cluster | None = None
    """Cluster that must hold a job's bundle; None means an unlimited number of reference servers."""
    horizon_s: float | None = None
    """Time after the first submission by which a job must be able to end, alone, with as many workers as its
    batch has samples at most; unlimited without it."""
    truth: Form | None = None
    """Truth by which the earliest end of a job is computed, see `shortest_s`; None means placement, by which
    samples are solved for."""
    only: bool = False
    """Whether infeasible jobs are left out; they are counted either way."""

    def __post_init__(self) -> None:
        if self.horizon_s is not None and not 0 < self.horizon_s <= MAX_TIME_S:
            raise InvalidInputError(
                f"horizon: must be above 0 and at most {MAX_TIME_S} s, is {self.horizon_s:g}"
            )
        if self.truth is not None and self.horizon_s is None:
            raise InvalidInputError(
                "truth: only used with a horizon, to compute when jobs can end; give both or neither"
            )

    @property
    def judged_by(self) -> Form:
        """The truth in force."""
        return self.truth or "placement"


def enrich(
    frame: pl.DataFrame,
    draws: TrainingDraws,
    seed: int,
    feasibility: Feasibility = Feasibility(),
    progress: Progress = silent,
) -> tuple[pl.DataFrame, EnrichReport]:
    """Fill the drawn columns of the profile and the derived ones.

    A draw is keyed by seed, column and job_id: which other jobs there are, and their order, changes nothing.

    Parameters
    ----------
    frame : columns of `SCHEMA`, assumed sound, without values in the columns to fill

    Raises
    ------
    InvalidWorkloadError : there are no jobs, a column to fill has values already, a job would train absurdly
        much, or no job is left
    InvalidInputError : the profile lacks the data for the requested test of feasibility
    """
    if frame.is_empty():
        raise InvalidWorkloadError(
            "a workload without jobs cannot be enriched; convert a trace that has some"
        )
    _refuse_values(frame, draws)
    _refuse_idle(draws, feasibility)
    parts: list[pl.DataFrame] = []
    for start in range(0, frame.height, ROWS_AT_ONCE):
        progress(start, frame.height, "drawing")
        parts.append(_fill(frame[start : start + ROWS_AT_ONCE], draws, Streams(seed)))
    filled = pl.concat(parts, rechunk=True)
    progress(frame.height, frame.height, "judging")
    refuse_absurd(filled, (SOLVED, "epochs"), "check its duration_s and num_gpus, and the profile")
    against = _infeasible(filled, draws, feasibility)
    never = any_reason(against, frame.height)
    kept = filled.filter(~never) if feasibility.only else filled
    if kept.is_empty():
        raise InvalidWorkloadError(
            f"none of {frame.height:,} jobs is feasible; take larger servers or a later horizon"
        )
    infeasible = {reason: int(jobs.sum()) for reason, jobs in against.items() if jobs.any()}
    return kept, EnrichReport(frame.height, kept.height, _outside(filled, draws), infeasible)


def _fill(frame: pl.DataFrame, draws: TrainingDraws, streams: Streams) -> pl.DataFrame:
    """Jobs with drawn, derived and solved columns; the result of a job does not depend on the others."""
    filled = frame.with_columns(drawn_columns(frame, draws, streams).get_columns()).select(*SCHEMA)
    without = (pl.col("worker_gpu") == 0) & (pl.col("num_gpus") > 0)
    tasks = pl.when(without).then("num_workers").otherwise("num_tasks")
    filled = filled.with_columns(num_gpus=pl.when(without).then(0.0).otherwise("num_gpus"), num_tasks=tasks)
    if SOLVED not in draws.columns:
        return filled
    rates = traced_rates(filled, draws) if draws.traced_time_in else None
    rate = reference_rates(filled, draws) if rates is None else rates.traced
    work = filled["duration_s"].to_numpy() * rate
    filled = filled.with_columns(samples=work / filled["epochs"].to_numpy())
    return filled if rates is None else with_view_columns(filled, draws, rates)


def enriched_provenance(
    draws: TrainingDraws,
    feasibility: Feasibility,
    seed: int,
    report: EnrichReport,
    source: SourceFile,
    made: Provenance | None,
) -> Provenance:
    """Provenance of an enrichment.

    Parameters
    ----------
    source : file of the jobs
    made : provenance of the jobs before; None where they have none
    """
    dropped = report.read - report.kept
    notes = {} if made is None else made.clock_notes
    return Provenance(
        sources=(source,),
        converter="enrich",
        converter_version=VERSION,
        options={
            "profile": draws.name,
            "profile_sha256": draws.sha256,
            "feasible_only": feasibility.only,
            "cluster": None if feasibility.cluster is None else feasibility.cluster.name,
            "horizon_s": feasibility.horizon_s,
            "truth": None if feasibility.horizon_s is None else feasibility.judged_by,
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


def filled_columns(draws: TrainingDraws) -> list[str]:
    """Columns that an enrichment fills."""
    return [*draws.columns, *draws.following]


def _origins(draws: TrainingDraws) -> dict[str, JsonValue]:
    """Names of the drawn, solved and derived columns."""
    solved = draws.solved
    drawn = [name for name in draws.columns if name not in (*solved, *GIVEN)]
    following = [name for name in filled_columns(draws) if name not in (*drawn, *solved)]
    return {"drawn": [*drawn], "solved": [*solved], "following": [*following]}


def _refuse_values(frame: pl.DataFrame, draws: TrainingDraws) -> None:
    taken = [name for name in filled_columns(draws) if frame[name].null_count() < frame.height]
    if taken:
        raise InvalidWorkloadError(
            f"the workload already says {', '.join(taken)}; drawn and other values must not mix, so "
            f"profile {draws.name} can only fill a workload without these columns: take one, or a profile "
            "without them"
        )


def _refuse_idle(draws: TrainingDraws, feasibility: Feasibility) -> None:
    """Raise for options that would have no effect."""
    if feasibility.horizon_s is not None and SOLVED not in draws.columns:
        raise InvalidInputError(
            f"horizon: profile {draws.name} has no step time to compare with it; leave it out"
        )
    if feasibility.only and feasibility.cluster is None and not draws.reference_server:
        raise InvalidInputError(
            f"feasible only: profile {draws.name} has no reference server to judge by; name a cluster"
        )


def _infeasible(frame: pl.DataFrame, draws: TrainingDraws, wanted: Feasibility) -> dict[str, BoolArray]:
    """Infeasible jobs by the first reason that applies, boolean (J,) each."""
    cluster = wanted.cluster
    if cluster is not None:
        reasons = infeasible_bundles(bundles_of(frame, cluster.resources), cluster.capacity, endless=False)
    else:
        reasons = infeasible_on_reference(frame, draws)
    if wanted.horizon_s is not None and SOLVED in draws.columns:
        submit_s = frame["submit_s"].to_numpy()
        speed = 1.0 if cluster is None else float(cluster.speed.max())
        # Of each job, alone on the fastest server, after the first submission.
        earliest_end_s = submit_s - submit_s.min() + shortest_s(frame, wanted.judged_by, speed)
        late = earliest_end_s > wanted.horizon_s
        reasons[f"it cannot end by the horizon, truth {wanted.judged_by}"] = late & ~any_reason(
            reasons, frame.height
        )
    return reasons


def _outside(frame: pl.DataFrame, draws: TrainingDraws) -> dict[str, int]:
    """Values that the row decides and that leave the range of the profile, by column and side."""
    counts: dict[str, int] = {}
    for family in draws.families:
        jobs = frame if family.name is None else frame.filter(pl.col("model") == family.name)
        for name in BY_ROW:
            if name not in family.columns:
                continue
            low, high = draw_range(family.columns[name])
            for side, beyond in (("below", jobs[name] < low), ("above", jobs[name] > high)):
                key = f"{name} {side}"
                counts[key] = counts.get(key, 0) + int(beyond.sum())
    return {key: count for key, count in counts.items() if count}
