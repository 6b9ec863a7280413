"""Write google_tasks.csv: the jobs of a converted part of Google's trace, a task as a GPU.

    python google_tasks.py google.parquet

Jobs of more than 50 tasks are left out.
"""

from __future__ import annotations

import sys

import polars as pl

MOST_TASKS = 50


def main(path: str) -> None:
    """Write the file into the working directory."""
    jobs = pl.read_parquet(path).filter(pl.col("num_tasks") <= MOST_TASKS)
    jobs.select("submit_s", "duration_s", num_gpus="num_tasks").write_csv("google_tasks.csv")


if __name__ == "__main__":
    main(sys.argv[1])
