"""Per-job differences between a run and another run or another simulator's table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import US_PER_S

FIRST_FEW = 10
"""Number of differing jobs, and of jobs without a partner, that a report shows."""


@dataclass(frozen=True, slots=True)
class JobDifference:
    """One job whose start or finish differs; null if a side never started or finished it."""

    job_id: str
    start_s: float | None
    other_start_s: float | None
    finish_s: float | None
    other_finish_s: float | None


@dataclass(frozen=True, slots=True)
class JobDiff:
    """Differences of two schedules of the same jobs, to the microsecond."""

    compared: int
    """Number of jobs in both."""
    differing: int
    """Number of these jobs whose start or finish differs by at least a microsecond."""
    only_here: int
    only_there: int
    first_differences: tuple[JobDifference, ...]
    """First differing jobs, in the run's job order."""
    first_only_here: tuple[str, ...]
    first_only_there: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether both have the same jobs with the same times."""
        return not (self.differing or self.only_here or self.only_there)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        return {"same": self.same, **asdict(self)}


def diff_jobs(
    run_jobs: pl.DataFrame, other: pl.DataFrame, start_col: str = "start_s", finish_col: str = "finish_s"
) -> JobDiff:
    """Compare a run's jobs with another table by job_id.

    Parameters
    ----------
    run_jobs : columns job_id, start_s, finish_s, as in jobs.parquet
    other : column job_id, and the two named columns in seconds of the workload's time

    Raises
    ------
    InvalidInputError : a column is missing or not a number, or a job_id comes twice
    """
    here = _times(run_jobs, "start_s", "finish_s", "the run").with_row_index("order")
    there = _times(other, start_col, finish_col, "the other table")
    both = here.join(there, on="job_id", suffix="_other", maintain_order="left")
    same_start, same_finish = (
        pl.col(column).eq_missing(pl.col(f"{column}_other")) for column in ("start_us", "finish_us")
    )
    unequal = both.filter(~(same_start & same_finish))
    times = ("start_us", "start_us_other", "finish_us", "finish_us_other")
    shown = unequal.head(FIRST_FEW).select("job_id", *(pl.col(name) / US_PER_S for name in times))
    only_here = here.join(there, on="job_id", how="anti", maintain_order="left")["job_id"]
    only_there = there.join(here, on="job_id", how="anti", maintain_order="left")["job_id"]
    return JobDiff(
        compared=len(both),
        differing=len(unequal),
        only_here=len(only_here),
        only_there=len(only_there),
        first_differences=tuple(JobDifference(*row) for row in shown.iter_rows()),
        first_only_here=tuple(only_here.head(FIRST_FEW)),
        first_only_there=tuple(only_there.head(FIRST_FEW)),
    )


def read_job_times(path: Path) -> pl.DataFrame:
    """Read a table with job_id from a Parquet file or a CSV with a header line.

    CSV values stay text, so that an id such as ``007`` keeps its zeros.
    """
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path)
        return pl.read_csv(path, infer_schema=False)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except pl.exceptions.PolarsError as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(f"{path}: neither Parquet nor CSV that can be read: {reason}") from error


def _times(frame: pl.DataFrame, start_col: str, finish_col: str, name: str) -> pl.DataFrame:
    missing = [column for column in ("job_id", start_col, finish_col) if column not in frame.columns]
    if missing:
        raise InvalidInputError(
            f"{name} has no column {', '.join(missing)}; it has: {', '.join(frame.columns)}"
        )
    times = frame.select(
        pl.col("job_id").cast(pl.String),
        _microseconds(frame, start_col, name).alias("start_us"),
        _microseconds(frame, finish_col, name).alias("finish_us"),
    )
    repeated = times.filter(pl.col("job_id").is_duplicated())["job_id"]
    if len(repeated):
        raise InvalidInputError(f"{name}: job_id {repeated[0]} comes {(repeated == repeated[0]).sum()} times")
    return times


def _microseconds(frame: pl.DataFrame, column: str, name: str) -> pl.Series:
    seconds = frame[column].cast(pl.Float64, strict=False)
    given = frame[column]
    if given.dtype == pl.String:
        given = given.replace("", None)
    lost = (seconds.is_null() & given.is_not_null()) | seconds.is_nan() | seconds.is_infinite()
    if lost.any():
        row = lost.arg_max() or 0
        raise InvalidInputError(f"{name}: {column} of row {row + 1} is {frame[column][row]!r}, not seconds")
    return (seconds * US_PER_S).round().cast(pl.Int64)
