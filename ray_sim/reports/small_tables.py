"""Tables of a sweep's means and of a comparison, which notebooks and `ray-sim compare` show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import polars as pl

from ray_sim.model.html import table_html
from ray_sim.model.readable import duration, number, text_of
from ray_sim.model.text import shown
from ray_sim.reports.across import Scale
from ray_sim.reports.breakdown import Breakdown, By, ClassRatio, JobChange, JobComparison
from ray_sim.reports.compare import JCT, GroupComparison, PolicyComparison, lower_is_better
from ray_sim.reports.page import Cell, Table, frame_table, number_cell
from ray_sim.reports.policy_bounds import PolicyBound
from ray_sim.reports.statistics import bracketed
from ray_sim.reports.tables import KEYS, best_value, sweep_headings

_MEANS = frozenset(
    {
        *("seeds", "welfare.welfare", "welfare.share_of_bound", "jct_s.mean", "jct_s.p99", "queue_s.mean"),
        *("certificate.gap", "utility", "utility_certificate.gap", "utilisation.gpu", "completed"),
    }
)
"""Columns of the sweep table that a small table shows."""

COMPARED = {
    "seeds": "pairs",
    "mean": "mean",
    "difference": "difference",
    "in %": "relative_percent",
    "d_z": "effect_size",
    "wins": "superiority",
    "p": "p_holm",
    "verdict": "verdict",
}
"""Fields of `PolicyComparison` by heading of the table of a comparison."""


def texts_of(tables: Iterable[Table]) -> list[str]:
    """Headings and cells of tables."""
    return [text for each in tables for text in (*each.columns, *(c.text for row in each.rows for c in row))]


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
    columns = {name: text for name, text in sweep_headings(means).items() if name in _MEANS}
    unequal = means["seeds"].n_unique() > 1
    best = (lambda _: None) if places or unequal else best_value
    return frame_table(means, {**{key: key for key in (*places, "policy")}, **columns}, best)


def comparison_table(compared: GroupComparison, scale: Scale | None = None) -> Table:
    """Each policy, or value of a scale, with its paired difference to the baseline, first the baseline."""
    text = text_of(compared.metric)
    rows = [
        (compared.baseline, compared.baseline_runs, text(compared.baseline_mean), *["-"] * 5, "baseline"),
        *(_compared_cells(each, text) for each in compared.policies),
    ]
    columns = ["policy" if scale is None else str(scale.across), *COMPARED]
    if compared.completions_differ:
        counts = (compared.baseline_completed, *(each.completed for each in compared.policies))
        rows = [(*row[:2], count, *row[2:]) for row, count in zip(rows, counts, strict=True)]
        columns.insert(2, "completed")
    if scale is not None and scale.numeric:
        rows = [(row[0], scale.xs[str(row[0])], *row[1:]) for row in rows]
        columns.insert(1, scale.title)
    of_text = (columns[0], "difference", "in %", "verdict")  # intervals wrap in a narrow terminal
    cells = (zip(columns, row, strict=True) for row in rows)
    return Table(
        tuple(columns),
        tuple(tuple(Cell(number(value), name not in of_text) for name, value in row) for row in cells),
        "; ".join(compared.notes),
    )


def _compared_cells(each: PolicyComparison, text: Callable[[float | None], str]) -> tuple[object, ...]:
    change = _signed(each.difference, text) + bracketed(each.interval, each.pairs, text)
    share = _signed(each.relative_percent) + bracketed(each.relative_interval, each.pairs)
    verdict = str(each.verdict) + ("" if each.seeds_needed is None else f": {each.seeds_needed} needed")
    values = each.effect_size, each.superiority, each.p_holm
    return each.policy, each.pairs, text(each.mean), change, share, *values, verdict


def _signed(value: float | None, text: Callable[[float | None], str] = number) -> str:
    return ("+" if value is not None and value > 0 else "") + text(value)


def bounds_table(bounds: Sequence[PolicyBound], metric: str, compared: str = "policy") -> Table:
    """Bounds on the metric by policy, and the gaps to them."""
    side = "lower" if lower_is_better(metric) else "upper"
    headings = {"policy": compared, "runs": "runs", metric: f"{side} bound", "gap": "gap"}
    frame = pl.DataFrame(bounds).rename({"bound": metric})
    return frame_table(frame, {**headings, "largest": "largest bound"})


def breakdown_table(breakdown: Breakdown, baseline: str) -> Table:
    """Mean of a policy and of its baseline by class of job, and their ratio with a 95 % interval."""
    rows = []
    for each in breakdown.classes:
        cells = [each.jobs, duration(each.mean), duration(each.baseline_mean)]
        ratio = number(each.ratio) + bracketed(each.interval, each.pairs)
        ahead = _ahead(each, breakdown.policy, baseline)
        jobs = " to ".join(map(duration, each.run_times_s)) if breakdown.by is By.DURATION else each.label
        rows.append((Cell(jobs), *map(number_cell, cells), Cell(ratio), Cell(ahead)))
    mean = "mean JCT" if breakdown.metric == JCT else breakdown.metric
    columns = breakdown.by.heading, "jobs", mean, "baseline's", "ratio", "ahead"
    return Table(columns, tuple(rows))


def _ahead(each: ClassRatio, policy: str, baseline: str) -> str:
    """Policy with the lower mean, if the interval excludes 1."""
    if each.interval is None or each.interval.low <= 1 <= each.interval.high:
        return "-"
    return policy if each.interval.high < 1 else baseline


def job_facts(jobs: JobComparison) -> list[tuple[str, str]]:
    """Label and text of the lines of a comparison job by job."""
    return [
        ("jobs completed under both", number(jobs.jobs)),
        ("under one of the two only", number(jobs.left_out)),
        ("faster", number(jobs.faster)),
        ("slower", number(jobs.slower)),
        ("the same", number(jobs.same)),
        ("mean difference", duration(jobs.mean_difference_s)),
        ("median difference", duration(jobs.median_difference_s)),
    ]


def changes_table(changes: Sequence[JobChange]) -> Table:
    """JCT of single jobs under both policies."""
    headings = {"job_id": "job_id", "jct_s": "JCT", "baseline_jct_s": "baseline's"}
    return frame_table(pl.DataFrame(changes), headings)
