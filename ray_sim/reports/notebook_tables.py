"""Small tables for notebooks: means of a sweep, and a comparison of its policies."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from ray_sim.model.html import table_html
from ray_sim.model.readable import duration, number
from ray_sim.model.text import shown
from ray_sim.reports.breakdown import Breakdown, JobComparison
from ray_sim.reports.compare import GroupComparison, in_seconds
from ray_sim.reports.page import Cell, Table, frame_table, number_cell
from ray_sim.reports.statistics import bracketed
from ray_sim.reports.sweep_report import DURATIONS
from ray_sim.reports.tables import KEYS, best_value, sweep_headings

_MEANS = frozenset(
    {
        *("seeds", "welfare.welfare", "welfare.share_of_bound", "jct_s.mean", "jct_s.p99", "queue_s.mean"),
        *("certificate.gap", "utility", "utility_certificate.gap", "utilisation.gpu", "completed"),
    }
)
"""Columns of the sweep table that a small table shows."""


def page_table_html(title: str, table: Table) -> str:
    """A table of a page as an HTML element, the best of each column in bold."""
    rows = ([(cell.text, cell.is_number, cell.best) for cell in row] for row in table.rows)
    return table_html(title, table.columns, rows, table.note)


def page_table_text(title: str, table: Table) -> str:
    """A table of a page in aligned lines, for consoles."""
    rows = [list(table.columns), *([cell.text for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return shown("\n".join(filter(None, [title, *lines, table.note])), lines=True)


def means_table(means: pl.DataFrame) -> Table:
    """The most important columns of a sweep table; the best of each is marked in one place of equal seeds."""
    if means.is_empty():
        return Table((), ())
    places = [key for key in KEYS if key != "policy" and means[key].n_unique() > 1]
    headings = {name: text.removesuffix(" s") for name, text in sweep_headings(means).items()}
    columns = {name: text for name, text in headings.items() if name in _MEANS}
    unequal = means["seeds"].n_unique() > 1
    best = (lambda _: None) if places or unequal else best_value
    return frame_table(
        means, {**{key: key for key in (*places, "policy")}, **columns}, best, durations=DURATIONS
    )


def comparison_table(compared: GroupComparison) -> Table:
    """Mean of each policy, and its difference to the baseline with a 95 % interval and the verdict."""
    text: Callable[[float | None], str] = duration if in_seconds(compared.metric) else number
    base, mean = compared.baseline, text(compared.baseline_mean)
    lines = [[base, "baseline", mean, "-", "-", number(compared.baseline_runs)]]
    for each in compared.policies:
        change = text(each.difference) + bracketed(each.interval, each.pairs, text)
        share = number(each.relative_percent) + bracketed(each.relative_interval, each.pairs)
        row = [each.policy, str(each.verdict), text(each.mean), change, share, number(each.pairs)]
        lines.append(row)
    columns = ("policy", "verdict", "mean", "difference", "in %", "seeds")
    rows = tuple(tuple(Cell(cell, index > 1) for index, cell in enumerate(line)) for line in lines)
    return Table(columns, rows, "; ".join(compared.notes))


def breakdown_table(breakdown: Breakdown) -> Table:
    """Mean JCT of a policy and of its baseline by class of job, and their ratio with a 95 % interval."""
    rows = []
    for each in breakdown.classes:
        ratio = number(each.ratio) + bracketed(each.interval, each.pairs)
        cells = [each.jobs, duration(each.mean_jct_s), duration(each.baseline_mean_jct_s), ratio]
        rows.append((Cell(each.label), *map(number_cell, cells)))
    return Table((str(breakdown.by), "jobs", "mean JCT", "baseline's", "ratio"), tuple(rows))


def job_facts(jobs: JobComparison) -> list[tuple[str, str]]:
    """Label and text of the lines of a comparison job by job."""
    return [
        ("completed under both", number(jobs.jobs)),
        ("under one of the two only", number(jobs.left_out)),
        ("faster", number(jobs.faster)),
        ("slower", number(jobs.slower)),
        ("the same", number(jobs.same)),
        ("median difference", duration(jobs.median_difference_s)),
    ]
