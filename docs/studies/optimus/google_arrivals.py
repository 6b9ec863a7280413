"""Jobs of `jobs.csv` at the times of seven hours of submissions of Google's trace of May 2011.

    python google_arrivals.py DIRECTORY -o google-arrivals.csv

DIRECTORY holds parts of `job_events` (part-00000-of-00500.csv.gz, ...), of which the first 20 are enough.
From the submissions of the seven hours after the trace begins, 126 are taken at equal distances in their
order: three per interval of 600 s on average. The times keep Google's bursts and lulls; sizes and run times
are those of `jobs.csv`, in turn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

START_US = 600_000_000
"""Time at which the trace begins; earlier jobs were there before."""
HOURS = 7
JOBS = 126
SUBMIT = 0
"""Event type of a submission."""


def submissions_s(directory: Path) -> pl.Series:
    """Seconds since the trace began of the submissions of the first hours, rising."""
    parts = directory / "part-*-of-00500.csv.gz"
    events = pl.scan_csv(parts, has_header=False, infer_schema=False)
    time_us, event = (pl.col(f"column_{number}").cast(pl.Int64) for number in (0, 3))
    within = time_us.is_between(START_US, START_US + HOURS * 3_600_000_000, closed="left")
    found = events.filter(within & (event == SUBMIT)).select((time_us - START_US) / 1e6)
    return found.collect().to_series().sort()


def main() -> None:
    """Write the jobs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("-o", type=Path, default=Path("google-arrivals.csv"))
    given = parser.parse_args()
    times = submissions_s(given.directory)
    taken = times.gather([number * len(times) // JOBS for number in range(JOBS)])
    jobs = pl.read_csv(Path(__file__).with_name("jobs.csv")).drop("submit_s")
    rows = [number % jobs.height for number in range(JOBS)]
    jobs[rows].insert_column(0, taken.alias("submit_s")).write_csv(given.o)
    print(f"{JOBS} of {len(times):,} submissions")


if __name__ == "__main__":
    main()
