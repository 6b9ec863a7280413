"""Two workloads side by side, for `ray-sim info --compare`: as a table, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from ray_sim.experiments.offered_load import ClusterLoad
from ray_sim.experiments.report import write_page
from ray_sim.experiments.workload_info import WorkloadInfo, describe_workload
from ray_sim.model.cluster import Cluster
from ray_sim.model.readable import duration, number, sparkline
from ray_sim.reports.page import Cell, Page, Section, Table
from ray_sim.reports.run_report import size_class
from ray_sim.reports.workload_page import workload_sections
from workloads.describe import DAY_S, Workload
from workloads.sources import Source, name_of
from workloads.status import Ending, endings
from workloads.synthetic.job_model import chance_distance, ks_distances, ks_rows

QUANTILES_SHOWN = ("p10", "p50", "p90", "p99", "max", "mean")
"""Quantiles in the table; the JSON has all of `workloads.describe.QUANTILES`."""

HEADINGS = ("quantity", "A", "B", "B against A")

Text = Callable[[float | None], str]

Facts = dict[str, tuple[float | None, Text]]
"""Values of a workload by label, None where it has none, each with the function that formats it."""


@dataclass(frozen=True, slots=True)
class WorkloadSide:
    """One of the two workloads."""

    name: str
    jobs: pl.DataFrame
    info: WorkloadInfo
    facts: Facts
    """Label and value of each line; both workloads have the same labels."""
    by_local_hour: list[int] | None
    """Jobs submitted in each hour of the day, 24; null where the local days are unknown."""


@dataclass(frozen=True, slots=True)
class ComparedWorkloads:
    """Two workloads, A and B; on request with their loads on a cluster."""

    sides: tuple[WorkloadSide, WorkloadSide]
    ks: dict[str, float]
    """See `ks_distances`."""
    ks_by_chance: float
    """See `chance_distance`."""

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt a replay of one of them on the cluster."""
        return [f"{side.name}: {text}" for side in self.sides for text in side.info.warnings]

    def to_dict(self) -> dict[str, object]:
        """Plain nested values, for JSON."""
        a, b = (
            side.info.to_dict()
            | {"by_local_hour": side.by_local_hour}
            | {"quantities": {label: value for label, (value, _) in side.facts.items()}}
            for side in self.sides
        )
        return {"a": a, "b": b, "ks": self.ks, "ks_by_chance": self.ks_by_chance}

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Rows of the table, under `HEADINGS`; the distances first."""
        one, other = self.sides
        yield "workload", *(side.info.description.path for side in self.sides), ""
        for label, distance in ks_rows(self.ks, self.ks_by_chance):
            yield label, "", "", number(distance)
        lines = [sparkline(side.by_local_hour, 24) if side.by_local_hour else "-" for side in self.sides]
        if lines != ["-", "-"]:
            yield "jobs by local hour, 0 to 23", *lines, ""
        for label, (a, text) in one.facts.items():
            b, _ = other.facts[label]
            if a is not None or b is not None:
                yield label, text(a), text(b), _change(a, b, text)

    def write_page(self, out: Path) -> None:
        """Write the table and charts as an HTML page, which appears whole or not at all."""
        cells = (tuple(Cell(text, is_number=i > 0) for i, text in enumerate(row)) for row in self.rows())
        table = Table(HEADINGS, tuple(cells), "; ".join(self.warnings))
        hours = {side.name: side.by_local_hour for side in self.sides if side.by_local_hour is not None}
        charts = workload_sections({side.name: side.jobs.lazy() for side in self.sides}, hours)
        names = ", ".join(f"{side.name} ({side.jobs.height:,} jobs)" for side in self.sides)
        sections = (Section("Side by side", tables=(table,)), *charts)
        write_page(Page("Two workloads side by side", names, sections), out)


def compare_workloads(a: Source, b: Source, cluster: Cluster | None = None) -> ComparedWorkloads:
    """Compare two workload files.

    Raises
    ------
    InvalidInputError : a file is no sound workload, see `read_frame`
    """
    one, other = Workload.read(a), Workload.read(b)
    classes = pl.concat([one.jobs, other.jobs]).select(size_class(pl.col("num_gpus"))).to_series()
    sizes = classes.unique().sort().to_list()
    return ComparedWorkloads(
        (_side("A", one, cluster, sizes), _side("B", other, cluster, sizes)),
        ks_distances(one.jobs, other.jobs),
        chance_distance(one.jobs.height, other.jobs.height),
    )


def _side(letter: str, workload: Workload, cluster: Cluster | None, sizes: list[float]) -> WorkloadSide:
    """Figures of a workload; shares by size are of these classes."""
    info, jobs = describe_workload(workload, cluster), workload.jobs
    found = info.description
    days = found.span_s / DAY_S or None  # no rate where all jobs come at once
    facts: Facts = {
        "jobs": (found.jobs, number),
        "span": (found.span_s, duration),
        "jobs per day": (days and found.jobs / days, number),
        **_quantiles("between submissions", found.inter_arrival_s, duration),
        **_quantiles("GPUs", found.columns["num_gpus"].quantiles, number),
        **_by_size(jobs, sizes),
        **_quantiles("run time", found.duration_s, duration),
        **_owners("user", jobs["user"]),
        **_owners("vc", jobs["vc"]),
        **_endings(jobs["status"]),
        "GPU-hours": (found.gpu_hours, number),
        "GPUs busy on average": (days and found.gpu_hours / (24 * days), number),
        **_load(info.load),
    }
    return WorkloadSide(f"{letter}: {name_of(found.path).name}", jobs, info, facts, _by_local_hour(workload))


def _quantiles(what: str, quantiles: dict[str, float] | None, text: Text) -> Facts:
    known = quantiles or {}
    return {f"{what}, {name}": (known.get(name), text) for name in QUANTILES_SHOWN}


def _by_size(jobs: pl.DataFrame, sizes: list[float]) -> Facts:
    """Shares of the jobs, then of their GPU-time, by `size_class`."""
    gpu_s = pl.col("num_gpus") * pl.col("duration_s")
    weights = {"jobs": np.ones(jobs.height), "GPU-time": jobs.select(gpu_s).to_series().to_numpy()}
    size = jobs.select(size_class(pl.col("num_gpus"))).to_series().to_numpy()
    names = {most: f"over {most / 2:,.0f} to {most:,.0f} GPUs" for most in sizes}
    names |= {0.0: "no GPU", 1.0: "at most 1 GPU"}
    return {
        f"{what}, {names[most]}": (float(each[size == most].sum() / (each.sum() or 1)), _percent)
        for what, each in weights.items()
        for most in sizes
    }


def _owners(who: str, names: pl.Series) -> Facts:
    counts = names.drop_nulls().value_counts()["count"].to_list()
    return {
        f"{who}s": (len(counts) or None, number),
        f"jobs of the most active {who}": (max(counts) / len(names) if counts else None, _percent),
    }


def _endings(status: pl.Series) -> Facts:
    """Shares of the jobs by `Ending`; no values where no job has a status."""
    ended = status.to_frame().select(endings(pl.col("status"))).to_series().fill_null("unknown").to_list()
    known = status.count() > 0
    return {
        f"jobs, {name}": (ended.count(name) / len(ended) if known else None, _percent)
        for name in (*Ending, "unknown")
    }


def _load(load: ClusterLoad | None) -> Facts:
    if load is None:
        return {}
    whole = load.whole
    return {
        f"jobs that can never fit on {load.cluster}": (whole.never_fit / whole.jobs, _percent),
        **{
            f"offered load in the span, {name}": (each.offered_load if each.work_h else None, number)
            for name, each in whole.resources.items()
        },
    }


def _by_local_hour(workload: Workload) -> list[int] | None:
    made = workload.provenance
    if made is None or made.epoch_utc is None or made.time_zone is None:
        return None
    at = pl.lit(made.epoch_utc) + pl.duration(microseconds=pl.col("submit_s") * 1e6)
    hours = workload.jobs.select(at.dt.convert_time_zone(str(made.time_zone)).dt.hour()).to_series()
    by_hour: list[int] = np.bincount(hours.to_numpy(), minlength=24).tolist()
    return by_hour


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _change(a: float | None, b: float | None, text: Text) -> str:
    """Difference of shares in percentage points, ratio of other values; empty where there is none."""
    if a is None or b is None:
        return ""
    if text is _percent:
        return f"{100 * (b - a):+.1f} points"
    return f"x {number(b / a)}" if a else ""
