"""Warnings of what is absurd in a converted workload: an end for a run time, a wrong unit, a wrong size.

`workloads.convert` asks for them once a trace is read; docs/workloads.md has the list. Rows may exceed
memory: a check takes sums over the columns it needs, and further ones only where the first are suspicious.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import polars as pl

from ray_sim.model.readable import number
from workloads.schema import SCHEMA

_FEWEST_JOBS, _NEARLY_ALL, _DAY_S = 10, 0.95, 86_400
"""Jobs below which no statistic counts, share of jobs that does, and shortest span."""
EXCEL_DAYS = (32_874, 54_789)
"""Days of Excel, from 1899-12-30 on, of 1990 to 2050."""
_MOST_DAYS, _DIGITS = 1100, (19_700_101, 20_991_231)
"""The most days of Excel that a trace spans; dates in digits."""
_MANY, _AT_ONCE_S = 100, 60
"""Many jobs, and seconds in which so many are not submitted one by one."""
_PEEKED = 2**17
"""First jobs, in which steps of Slurm are looked for before all: texts take longer than all numbers."""
_HIGHEST_LOAD, _HIGHEST_LOAD_OF_LARGEST, _LARGE_GPUS = 20, 1000, 8
"""Highest load on a cluster that holds all jobs at once, and the largest job, where that has many GPUs."""

_COLUMNS = ("job_id", "submit_s", "duration_s", "wait_s", "num_gpus", "num_tasks", "cpu_per_task")
_TIMES = ("submit_s", "duration_s")
_id, _submit_s, _run_s, _wait_s, _gpus, _tasks, _cores = map(pl.col, _COLUMNS)

_MAP = "in a mapping file (--map)"
_RUN_TIME = f"compute it, as in `derived: {{duration_s: end - start}}` {_MAP}"


class _Absurdity(NamedTuple):
    """What is absurd, the jobs that show it with the columns to print of one, and what to do."""

    text: str
    jobs: pl.Expr
    columns: tuple[str, ...]
    advice: str


def sanity_warnings(jobs: pl.LazyFrame, rebased_by_s: float = 0.0) -> tuple[str, ...]:
    """A sentence for each absurdity, with numbers, a job that shows it and what to do; none if all is sound.

    Parameters
    ----------
    jobs : at least one row, with those columns of `SCHEMA` that the trace has
    rebased_by_s : seconds that were subtracted from the submissions of the trace
    """
    held = jobs.collect_schema().names()
    jobs = jobs.select(
        pl.col(name) if name in held else pl.lit(None, dtype=SCHEMA[name]).alias(name) for name in _COLUMNS
    ).with_columns(_submit_s + rebased_by_s)
    ends = jobs.select(count=pl.len(), first=_submit_s.min(), last=_submit_s.max())
    count, first_s, last_s = ends.collect(engine="streaming").row(0)
    span_s = last_s - first_s
    found = chain(
        _run_times(jobs, count, span_s), _waits(jobs), _submissions(jobs, count, span_s),
        _sizes(jobs, count), _steps(jobs, count),
    )  # fmt: skip
    return tuple(_sentence(each, jobs) for each in found)


def _run_times(jobs: pl.LazyFrame, count: int, span_s: float) -> Iterator[_Absurdity]:
    """Ends for run times, and run times out of proportion to the submissions."""
    if count < _FEWEST_JOBS:
        return
    least_s = max(span_s, _DAY_S)
    not_below, beyond, work, gpus = _sums(jobs, _run_s >= _submit_s, _run_s > least_s, _gpus * _run_s, _gpus)
    largest = jobs.select(_gpus.max()).collect(engine="streaming").item()
    busy = work / least_s
    above_largest = largest >= _LARGE_GPUS and busy > _HIGHEST_LOAD_OF_LARGEST * largest
    if _contain(jobs, _submit_s, not_below, count, 0.9):
        yield _Absurdity(
            "duration_s looks like the time of the end: it rises with submit_s and is not below it for"
            f" {_of(not_below, count)}",
            _run_s >= _submit_s, _TIMES, _RUN_TIME,
        )  # fmt: skip
    elif beyond > count / 2:
        yield _Absurdity(
            f"duration_s is out of proportion to submit_s: {_of(beyond, count)} run longer than a day and"
            f" longer than the {number(span_s)} s between first and last submission",
            _run_s > least_s, _TIMES, f"check `columns` and `units` of both {_MAP}",
        )  # fmt: skip
    elif busy > _HIGHEST_LOAD * gpus or above_largest:
        yield _Absurdity(
            f"num_gpus x duration_s is too much for a cluster: if no job waited, {number(busy)} GPUs would be"
            f" busy on average, {number(busy / largest)} times those of the largest job and"
            f" {number(busy / gpus)} times those of all jobs",
            _gpus * _run_s >= 0.5 * work / count, (*_TIMES, "num_gpus"),
            f"check `columns` and `units` of all three {_MAP}",
        )  # fmt: skip


def _waits(jobs: pl.LazyFrame) -> Iterator[_Absurdity]:
    """The queue in the run time."""
    count, not_below = _sums(jobs, _wait_s.is_not_null(), _run_s >= _wait_s)
    if _contain(jobs, _wait_s, not_below, count, 0.95):
        yield _Absurdity(
            "duration_s seems to contain the queue: it rises with wait_s and is not below it for"
            f" {_of(not_below, count)} with a wait_s",
            _run_s >= _wait_s, ("wait_s", "duration_s"), _RUN_TIME,
        )  # fmt: skip


def _contain(jobs: pl.LazyFrame, other: pl.Expr, not_below: int, count: int, correlation: float) -> bool:
    """Whether run times seem to contain another time, which ``count`` jobs have.

    That is, nearly all are not below it, and they rise with it: at a slope near 1 and such a correlation, or,
    as few long jobs hide both, with most of many at most half as long again.
    """
    if count < _FEWEST_JOBS or not_below < 0.99 * count:
        return False
    pairs = jobs.select(x=other, y=_run_s).filter(pl.col("x").is_not_null())
    x, y = (
        pl.col(name) - total / count
        for name, total in zip("xy", _sums(pairs, pl.col("x"), pl.col("y")), strict=True)
    )
    is_near = pl.col("x").is_between(pl.col("y") / 1.5, pl.col("y")) & (pl.col("x") > 0)
    xy, xx, yy, near = _sums(pairs, x * y, x * x, y * y, is_near)
    if not min(xx, yy):
        return False
    is_line = 0.8 <= xy / xx <= 1.25 and xy >= correlation * math.sqrt(xx) * math.sqrt(yy)
    return bool(is_line or near >= max(0.9 * count, _MANY))


def _submissions(jobs: pl.LazyFrame, count: int, span_s: float) -> Iterator[_Absurdity]:
    """Dates, days of Excel and other units for seconds."""
    are_serials, are_digits = _submit_s.is_between(*EXCEL_DAYS), _submit_s.is_between(*_DIGITS)
    fractional, serials, digits = _sums(jobs, _submit_s.floor() != _submit_s, are_serials, are_digits)
    if digits >= _NEARLY_ALL * count and _are_dates(jobs.filter(are_digits)):
        yield _Absurdity(
            f"submit_s looks like dates in digits for {_of(digits, count)}",
            are_digits, _TIMES, f'set `time_format: "%Y%m%d"` {_MAP}',
        )  # fmt: skip
    elif serials >= max(_NEARLY_ALL * count, 2) and _are_days(jobs.filter(are_serials), serials, fractional):
        yield _Absurdity(
            f"submit_s looks like days of Excel for {_of(serials, count)}",
            are_serials, _TIMES, f"read it by `cells: {{COLUMN: {{as: excel_date}}}}` {_MAP}",
        )  # fmt: skip
    elif count >= _MANY and span_s < _AT_ONCE_S and fractional > count / 2:
        yield _Absurdity(
            f"submit_s looks like another unit than seconds: {count:,} jobs are within {number(span_s)} s",
            pl.lit(value=True), _TIMES, f"unless they are a batch, set its unit under `units` {_MAP}",
        )  # fmt: skip


def _are_dates(jobs: pl.LazyFrame) -> bool:
    month, day = _submit_s // 100 % 100, _submit_s % 100
    others = ~month.is_between(1, 12) | ~day.is_between(1, 31) | (day.floor() != day)
    return not _sums(jobs, others)[0]


def _are_days(jobs: pl.LazyFrame, count: int, fractional: int) -> bool:
    first, last = jobs.select(first=_submit_s.min(), last=_submit_s.max()).collect(engine="streaming").row(0)
    # Whole seconds may lie there too, but not two jobs in each of them.
    return bool(last - first <= _MOST_DAYS and (fractional or count >= 2 * (last - first + 1)))


def _sizes(jobs: pl.LazyFrame, count: int) -> Iterator[_Absurdity]:
    """GPUs of a task for those of a job, and percentages for GPUs or cores."""
    is_gang = (_tasks > 1) & (_gpus > 0)
    is_uneven = is_gang & ((_gpus / _tasks).floor() != _gpus / _tasks)
    gangs, uneven, shared, with_gpus = _sums(jobs, is_gang, is_uneven, _gpus.floor() != _gpus, _gpus > 0)
    if not shared and with_gpus > count / 2 and uneven > gangs / 2:
        yield _Absurdity(
            f"num_gpus looks like the GPUs of one task: {_of(uneven, gangs)} of several tasks have no whole"
            " number of GPUs per task",
            is_uneven, ("num_gpus", "num_tasks"), f"set `per_task: [num_gpus]` {_MAP}",
        )  # fmt: skip
    for size in (_gpus, _cores):
        name = size.meta.output_name()
        present, others = _sums(jobs, size > 0, (size / 25).floor() * 25 != size)
        if present >= _FEWEST_JOBS and not others:
            yield _Absurdity(
                f"{name} looks like a percentage: all {present:,} values above 0 are multiples of 25",
                size > 0, (name,), f"set `units: {{{name}: percent}}` {_MAP}",
            )  # fmt: skip


def _steps(jobs: pl.LazyFrame, count: int) -> Iterator[_Absurdity]:
    """Steps of Slurm beside their jobs; where all ids are like 7.0, they are of HTCondor, or were floats."""
    dotted = _id.str.contains(".", literal=True)
    if not _sums(jobs.head(_PEEKED), dotted)[0]:
        return
    of_slurm = _id.str.ends_with(".batch") | _id.str.ends_with(".extern")
    is_step = of_slurm | _id.str.ends_with(".0")
    with_dot, surely, steps = _sums(jobs, dotted, of_slurm, is_step)
    if surely or 0 < steps <= count - with_dot:
        yield _Absurdity(
            f"job_id looks like a step of a Slurm job for {_of(steps, count)}, which end in .batch, .extern"
            " or .0",
            is_step, ("duration_s",), f"leave steps out by `where` {_MAP}, as the preset sacct does",
        )  # fmt: skip


def _sums(jobs: pl.LazyFrame, *values: pl.Expr) -> tuple[Any, ...]:
    """Sum of each expression over the jobs; of a condition the number of jobs."""
    named = {str(index): value.sum() for index, value in enumerate(values)}
    return jobs.select(**named).collect(engine="streaming").row(0)


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} jobs"


def _sentence(absurdity: _Absurdity, jobs: pl.LazyFrame) -> str:
    """Text of an absurdity, with the first job that shows it."""
    name, *values = jobs.filter(absurdity.jobs).select("job_id", *absurdity.columns).head(1).collect().row(0)
    facts = ", ".join(f"{key} {value:.15g}" for key, value in zip(absurdity.columns, values, strict=True))
    return f"{absurdity.text}, such as job {name!r} with {facts}; {absurdity.advice}"
