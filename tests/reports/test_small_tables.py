"""Tables that notebooks and `ray-sim compare` show."""

from __future__ import annotations

import polars as pl

from ray_sim.reports.breakdown import By, break_down, classify
from ray_sim.reports.small_tables import breakdown_table


def test_classes_of_run_time_are_durations_for_people_and_seconds_elsewhere() -> None:
    # Of 4 run times each is a class; JCTs are twice the run times against three times, a ratio of 2 / 3.
    run_s = [30.0, 90.0, 5400.0, 90_000.0]
    jobs = pl.DataFrame(
        {
            "seed": pl.Series([0] * 4, dtype=pl.Int64),
            "job_id": list("abcd"),
            "duration_s": run_s,
            "jct_s": [3 * each for each in run_s],
            "status": ["completed"] * 4,
        }
    )
    half = jobs.with_columns(pl.col("jct_s") * 2 / 3)
    found = break_down(By.DURATION, "las", half, classify(By.DURATION, jobs))
    assert [each.label for each in found.classes] == [
        *("30 to 30", "90 to 90", "5,400 to 5,400", "90,000 to 90,000")
    ]
    rows = [[cell.text for cell in row] for row in breakdown_table(found, "fifo").rows]
    assert [row[:5] for row in rows] == [
        ["30 s to 30 s", "1", "1 min", "1 min 30 s", "0.6667"],
        ["1 min 30 s to 1 min 30 s", "1", "3 min", "4 min 30 s", "0.6667"],
        ["1 h 30 min to 1 h 30 min", "1", "3 h", "4 h 30 min", "0.6667"],
        ["1 d 1 h to 1 d 1 h", "1", "2 d 2 h", "3 d 3 h", "0.6667"],
    ]
