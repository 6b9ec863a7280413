"""Simulated against real queueing delay: quantiles, shares that waited, rank correlations by class of job.

A delay is the time from a job's submission to its first start. docs/running.md explains every number.
`ray-sim diff --trace` prints them, and its `--json` is `DelayComparison.to_dict`: a changed name of a field
breaks scripts that read it. `delays_page` is the web page of the same command.
The random stream of a part's bootstrap is keyed by its label, so another label gives other intervals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from ray_sim.model.distribution import Distribution, distribution
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray
from ray_sim.reports.breakdown import By, classify, quantile_classes
from ray_sim.reports.page import Facts, Page, Picture, Section, fact_texts, frame_table
from ray_sim.reports.plots import hexagons_svg, time_cdf_svg
from ray_sim.reports.rank_correlation import Estimate, RankAgreement, rank_agreement
from ray_sim.reports.submission_times import after_first_text, utc_text

WAITS_S = (0, 1, 10, 60, 600, 3600)
"""Delays in seconds, for the shares of jobs that waited longer."""

TIME_BINS = 10
"""Number of intervals of equal length between the first and the last submission."""

SIZE_CLASSES = 4
"""Number of classes by CPU, of about equal numbers of jobs, where no job has a GPU."""

MOST_PRIORITIES = 20
"""Largest number of priority classes; the least common priorities share the last."""

_CPU = ("cpu_norm_per_task", "cpu_per_task")
WORKLOAD_COLUMNS = ("wait_s", "priority", "group_id", "num_tasks", *_CPU)
"""Columns of the workload that the comparison reads, beside those of jobs.parquet."""


_SHOWN = [f"{side}_s.{name}" for side in ("real", "simulated") for name in ("mean", "median", "p90", "p99")]
PART_HEADINGS = {
    "label": "jobs",
    "jobs": "number",
    "groups": "groups",
    **{name: name.replace("_s.", " ") for name in _SHOWN},
    "correlation": "rank correlation",
    "constant": "constant per priority",
    "difference": "difference",
}
"""Headings of the columns of `parts_frame`."""

WAITED_HEADINGS = {
    "longer_than_s": "delay longer than",
    "real": "share in the trace",
    "simulated": "share in the simulation",
    "both": "share in both",
}
"""Headings of the fields of `Waited`."""


@dataclass(frozen=True, slots=True)
class DelayPart:
    """Real and simulated delays of a set of jobs."""

    label: str
    jobs: int
    groups: int
    """Number of independent units: groups of the trace, and jobs without a group."""
    real_s: Distribution
    simulated_s: Distribution
    ranks: RankAgreement


@dataclass(frozen=True, slots=True)
class Waited:
    """Shares of jobs whose delay is longer than a time: in the trace, in the simulation, and in both."""

    longer_than_s: int
    real: float
    simulated: float
    both: float


@dataclass(frozen=True, slots=True)
class DelayComparison:
    """Simulated against real delays of a run's jobs."""

    jobs: int
    """Number of jobs of the run."""
    left_out: dict[str, int]
    """Number of jobs that are not compared by reason."""
    at_time_0: DelayPart | None
    """Jobs submitted at second 0, as Google's traces say of all earlier ones. None if there are none."""
    overall: DelayPart | None
    """All other jobs; the fields below are about these too. None if there are none."""
    whole_groups: DelayPart | None
    """Mean delay of each group, as one value per group. None where every group is one row."""
    waited: tuple[Waited, ...]
    by_priority: tuple[DelayPart, ...]
    by_size: tuple[DelayPart, ...]
    over_time: tuple[DelayPart, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        return asdict(self)

    def tables(self) -> dict[str, tuple[DelayPart, ...]]:
        """The parts of each table by its title; tables without a part are left out."""
        whole = (self.overall, self.whole_groups, self.at_time_0)
        tables = {
            "Delays": tuple(part for part in whole if part is not None),
            "By priority": self.by_priority,
            "By size": self.by_size,
            "By time of submission": self.over_time,
        }
        return {title: parts for title, parts in tables.items() if parts}


def compare_delays(jobs: pl.DataFrame, epoch_utc: datetime | None = None) -> DelayComparison:
    """Compare the delays of a run's jobs with those of its trace.

    Parameters
    ----------
    jobs : columns job_id, num_gpus, submit_s, start_s and status of jobs.parquet, and `WORKLOAD_COLUMNS`
    epoch_utc : instant of second 0, of which intervals of time have dates; None if unknown
    """
    pairs = delay_pairs(jobs)
    started, known = pl.col("start_s").is_not_null(), pl.col("wait_s").is_not_null()
    never = jobs.filter(~started)["status"].value_counts(name="jobs").sort("status")
    left_out = {f"never started in the run: {status}": count for status, count in never.iter_rows()}
    if unknown := jobs.filter(started & ~known).height:
        left_out["no real delay in the trace"] = unknown
    early, later = pairs.filter(pl.col("submit_s") == 0), pairs.filter(pl.col("submit_s") > 0)
    return DelayComparison(
        jobs=jobs.height,
        left_out=left_out,
        at_time_0=delay_part("submitted at second 0", early),
        overall=delay_part("all", later),
        whole_groups=delay_part("whole groups", group_means(later)),
        waited=_waited(later),
        by_priority=_parts(later, *_by_priority(later)),
        by_size=_parts(later, *_by_size(later)),
        over_time=_over_time(later, epoch_utc),
    )


def delay_pairs(jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs that have both delays, with real_s and simulated_s, to a microsecond, class_name and group."""
    jobs = jobs.filter(pl.col("start_s").is_not_null() & pl.col("wait_s").is_not_null())
    priority = jobs["priority"]
    counts = priority.value_counts().sort("count", "priority", descending=[True, False])
    common = counts["priority"].head(MOST_PRIORITIES - 1)
    few = priority.n_unique() <= MOST_PRIORITIES
    rare = pl.lit(value=False) if few else ~pl.col("priority").is_in(common.implode(), nulls_equal=True)
    named = pl.col("priority").cast(pl.String).fill_null("none")
    return jobs.with_columns(
        real_s=pl.col("wait_s").round(6),
        simulated_s=(pl.col("start_s") - pl.col("submit_s")).round(6),
        class_name=pl.when(rare).then(pl.lit("others")).otherwise(named),
        group=pl.coalesce("group_id", "job_id"),
    )


def parts_frame(parts: Iterable[DelayPart]) -> pl.DataFrame:
    """One row per part with the columns of `PART_HEADINGS`; numbers with an interval are texts."""
    return pl.DataFrame([_row(part) for part in parts], infer_schema_length=None)


def _row(part: DelayPart) -> dict[str, object]:
    samples = {"real_s": asdict(part.real_s), "simulated_s": asdict(part.simulated_s)}
    flat = {f"{side}.{name}": value for side, sample in samples.items() for name, value in sample.items()}
    ranks = part.ranks
    found = {"correlation": ranks.simulated, "constant": ranks.constant, "difference": ranks.difference}
    texts = {name: estimate_text(estimate) for name, estimate in found.items()}
    return {"label": part.label, "jobs": part.jobs, "groups": part.groups, **flat, **texts}


def estimate_text(estimate: Estimate) -> str:
    """Text such as ``0.40 [0.11, 0.58]``; a dash where there is no interval."""
    interval = estimate.interval
    return f"{estimate.value:.2f} " + (f"[{interval.low:.2f}, {interval.high:.2f}]" if interval else "-")


def delay_part(label: str, jobs: pl.DataFrame) -> DelayPart | None:
    """Compare the delays of jobs from `delay_pairs`; None without any. The label keys the resamples."""
    if jobs.is_empty():
        return None
    real, simulated = jobs["real_s"].to_numpy(), jobs["simulated_s"].to_numpy()
    generator = Streams(0).generator(f"delays {label}")
    ranks = rank_agreement(real, simulated, _codes(jobs["class_name"]), _codes(jobs["group"]), generator)
    groups = jobs["group"].n_unique()
    return DelayPart(label, jobs.height, groups, distribution(real), distribution(simulated), ranks)


def _codes(column: pl.Series) -> IntArray:
    """Number from 0 of each value, in ascending order."""
    return column.rank("dense").cast(pl.Int64).to_numpy() - 1


def group_means(jobs: pl.DataFrame) -> pl.DataFrame:
    """Mean delays of each group, as from `delay_pairs`; no rows where every group is one job."""
    means = jobs.group_by("group", maintain_order=True).agg(
        pl.col("real_s", "simulated_s").mean(), pl.col("class_name").first()
    )
    return means.clear() if means.height == jobs.height else means


def _waited(jobs: pl.DataFrame) -> tuple[Waited, ...]:
    if jobs.is_empty():
        return ()
    real, simulated = jobs["real_s"].to_numpy(), jobs["simulated_s"].to_numpy()
    samples = real, simulated, np.minimum(real, simulated)
    return tuple(Waited(each, *(float(np.mean(sample > each)) for sample in samples)) for each in WAITS_S)


def _parts(jobs: pl.DataFrame, index: IntArray, labels: list[str]) -> tuple[DelayPart, ...]:
    classes = pl.Series(index, dtype=pl.Int64)
    found = (delay_part(label, jobs.filter(classes == each)) for each, label in enumerate(labels))
    return tuple(part for part in found if part is not None)


def _by_priority(jobs: pl.DataFrame) -> tuple[IntArray, list[str]]:
    """Priorities in ascending order, then those that share a class, then jobs without one."""
    names = jobs.select("class_name", "priority").unique("class_name", maintain_order=True)
    rank = {"others": 1, "none": 2}
    order = sorted(names.rows(), key=lambda row: (rank.get(row[0], 0), row[1] or 0))
    labels = [name for name, _ in order]
    index = jobs["class_name"].cast(pl.Enum(labels)).to_physical().cast(pl.Int64).to_numpy()
    return index, [f"priority {label}" for label in labels]


def _by_size(jobs: pl.DataFrame) -> tuple[IntArray, list[str]]:
    """GPUs where any job has some, else CPU of all tasks."""
    if jobs["num_gpus"].sum() > 0:
        sized = classify(By.SIZE, jobs)
        names = dict(sized.select("class", "label").unique().iter_rows())
        return sized["class"].to_numpy(), [f"{names.get(each, '')} GPUs" for each in range(max(names) + 1)]
    cpu = pl.coalesce(*_CPU, 0.0) * pl.col("num_tasks").fill_null(1)
    index, labels = quantile_classes(jobs.select(cpu).to_series(), SIZE_CLASSES)
    return index, [f"{label} CPU" for label in labels]


def _over_time(jobs: pl.DataFrame, epoch_utc: datetime | None) -> tuple[DelayPart, ...]:
    if jobs.is_empty():
        return ()
    submit_s = jobs["submit_s"].to_numpy()
    edges = np.linspace(submit_s.min(), submit_s.max(), TIME_BINS + 1)
    index = np.searchsorted(edges[1:-1], submit_s, side="right").astype(np.int64)
    times = list(pairwise(edges.tolist()))
    parts = _parts(jobs, index, [f"{low:,.0f} to {high:,.0f} s" for low, high in times])

    def text(at_s: float) -> str:
        return utc_text(epoch_utc, at_s) or after_first_text(at_s - times[0][0])

    zone = "" if epoch_utc is None else " UTC"
    shown = [f"{text(low)} to {text(high)}{zone}" for low, high in times]
    return tuple(replace(part, label=shown[each]) for part, each in zip(parts, np.unique(index), strict=True))


NOTE = (
    "Delays are from submission to first start. Brackets are 95 % bootstrap intervals over "
    "groups. The constant is the mean real delay of each priority."
)
"""Note below the tables of delays."""


def delays_page(title: str, subtitle: str, facts: Facts, found: DelayComparison, jobs: pl.DataFrame) -> Page:
    """Build the page of a comparison of these jobs; `facts` are inputs and settings of the run."""
    counts: Facts = [("jobs of the run", found.jobs), *found.left_out.items()]
    waited = frame_table(pl.DataFrame(found.waited), WAITED_HEADINGS)
    return Page(
        title,
        subtitle,
        (
            Section("Jobs", facts=fact_texts(counts), pictures=_pictures(jobs)),
            *(
                Section(title, tables=(frame_table(parts_frame(parts), PART_HEADINGS, note=NOTE),))
                for title, parts in found.tables().items()
            ),
            Section("Jobs that waited", tables=(waited,)),
            Section("What ran", facts=fact_texts(facts)),
        ),
    )


def _pictures(jobs: pl.DataFrame) -> tuple[Picture, ...]:
    pairs = delay_pairs(jobs).filter(pl.col("submit_s") > 0)
    if pairs.is_empty():
        return ()
    real_s, simulated_s = (pairs[column].to_numpy() for column in ("real_s", "simulated_s"))
    curves = {"real": np.sort(real_s), "simulated": np.sort(simulated_s)}
    axes = "real delay", "simulated delay"
    return (
        Picture(
            time_cdf_svg(curves, "queueing delay", "jobs", "delays"),
            "Queueing delays of all jobs but those of second 0",
        ),
        Picture(hexagons_svg(real_s, simulated_s, axes, "pairs"), "Pairs of delays; darker is more jobs"),
    )
