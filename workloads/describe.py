"""A workload file in memory, its statistics, and rows of printed tables that show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from pydantic import JsonValue

from ray_sim.model.html import facts_html
from ray_sim.model.job import JobTable
from ray_sim.model.readable import duration, instant, number
from ray_sim.model.units import FloatArray
from workloads.job_table import frame_to_table
from workloads.provenance import Provenance
from workloads.realisation import Tally
from workloads.schema import COLUMNS, DEMAND_COLUMNS, ColumnOrigin
from workloads.sources import Source
from workloads.status import Ending, endings
from workloads.store import read_frame, read_provenance

QUANTILES: dict[str, float] = {
    "min": 0, "p1": 0.01, "p10": 0.1, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "max": 1,
}  # fmt: skip
"""Nearest-rank quantiles: every one is a value of the workload."""

SIZES_SHOWN = 12
"""Sizes, and users where there are no vcs, in the text; the JSON has all."""

STATUSES_SHOWN = 12
"""Statuses in the text; the JSON has all."""

SOURCES_SHOWN = 5
"""Source files in the text; the JSON has all."""

DESCRIBED: tuple[str, ...] = (
    *DEMAND_COLUMNS,
    *(column.name for column in COLUMNS if column.layer == ColumnOrigin.PROFILE and column.is_number),
)
"""Columns whose quantiles are shown: demand and training."""

DAY_S = 86_400

_S_PER_H = 3600


@dataclass(frozen=True, slots=True)
class Share:
    """Part of a virtual cluster or a user in a workload; jobs without one are under the empty name."""

    jobs: int
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class StatusCount:
    """Number of jobs with a status."""

    status: str | None
    """None for jobs without one."""
    jobs: int
    ending: Ending | None
    """What the status means; None if it is unknown or absent."""


@dataclass(frozen=True, slots=True)
class ColumnSpread:
    """Distribution of the values of a column."""

    jobs: int
    """Number of jobs with a value."""
    quantiles: dict[str, float]
    """`QUANTILES` and the mean."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Jobs with a run time from `from_s` until below `to_s`."""

    from_s: float
    to_s: float
    jobs: int


