"""What is in a workload, and what load it is on a cluster."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from pydantic import JsonValue

from ray_sim.model.cluster import Cluster
from ray_sim.model.job import JobTable
from ray_sim.model.units import QUANTA_PER_UNIT, BoolArray, IntArray, us_to_seconds
from workloads.provenance import Provenance
from workloads.sources import Source
from workloads.store import frame_to_table, read_frame, read_provenance

QUANTILES: dict[str, float] = {
    "min": 0,
    "p1": 0.01,
    "p10": 0.1,
    "p25": 0.25,
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p99": 0.99,
    "max": 1,
}
"""Nearest-rank quantiles: every one is a run time of the workload."""

SIZES_SHOWN = 12
"""Sizes in the text; the JSON has all."""

SOURCES_SHOWN = 5
"""Source files in the text; the JSON has all."""

_S_PER_H = 3600


@dataclass(frozen=True, slots=True)
class VcShare:
    """One virtual cluster's part of a workload; jobs without one are under the empty name."""

    jobs: int
    gpu_hours: float
    offered_load: float | None = None
    """Null without a cluster that has this vc."""


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """A workload on a cluster."""

    cluster: str
    servers: int
    gpus: float
    offered_load: float | None
    """GPU-seconds of all jobs over GPUs x span; null where either is 0."""
    offered_loads: dict[str, float]
    """The same for each other resource that the cluster has."""
    never_fit: int
    """Jobs that the empty cluster cannot hold."""
    never_fit_vc: int | None
    """Jobs that the empty servers of their own vc cannot hold; null where either side has no vcs."""


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
    """By rising number of GPUs."""
    duration_s: dict[str, float]
    """`QUANTILES` and the mean."""
    vcs: dict[str, VcShare]
    ties: int
    """Jobs submitted at the same instant as the one before."""
    load: ClusterLoad | None
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
            ("first submission", f"{self.first_submit_s:,.15g} s"),
            ("span", f"{self.span_s:,.15g} s ({self.span_s / 86_400:.1f} days)"),
            ("GPU-hours", f"{self.gpu_hours:,.1f}"),
            ("jobs by GPUs", _sizes_text(self.jobs_by_gpus)),
            ("run time in s", ", ".join(f"{name} {value:,.10g}" for name, value in self.duration_s.items())),
            ("submitted at the same instant", f"{self.ties:,}"),
        ]
        for name, share in self.vcs.items():
            load = "" if share.offered_load is None else f", offered load {share.offered_load:.3f}"
            label = f"vc {name}" if name else "without a vc"
            rows.append((label, f"{share.jobs:,} jobs, {share.gpu_hours:,.1f} GPU-hours{load}"))
        return [*rows, *_load_rows(self.load), *_provenance_rows(self.provenance)]


def describe_workload(path: Source, cluster: Cluster | None = None) -> WorkloadDescription:
    """Describe a workload file, alone or on a cluster.

    Raises
    ------
    InvalidWorkloadError : see `read_frame`
    """
    return describe_frame(read_frame(path), str(path), read_provenance(path), cluster)


def describe_frame(
    frame: pl.DataFrame, name: str, provenance: Provenance | None = None, cluster: Cluster | None = None
) -> WorkloadDescription:
    """Describe jobs with the columns of `SCHEMA`; at least one."""
    submit_s = frame["submit_s"].to_numpy()
    span_s = float(submit_s.max() - submit_s.min())
    gpu_hours = float((frame["num_gpus"] * frame["duration_s"]).sum()) / _S_PER_H
    sizes = frame["num_gpus"].value_counts().sort("num_gpus")
    durations = {label: _quantile(frame["duration_s"], at) for label, at in QUANTILES.items()}
    return WorkloadDescription(
        path=name,
        jobs=frame.height,
        first_submit_s=float(submit_s.min()),
        span_s=span_s,
        gpu_hours=gpu_hours,
        jobs_by_gpus={f"{gpus:.12g}": count for gpus, count in sizes.iter_rows()},
        duration_s={**durations, "mean": float(frame["duration_s"].to_numpy().mean())},
        vcs=_vc_shares(frame, span_s, cluster),
        ties=frame.height - frame["submit_s"].n_unique(),
        load=None if cluster is None else _cluster_load(frame, cluster, gpu_hours, span_s),
        provenance=provenance,
    )


def never_fits(table: JobTable, capacity: IntArray) -> BoolArray:
    """Whether each job's gang is larger than what these servers hold when empty.

    Parameters
    ----------
    table : J jobs with R resources
    capacity : shape (S, R), quanta

    Returns
    -------
    shape (J,)
    """
    columns = {str(index): table.demand[:, index] for index in range(len(table.resources))}
    gangs = pl.DataFrame({"tasks": table.tasks, **columns})
    kinds = gangs.unique(maintain_order=True)
    verdicts = [row[0] > _room(capacity, np.array(row[1:], np.int64), row[0]) for row in kinds.iter_rows()]
    judged = kinds.with_columns(never=pl.Series(verdicts, dtype=pl.Boolean))
    never: BoolArray = gangs.join(judged, on=gangs.columns, maintain_order="left")["never"].to_numpy()
    return never


