"""Real and simulated delays are joined job by job; who is left out, and why, is counted."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import polars as pl
import pytest

from ray_sim.reports.delays import (
    MOST_PRIORITIES,
    DelayPart,
    Waited,
    compare_delays,
    delay_pairs,
    parts_frame,
)

SCHEMA = {
    "job_id": pl.String,
    "num_gpus": pl.Float64,
    "submit_s": pl.Float64,
    "start_s": pl.Float64,
    "status": pl.String,
    "wait_s": pl.Float64,
    "priority": pl.Int64,
    "group_id": pl.String,
    "num_tasks": pl.Int64,
    "cpu_norm_per_task": pl.Float64,
    "cpu_per_task": pl.Float64,
}


def _jobs(*rows: tuple[object, ...], **columns: list[str]) -> pl.DataFrame:
    """Rows of job_id, num_gpus, submit_s, start_s, wait_s and priority, all completed and of no group."""
    short = ("job_id", "num_gpus", "submit_s", "start_s", "wait_s", "priority")
    frame = pl.DataFrame(rows, {name: SCHEMA[name] for name in short}, orient="row")
    rest = {name: pl.lit(None, dtype=dtype) for name, dtype in SCHEMA.items() if name not in short}
    given = {name: pl.Series(name, values, dtype=SCHEMA[name]) for name, values in columns.items()}
    status = {"status": pl.lit("completed")}
    return frame.with_columns(**(rest | status | given)).select(*SCHEMA)


FIVE = _jobs(
    ("a", 1, 10, 10.0, 10.0, 1),
    ("b", 1, 20, 20.0, 20.0, 1),
    ("c", 2, 30, 35.0, 30.0, 1),
    ("d", 4, 40, 49.0, 40.0, 0),
    ("e", 16, 50, 57.0, 50.0, 0),
)
"""Simulated delays 0 0 5 9 7, real ones 10 20 30 40 50."""


def _overall(jobs: pl.DataFrame) -> DelayPart:
    found = compare_delays(jobs).overall
    assert found is not None
    return found


def test_five_jobs_by_hand() -> None:
    # The correlations are computed in test_rank_correlation.py.
    overall = _overall(FIVE)
    assert (overall.jobs, overall.groups) == (5, 5)
    assert (overall.real_s.mean, overall.real_s.median) == (30.0, 30.0)
    assert (overall.simulated_s.mean, overall.simulated_s.median) == (21 / 5, 5.0)
    assert overall.ranks.simulated.value == pytest.approx(8.5 / math.sqrt(95), rel=1e-15)
    assert overall.ranks.constant.value == pytest.approx(math.sqrt(0.75), rel=1e-15)
    # Longer than 0 s: all waited in the trace, c d e here; longer than 10 s: b c d e in the trace, none here.
    waited = compare_delays(FIVE).waited
    assert waited[0] == Waited(0, 1.0, 0.6, 0.6)
    assert waited[2] == Waited(10, 0.8, 0.0, 0.0)


def test_classes_are_priorities_sizes_and_times() -> None:
    found = compare_delays(FIVE)
    assert [(part.label, part.jobs) for part in found.by_priority] == [("priority 0", 2), ("priority 1", 3)]
    sizes = [("1 GPUs", 2), ("2-4 GPUs", 2), ("> 8 GPUs", 1)]
    assert [(part.label, part.jobs) for part in found.by_size] == sizes
    # Submitted from 10 to 50 s: bins of 4 s.
    times = ["+0 s to +4 s", "+8 s to +12 s", "+20 s to +24 s", "+28 s to +32 s", "+36 s to +40 s"]
    assert [part.label for part in found.over_time] == times
    dated = compare_delays(FIVE, datetime(2024, 1, 31, 23, 59, 40, tzinfo=UTC)).over_time
    assert [each.label for each in dated[1:3]] == [
        "2024-01-31 23:59 to 2024-02-01 00:00 UTC",
        "2024-02-01 00:00 to 2024-02-01 00:00 UTC",
    ]
    assert list(found.tables()) == ["Delays", "By priority", "By size", "By time of submission"]


def test_without_gpus_sizes_are_cpus_of_all_tasks() -> None:
    jobs = FIVE.with_columns(num_gpus=0.0, cpu_norm_per_task=0.25, num_tasks=pl.Series([None, 1, 2, 3, 4]))
    labels = [(part.label, part.jobs) for part in compare_delays(jobs).by_size]
    assert labels == [
        ("0.25 to 0.25 CPU", 2),
        ("0.5 to 0.5 CPU", 1),
        ("0.75 to 0.75 CPU", 1),
        ("1 to 1 CPU", 1),
    ]


def test_jobs_submitted_at_second_0_stand_apart() -> None:
    early = _jobs(("z", 1, 0, 3.0, 4.0, 0), ("y", 1, 0, 0.0, 0.0, 1))
    found = compare_delays(pl.concat([early, FIVE]))
    assert found.overall == _overall(FIVE)
    assert found.at_time_0 is not None
    assert (found.at_time_0.jobs, found.at_time_0.ranks.simulated.value) == (2, 1.0)
    alone = compare_delays(early)
    assert (alone.overall, alone.waited, alone.over_time) == (None, (), ())
    assert list(alone.tables()) == ["Delays"]


def test_jobs_that_never_start_or_have_no_real_delay_are_counted() -> None:
    rest = _jobs(
        ("p", 1, 60, None, 1.0, 0),
        ("q", 1, 61, None, 1.0, 0),
        ("r", 1, 62, None, None, 0),
        ("s", 1, 63, 70.0, None, 0),
        ("t", 1, 64, 70.0, 5.0, 0),
        status=["rejected", "rejected", "unfinished", "completed", "unfinished"],
    )
    found = compare_delays(pl.concat([FIVE, rest]))
    assert found.left_out == {
        "never started in the run: rejected": 2,
        "never started in the run: unfinished": 1,
        "no real delay in the trace": 1,
    }
    # t began, and that it did not end does not matter.
    assert found.overall is not None
    assert found.jobs == 10 == found.overall.jobs + sum(found.left_out.values())


def test_delays_that_differ_in_the_last_digit_only_are_ties() -> None:
    jobs = _jobs(("a", 1, 0.1, 0.4, 0.3, 0), ("b", 1, 0.2, 0.5, 0.1 + 0.2, 0))
    assert jobs["start_s"][0] - jobs["submit_s"][0] != jobs["start_s"][1] - jobs["submit_s"][1]
    assert delay_pairs(jobs)["simulated_s"].n_unique() == 1
    assert delay_pairs(jobs)["real_s"].n_unique() == 1


def test_a_group_counts_once_in_whole_groups_by_its_mean() -> None:
    # d and e are a group of means 45 and 8. Ranks about 2.5: real -1.5 -0.5 0.5 1.5, here -1 -1 0.5 1.5.
    jobs = FIVE.with_columns(group_id=pl.Series([None, None, None, "g", "g"]))
    found = compare_delays(jobs)
    assert found.overall is not None
    assert (found.overall.jobs, found.overall.groups) == (5, 4)
    assert found.whole_groups is not None
    assert (found.whole_groups.jobs, found.whole_groups.real_s.mean) == (4, (10 + 20 + 30 + 45) / 4)
    assert found.whole_groups.ranks.simulated.value == pytest.approx(4.5 / math.sqrt(5 * 4.5), rel=1e-15)
    assert compare_delays(FIVE).whole_groups is None


def test_no_priority_is_a_class_and_the_rarest_priorities_share_one() -> None:
    rows = [(f"{each}-{copy}", 1, 5, 6.0, 1.0, each) for each in range(30) for copy in range(1 + (each < 19))]
    found = compare_delays(_jobs(*rows, ("n", 1, 5, 6.0, 1.0, None)))
    labels = [(part.label, part.jobs) for part in found.by_priority]
    assert len(labels) == MOST_PRIORITIES
    assert labels[:19] == [(f"priority {each}", 2) for each in range(19)]
    assert labels[19] == ("priority others", 12)
    few = compare_delays(_jobs(("a", 1, 5, 6.0, 1.0, 3), ("n", 1, 5, 6.0, 1.0, None)))
    assert [part.label for part in few.by_priority] == ["priority 3", "priority none"]


def test_a_row_of_a_table_has_each_number_with_its_interval() -> None:
    many = pl.concat([FIVE.with_columns(job_id=pl.col("job_id") + str(copy)) for copy in range(4)])
    [row] = parts_frame([_overall(many)]).to_dicts()
    assert (row["label"], row["jobs"], row["real_s.mean"], row["simulated_s.median"]) == (
        "all",
        20,
        30.0,
        5.0,
    )
    low, high = (
        float(end) for end in row["correlation"].removeprefix("0.87 [").removesuffix("]").split(", ")
    )
    assert 0 < low <= 0.87 <= high <= 1
    assert parts_frame([_overall(FIVE)])["difference"].to_list() == ["0.01 -"]