@dataclass(frozen=True, slots=True)
class WorkloadDescription:
    """A workload in numbers."""

    path: str
    jobs: int
    first_submit_s: float
    span_s: float
    """Last submission minus first."""
    gpu_hours: float
    jobs_by_gpus: dict[str, int]
    """Number of jobs by GPUs, sizes rising."""
    statuses: list[StatusCount]
    """Statuses as the trace has them, the most common first; empty if no job has one."""
    duration_s: dict[str, float]
    """`QUANTILES` and the mean."""
    duration_bins: list[Bin]
    """Bins: below 1 s, then powers of ten, from the first to the last with jobs."""
    inter_arrival_s: dict[str, float] | None
    """`QUANTILES` and the mean of the gaps between submissions; null with one job."""
    columns: dict[str, ColumnSpread]
    """Values of the columns of `DESCRIBED` that are not all null."""
    vcs: dict[str, Share]
    users: dict[str, Share]
    ties: int
    """Jobs submitted at the same instant as the one before."""
    most_at_once: int
    """The most jobs submitted at one instant."""
    provenance: Provenance | None

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values, for JSON."""
        provenance = None if self.provenance is None else self.provenance.model_dump(mode="json")
        return {**asdict(self), "provenance": provenance}

    def rows(self) -> list[tuple[str, str]]:
        """Label and value of each line to show, without markup."""
        rows = [
            ("workload", self.path),
            ("jobs", f"{self.jobs:,}"),
            ("first submission", self._first_text()),
            ("span", f"{duration(self.span_s)} ({self.span_s:,.15g} s)"),
            ("days", _days_text(self.provenance)),
            ("GPU-hours", f"{self.gpu_hours:,.1f}"),
            ("jobs by GPUs", _sizes_text(self.jobs_by_gpus)),
            *([("jobs by status", _statuses_text(self.statuses))] if self.statuses else []),
            ("run time", _quantiles_text(self.duration_s, duration)),
            ("submitted at the same instant", f"{self.ties:,}, at most {self.most_at_once:,} at once"),
        ]
        if self.inter_arrival_s is not None:
            rows.append(("between submissions", _quantiles_text(self.inter_arrival_s, duration)))
        for name, spread in self.columns.items():
            some = "" if spread.jobs == self.jobs else f" ({spread.jobs:,} jobs)"
            rows.append((name, _quantiles_text(spread.quantiles) + some))
        users = sorted(self.users.items(), key=lambda each: -each[1].gpu_hours)
        shown = users[: len(self.vcs) or SIZES_SHOWN]
        for kind, shares in (("vc", list(self.vcs.items())), ("user", shown)):
            for name, share in shares:
                label = f"{kind} {name}" if name else f"without a {kind}"
                rows.append((label, f"{share.jobs:,} jobs, {share.gpu_hours:,.1f} GPU-hours"))
        if len(shown) < len(users):
            rows.append(("users with fewer GPU-hours", f"{len(users) - len(shown):,}"))
        return [*rows, *_provenance_rows(self.provenance)]

    def _first_text(self) -> str:
        """Instant of the first submission: a date, with its second, where the trace has dates."""
        text = instant(self.first_submit_s, None if self.provenance is None else self.provenance.epoch_utc)
        return text if text.startswith("second") else f"{text} (second {self.first_submit_s:,.15g})"

    def short_rows(self) -> list[tuple[str, str]]:
        """Label and value of the lines of a small table; times in days, hours, minutes and seconds."""
        rows = [
            ("jobs", f"{self.jobs:,}"),
            ("span", duration(self.span_s)),
            ("GPU-hours", f"{self.gpu_hours:,.1f}"),
            ("jobs by GPUs", _sizes_text(self.jobs_by_gpus)),
            ("run time", _durations_text(self.duration_s)),
        ]
        if self.inter_arrival_s is not None:
            rows.append(("between submissions", _durations_text(self.inter_arrival_s)))
        named = [name for name in self.vcs if name]
        return [*rows, ("virtual clusters", f"{len(named):,}")] if named else rows

    def _repr_html_(self) -> str:
        return facts_html(self.path, self.short_rows())


def tally_rows(tally: Tally) -> list[tuple[str, int]]:
    """Label and number of the jobs left out and of unknown status."""
    labels = {
        "left out, unsuccessful": tally.unsuccessful,
        "left out, outside the window": tally.outside_window,
        "left out, infeasible": tally.infeasible,
        "kept, of unknown status": tally.unknown_status,
    }
    kept = {
        f"  status {status!r}" if status else "  without a status": count
        for status, count in tally.unknown_statuses.items()
    }
    hidden = tally.unknown_status - sum(kept.values())
    return [(label, count) for label, count in (labels | kept | {"  others": hidden}).items() if count]


def describe_frame(
    frame: pl.DataFrame, name: str, provenance: Provenance | None = None
) -> WorkloadDescription:
    """Describe jobs with the columns of `SCHEMA`; at least one."""
    submit_s = frame["submit_s"].sort().to_numpy()
    span_s = float(submit_s[-1] - submit_s[0])
    gpu_hours = float((frame["num_gpus"] * frame["duration_s"]).sum()) / _S_PER_H
    sizes = frame["num_gpus"].value_counts().sort("num_gpus")
    present = {name: frame[name].drop_nulls() for name in DESCRIBED}
    return WorkloadDescription(
        path=name,
        jobs=frame.height,
        first_submit_s=float(submit_s[0]),
        span_s=span_s,
        gpu_hours=gpu_hours,
        jobs_by_gpus={f"{gpus:.12g}": count for gpus, count in sizes.iter_rows()},
        statuses=_statuses(frame["status"]),
        duration_s=_quantiles(frame["duration_s"]),
        duration_bins=_duration_bins(frame["duration_s"].to_numpy()),
        inter_arrival_s=None if frame.height == 1 else _quantiles(pl.Series(np.diff(submit_s))),
        columns={
            name: ColumnSpread(len(values), _quantiles(values))
            for name, values in present.items()
            if len(values)
        },
        vcs=_shares(frame, "vc"),
        users=_shares(frame, "user"),
        ties=frame.height - frame["submit_s"].n_unique(),
        most_at_once=int(np.unique_counts(submit_s).counts.max()),
        provenance=provenance,
    )


def _quantiles(values: pl.Series) -> dict[str, float]:
    """`QUANTILES` and the mean; at least one value, no nulls."""
    ordered = values.sort().to_numpy()
    ranks = [round(at * (len(ordered) - 1)) for at in QUANTILES.values()]
    return {**dict(zip(QUANTILES, ordered[ranks].tolist(), strict=True)), "mean": float(ordered.mean())}


def _duration_bins(duration_s: FloatArray) -> list[Bin]:
    decades = math.ceil(math.log10(max(float(duration_s.max()), 1.0))) + 1
    edges = [0.0, *(10.0**power for power in range(decades + 1))]
    counts, _ = np.histogram(duration_s, edges)
    bins = [Bin(*edge, int(jobs)) for edge, jobs in zip(pairwise(edges), counts, strict=True)]
    used = [index for index, one in enumerate(bins) if one.jobs]
    return bins[used[0] : used[-1] + 1]


def _quantiles_text(quantiles: dict[str, float], text: Callable[[float], str] = number) -> str:
    return ", ".join(f"{name} {text(value)}" for name, value in quantiles.items())


def _durations_text(quantiles: dict[str, float]) -> str:
    shown = {"median": "p50", "mean": "mean", "p99": "p99"}
    return ", ".join(f"{label} {duration(quantiles[name])}" for label, name in shown.items())


def _shares(frame: pl.DataFrame, column: str) -> dict[str, Share]:
    if frame[column].null_count() == frame.height:
        return {}
    gpu_hours = (pl.col("num_gpus") * pl.col("duration_s")).sum() / _S_PER_H
    grouped = frame.group_by(column, maintain_order=True).agg(pl.len(), gpu_hours=gpu_hours).sort(column)
    return {name or "": Share(jobs, hours) for name, jobs, hours in grouped.iter_rows()}


def _sizes_text(jobs_by_gpus: dict[str, int]) -> str:
    common = sorted(jobs_by_gpus, key=lambda size: -jobs_by_gpus[size])[:SIZES_SHOWN]
    shown = ", ".join(f"{size}: {count:,}" for size, count in jobs_by_gpus.items() if size in common)
    hidden = len(jobs_by_gpus) - len(common)
    return f"{shown}, {hidden} rarer sizes" if hidden else shown


def _statuses(status: pl.Series) -> list[StatusCount]:
    if status.null_count() == len(status):
        return []
    counts = status.value_counts(name="jobs").sort("jobs", "status", descending=[True, False])
    counted = counts.select("status", "jobs", ending=endings(pl.col("status")))
    return [
        StatusCount(word, jobs, None if ending is None else Ending(ending))
        for word, jobs, ending in counted.iter_rows()
    ]


def _statuses_text(statuses: list[StatusCount]) -> str:
    shown = ", ".join(_status_text(each) for each in statuses[:STATUSES_SHOWN])
    hidden = len(statuses) - STATUSES_SHOWN
    return f"{shown}, {hidden} rarer statuses" if hidden > 0 else shown


def _status_text(each: StatusCount) -> str:
    if each.status is None:
        return f"none: {each.jobs:,}"
    return f"{each.status!r} ({each.ending or 'unknown'}): {each.jobs:,}"


def _days_text(made: Provenance | None) -> str:
    """Begin of the days that `resample` draws."""
    if made is None or made.epoch_utc is None or made.time_zone is None:
        return "of 86,400 s from submit_s 0, as no time zone is known"
    return f"from midnight in {made.time_zone}"


def _provenance_rows(provenance: Provenance | None) -> list[tuple[str, str]]:
    if provenance is None:
        return [("made by", "unknown, the file does not say")]
    counts = provenance.counts
    shown = provenance.sources[:SOURCES_SHOWN]
    hidden = len(provenance.sources) - len(shown)
    rows = [
        ("made by", f"{provenance.converter} {provenance.converter_version}"),
        *((f"source {source.name}", f"sha256 {source.sha256}") for source in shown),
        *([("further sources", f"{hidden:,}")] if hidden else []),
        ("rows", f"{counts.read:,} read, {counts.kept:,} kept, {sum(counts.rejected.values()):,} rejected"),
        *([("rows outside the window", f"{counts.outside_window:,}")] if counts.outside_window else []),
        *((f"left out, {name}", f"{count:,}") for name, count in counts.left_out.items()),
        *((f"rejected as {reason}", f"{count:,}") for reason, count in counts.rejected.items()),
    ]
    if provenance.seed is not None:
        rows.append(("seed", str(provenance.seed)))
    settings = provenance.options | provenance.notes
    return [*rows, *((name, setting_text(value)) for name, value in settings.items())]


def setting_text(value: JsonValue) -> str:
    """Readable text of a setting: yes or no, none, a list with commas, entries as name=value."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(setting_text, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(_entry_text(name, inner) for name, inner in value.items()) or "none"
    return "none" if value is None else str(value)


def _entry_text(name: str, value: JsonValue) -> str:
    return f"{name} ({setting_text(value)})" if isinstance(value, dict) else f"{name}={setting_text(value)}"


@dataclass(frozen=True, eq=False)
class Workload:
    """The jobs of a workload file, checked."""

    path: str
    jobs: pl.DataFrame = field(repr=False)
    """Columns of `SCHEMA`, one row per job."""
    provenance: Provenance | None = field(repr=False)

    @classmethod
    def read(cls, path: Source) -> Workload:
        """Read a workload file; raises as `read_frame`."""
        return cls(str(path), read_frame(path), read_provenance(path))

    def table(self, resources: Sequence[str]) -> JobTable:
        """The jobs with their demand of each resource of a cluster."""
        return frame_to_table(self.jobs, resources)

    def describe(self) -> WorkloadDescription:
        """The workload in numbers."""
        return describe_frame(self.jobs, self.path, self.provenance)

    def _repr_html_(self) -> str:
        return self.describe()._repr_html_()
