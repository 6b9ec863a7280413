"""Report of a conversion: rows by what became of them, and the jobs' arrivals, sizes and run times.

`ray_sim.experiments.conversion` builds it for `ray-sim convert --html`. The jobs may exceed memory: they are
counted in classes, lazily.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from ray_sim.reports.page import (
    Cell,
    Chart,
    Facts,
    Page,
    Picture,
    Section,
    Table,
    fact_texts,
    line_chart,
    number_cell,
)
from ray_sim.reports.plots import TICKS_S, bars_svg
from ray_sim.reports.run_report import size_class

MOST_BINS = 500
"""Largest number of intervals in the chart of arrivals, unless they would be longer than `LONGEST`."""
LONGEST = [*TICKS_S.items()][-1]


@dataclass(frozen=True, slots=True)
class RowsByReason:
    """Rows that are not kept, counted by reason."""

    heading: str
    counts: Mapping[str, int]
    examples: Mapping[str, tuple[str, str]]
    """Place and text of a row, by reason."""


def conversion_page(
    title: str,
    subtitle: str,
    *,
    jobs: pl.LazyFrame,
    counts: Facts,
    others: Sequence[RowsByReason],
    notes: Facts,
    warnings: Sequence[str],
) -> Page:
    """Build the report.

    Parameters
    ----------
    jobs : those kept, at least one, with submit_s, num_gpus and duration_s
    counts : label and number of rows
    others : rows that are not kept, in a section for each element that has any
    """
    table = Table(("rows", "count"), tuple((Cell(label), number_cell(count)) for label, count in counts))
    return Page(
        title,
        subtitle,
        (
            *([Section("Warnings", text=tuple(warnings))] if warnings else []),
            Section("Rows", tables=(table,)),
            *(_section(each) for each in others if each.counts),
            Section("Jobs", charts=(_arrivals(jobs),), pictures=(_sizes(jobs), _run_times(jobs))),
            *([Section("Notes", facts=fact_texts(notes))] if notes else []),
        ),
    )


def _section(rows: RowsByReason) -> Section:
    lines = [
        (Cell(reason), number_cell(count), *map(Cell, rows.examples[reason]))
        for reason, count in rows.counts.items()
    ]
    return Section(rows.heading, tables=(Table(("reason", "rows", "one of them", "its text"), tuple(lines)),))


def _arrivals(jobs: pl.LazyFrame) -> Chart:
    """Jobs in intervals of a round length since the first submission."""
    submit_s = pl.col("submit_s")
    ends = jobs.select(first=submit_s.min(), last=submit_s.max())
    first_s, last_s = ends.collect(engine="streaming").row(0)
    name, width_s = next(
        (tick for tick in TICKS_S.items() if last_s - first_s < MOST_BINS * tick[1]), LONGEST
    )
    counted = _counted(jobs, ((submit_s - first_s) // width_s).cast(pl.Int64))
    values = np.zeros(max(counted) + 2)  # no arrivals after the last interval
    values[list(counted)] = list(counted.values())
    lines = {"jobs": (np.arange(len(values), dtype=np.float64) * width_s, values)}
    return line_chart("Arrivals since the first submission", f"jobs in {name}", lines)


def _sizes(jobs: pl.LazyFrame) -> Picture:
    counted = _counted(jobs, size_class(pl.col("num_gpus")))
    bars = {f"up to {upper:g}" if upper else "0": float(count) for upper, count in counted.items()}
    return Picture(bars_svg(bars, "jobs", "sizes"), "Jobs by GPUs")


def _run_times(jobs: pl.LazyFrame) -> Picture:
    names = ["below 1 s", *(f"{low} to {high}" for low, high in pairwise(TICKS_S)), f"{LONGEST[0]} and more"]
    passed = pl.sum_horizontal(pl.col("duration_s") >= tick for tick in TICKS_S.values())
    bars = {names[index]: float(count) for index, count in _counted(jobs, passed).items()}
    return Picture(bars_svg(bars, "jobs", "run-times"), "Jobs by run time")


def _counted(jobs: pl.LazyFrame, key: pl.Expr) -> dict[int, int]:
    """Number of jobs by key, keys rising."""
    counted = jobs.group_by(key.alias("key")).agg(pl.len()).sort("key").collect(engine="streaming")
    return dict(counted.iter_rows())