def _room(capacity: IntArray, demand: IntArray, enough: int) -> int:
    """Tasks that the empty servers hold, counting at most ``enough`` on each."""
    needed = demand > 0
    if not needed.any():
        return enough * len(capacity)
    per_server = (capacity[:, needed] // demand[needed]).min(axis=1, initial=enough)
    return int(per_server.sum())


def _quantile(values: pl.Series, at: float) -> float:
    quantile = values.quantile(at, "nearest")
    assert quantile is not None
    return quantile


def _vc_shares(frame: pl.DataFrame, span_s: float, cluster: Cluster | None) -> dict[str, VcShare]:
    if frame["vc"].null_count() == frame.height:
        return {}
    gpu_hours = (pl.col("num_gpus") * pl.col("duration_s")).sum() / _S_PER_H
    grouped = frame.group_by("vc", maintain_order=True).agg(jobs=pl.len(), gpu_hours=gpu_hours).sort("vc")
    return {
        vc or "": VcShare(jobs, hours, _load(hours, _gpus(cluster, vc), span_s) if vc else None)
        for vc, jobs, hours in grouped.iter_rows()
    }


def _cluster_load(frame: pl.DataFrame, cluster: Cluster, gpu_hours: float, span_s: float) -> ClusterLoad:
    table = frame_to_table(frame, cluster.resources)
    never_fit_vc = None
    if table.vc_names and any(vc is not None for vc in cluster.vc):
        never_fit_vc = sum(
            int((never_fits(table, cluster.capacity[_servers_of(cluster, vc)]) & (table.vc == index)).sum())
            for index, vc in enumerate(table.vc_names)
        )
    gpus = sum(_gpus(cluster, vc) for vc in dict.fromkeys(cluster.vc))
    return ClusterLoad(
        cluster=cluster.name,
        servers=len(cluster),
        gpus=gpus,
        offered_load=_load(gpu_hours, gpus, span_s),
        offered_loads=_other_loads(table, cluster, span_s),
        never_fit=int(never_fits(table, cluster.capacity).sum()),
        never_fit_vc=never_fit_vc,
    )


def _other_loads(table: JobTable, cluster: Cluster, span_s: float) -> dict[str, float]:
    """Demand times run time of all jobs over capacity times span, of what is not GPUs."""
    if span_s == 0:
        return {}
    run_s = us_to_seconds(table.work_us * table.tasks)
    demanded = (table.demand * run_s[:, None]).sum(axis=0)
    offered = cluster.capacity.sum(axis=0) * span_s
    return {
        name: float(demanded[r] / offered[r])
        for r, name in enumerate(cluster.resources)
        if name != "gpu" and offered[r] > 0
    }


def _servers_of(cluster: Cluster, vc: str | None) -> BoolArray:
    return np.array([server_vc == vc for server_vc in cluster.vc], np.bool_)


def _gpus(cluster: Cluster | None, vc: str | None) -> float:
    """GPUs of the servers of a vc; 0 without cluster."""
    if cluster is None or "gpu" not in cluster.resources:
        return 0.0
    of_vc = cluster.capacity[_servers_of(cluster, vc), cluster.resources.index("gpu")]
    return float(of_vc.sum()) / QUANTA_PER_UNIT["gpu"]


def _load(gpu_hours: float, gpus: float, span_s: float) -> float | None:
    return gpu_hours * _S_PER_H / (gpus * span_s) if gpus * span_s > 0 else None


def _sizes_text(jobs_by_gpus: dict[str, int]) -> str:
    common = sorted(jobs_by_gpus, key=lambda size: -jobs_by_gpus[size])[:SIZES_SHOWN]
    shown = ", ".join(f"{size}: {count:,}" for size, count in jobs_by_gpus.items() if size in common)
    hidden = len(jobs_by_gpus) - len(common)
    return f"{shown}, {hidden} rarer sizes" if hidden else shown


def _load_rows(load: ClusterLoad | None) -> list[tuple[str, str]]:
    if load is None:
        return []
    offered = "undefined" if load.offered_load is None else f"{load.offered_load:.3f}"
    rows = [
        ("cluster", f"{load.cluster}: {load.servers:,} servers, {load.gpus:,.15g} GPUs"),
        ("offered load", offered),
        *((f"offered load, {name}", f"{value:.3f}") for name, value in load.offered_loads.items()),
        ("jobs larger than the cluster", f"{load.never_fit:,}"),
    ]
    if load.never_fit_vc is not None:
        rows.append(("jobs larger than their vc", f"{load.never_fit_vc:,}"))
    return rows


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
        *((f"rejected as {reason}", f"{count:,}") for reason, count in counts.rejected.items()),
    ]
    if provenance.seed is not None:
        rows.append(("seed", str(provenance.seed)))
    return [*rows, *((name, _text(value)) for name, value in (provenance.options | provenance.notes).items())]


def _text(value: JsonValue) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(inner)}" for name, inner in value.items())
    return str(value)
