"""Each absurdity of a workload is warned of, with numbers, a job and what to do; a sound one is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.proofs import quick_first
from workloads.convert import convert
from workloads.sanity import sanity_warnings
from workloads.synthetic.synth import DrawRequest, synth_profile
from workloads.trace_format import ConvertOptions

HOUR_S, DAY_S = 3600.0, 86_400.0


def sound(
    seed: int, jobs: int, gap_s: float = 600.0, median_s: float = HOUR_S, zero_s: float = 0
) -> pl.DataFrame:
    """Jobs with arrivals, waits and run times that are drawn independently."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0, 16.0], jobs)
    return pl.DataFrame(
        {
            "job_id": [f"job-{index}" for index in range(jobs)],
            "submit_s": zero_s + np.cumsum(rng.exponential(gap_s, jobs)),
            "duration_s": np.minimum(rng.lognormal(np.log(median_s), 1.5, jobs), 60 * DAY_S),
            "wait_s": rng.exponential(300.0, jobs),
            "num_gpus": gpus,
            "num_tasks": np.maximum(1, gpus / rng.choice([1, 2], jobs)).astype(np.int64),
            "cpu_per_task": rng.choice([1.0, 4.0, 12.0], jobs),
        }
    )


def warned(frame: pl.DataFrame, rebased_by_s: float = 0.0) -> str:
    """The only warning of a workload."""
    (text,) = sanity_warnings(frame.lazy(), rebased_by_s)
    return text


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    jobs=st.integers(1, 2000),
    gap_s=st.sampled_from([0.0, 0.5, 5.0, 60.0, HOUR_S]),
    median_s=st.sampled_from([1.0, 60.0, HOUR_S, 4 * HOUR_S]),
    zero_s=st.sampled_from([0.0, 1.0, 604_800.0, 1.7e9]),
    absent=st.sets(st.sampled_from(["wait_s", "num_tasks", "cpu_per_task"])),
    shares=st.booleans(),
    whole=st.booleans(),
)
def test_no_sound_workload_is_warned_of(
    seed: int,
    jobs: int,
    gap_s: float,
    median_s: float,
    zero_s: float,
    absent: set[str],
    shares: bool,
    whole: bool,
) -> None:
    """A gap of 0 s is a batch at one instant; with shares, a task has a quarter or half of a GPU."""
    frame = sound(seed, jobs, gap_s, median_s, zero_s).drop(absent)
    if shares:
        frame = frame.with_columns(pl.col("num_gpus") / 4)
    if whole:
        frame = frame.with_columns(pl.col("submit_s", "duration_s").round())
    assume(not shares or bool((frame["num_gpus"] % 1 != 0).any()))  # else they may be GPUs of one task
    assume(not 0 < gap_s * jobs < 120)  # 100 jobs in a minute may be in another unit
    assert sanity_warnings(frame.lazy()) == ()


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["philly", "google"])
def test_no_draw_of_the_profiles_is_warned_of(profile: str) -> None:
    for seed in range(20):
        for jobs in (10, 100, 3000):
            drawn = synth_profile(profile, DrawRequest(jobs), seed)
            assert sanity_warnings(drawn.frame.lazy()) == (), (seed, jobs)


@pytest.mark.parametrize(
    ("format_name", "name"),
    quick_first(
        [
            ("philly-csv", "philly/sia_philly.csv.gz"),
            *(
                ("gpu-pods", f"fgd/pods_{kind}.csv.gz")
                for kind in ("default", "cpu250", "gpushare100", "gpuspec33")
            ),
            pytest.param("google-2011", "google2011/task_events", marks=pytest.mark.slow),
        ],
        2,
    ),
)
def test_no_published_trace_is_warned_of(
    format_name: str, name: str, real: Callable[[str], Path], tmp_path: Path
) -> None:
    report = convert(format_name, [real(f"data/{name}")], tmp_path / "w.parquet")
    assert sanity_warnings(pl.scan_parquet(report.out)) == ()


@pytest.mark.parametrize("zero_s", [0.0, 1.7e9])
def test_an_end_for_a_run_time(zero_s: float) -> None:
    # end = submission + wait + run time; a week of submissions, run times of an hour
    end_s = pl.col("submit_s") + pl.col("wait_s") + pl.col("duration_s")
    text = warned(sound(1, 1000, zero_s=zero_s).with_columns(duration_s=end_s))
    assert text.startswith("duration_s looks like the time of the end: it rises with submit_s")
    assert "for 1,000 of 1,000 jobs, such as job 'job-0' with submit_s " in text
    assert text.endswith("as in `derived: {duration_s: end - start}` in a mapping file (--map)")


def test_an_end_for_a_run_time_where_few_long_jobs_hide_the_line() -> None:
    # Half a day of jobs of a minute, of which the first two run for 60 days: their ends are far above all
    # others, at the smallest submissions, so that ends fall with submissions.
    frame = pl.DataFrame(
        {
            "job_id": [f"j{index}" for index in range(200)],
            "submit_s": [3600.0 + index * 216 for index in range(200)],
            "duration_s": [60 * DAY_S] * 2 + [60.0] * 198,
            "num_gpus": [1.0] * 200,
        }
    )
    assert sanity_warnings(frame.lazy()) == ()
    ends = frame.with_columns(pl.col("duration_s") + pl.col("submit_s"))
    assert ends.select(pl.corr("submit_s", "duration_s")).item() < 0
    assert "not below it for 200 of 200 jobs, such as job 'j0' with submit_s 3600," in warned(ends)


def test_run_times_beyond_all_submissions() -> None:
    # milliseconds of runs of about an hour are about 1,000 hours; the jobs come within 100 x 600 s = 17 h
    text = warned(sound(2, 100).with_columns(pl.col("duration_s") * 1000))
    assert text.startswith("duration_s is out of proportion to submit_s: ")
    assert "and longer than the " in text


def test_work_that_no_cluster_does() -> None:
    # 1000 jobs within a day. Three of them still run, and their end is the year 2038: 2^31 s each, so that
    # 3 x 2^31 s / 1 d = 74,565 jobs of a GPU are busy on average, 75 times all.
    frame = pl.DataFrame(
        {
            "job_id": [f"j{index}" for index in range(1000)],
            "submit_s": [index * 86.4 for index in range(1000)],
            "duration_s": [2.0**31 if index in (5, 6, 7) else 60.0 for index in range(1000)],
            "num_gpus": [1.0] * 1000,
        }
    )
    text = warned(frame)
    assert "74,566 GPUs would be busy on average, 74,566 times those of the largest job and 74.57" in text
    assert "such as job 'j5' with submit_s 432, duration_s 2147483648, num_gpus 1;" in text


def test_milliseconds_that_the_span_hides() -> None:
    # 100 days of jobs of 8 GPUs, one each 864 s. A run of 3,600 s keeps 8 x 3600 / 864 = 33 GPUs busy; a
    # thousandfold 33,000, which is 4,167 times the largest job. 3.6e6 s are 42 days, within the span.
    frame = pl.DataFrame(
        {
            "job_id": [f"j{index}" for index in range(10_000)],
            "submit_s": [index * 864.0 for index in range(10_000)],
            "duration_s": [3_600_000.0] * 10_000,
            "num_gpus": [8.0] * 10_000,
        }
    )
    assert "33,337 GPUs would be busy on average, 4,167 times those of the largest job" in warned(frame)


def test_a_run_time_that_contains_the_queue() -> None:
    frame = sound(3, 200).with_columns(wait_s=pl.col("wait_s") * 100)
    assert sanity_warnings(frame.lazy()) == ()
    text = warned(frame.with_columns(duration_s=pl.col("wait_s") + 60))
    assert text.startswith("duration_s seems to contain the queue: it rises with wait_s")
    assert "for 200 of 200 jobs with a wait_s, such as job 'job-0' with wait_s " in text


def test_gpus_of_one_task() -> None:
    # one GPU for each of 94 tasks is 1/94 GPU per task
    spot = pl.DataFrame(
        {"job_id": ["a"], "submit_s": [0.0], "duration_s": [41_060.0], "num_gpus": [1.0], "num_tasks": [94]}
    )
    assert warned(spot) == (
        "num_gpus looks like the GPUs of one task: 1 of 1 jobs of several tasks have no whole number of GPUs"
        " per task, such as job 'a' with num_gpus 1, num_tasks 94; set `per_task: [num_gpus]` in a mapping"
        " file (--map)"
    )
    shared = spot.with_columns(num_gpus=pl.lit(23.5))  # a quarter each, where GPUs are shared
    assert sanity_warnings(shared.lazy()) == ()


@pytest.mark.parametrize("name", ["num_gpus", "cpu_per_task"])
def test_percentages(name: str) -> None:
    frame = sound(4, 50).with_columns(num_tasks=pl.lit(1, pl.Int64))
    percent = pl.Series(name, [100.0, 25.0, 50.0, 200.0, 0.0] * 10)
    text = warned(frame.with_columns(percent))
    assert text.startswith(
        f"{name} looks like a percentage: all 40 values above 0 are multiples of 25, such as"
    )
    assert sanity_warnings(frame.with_columns(percent.replace(25.0, 20.0)).lazy()) == ()


def test_steps_of_slurm() -> None:
    frame = sound(5, 6)
    names = ["7", "7.batch", "7.extern", "7.0", "8", "8.0"]
    text = warned(frame.with_columns(job_id=pl.Series(names)))
    assert text.startswith("job_id looks like a step of a Slurm job for 4 of 6 jobs")
    assert "such as job '7.batch' with duration_s" in text
    assert text.endswith("in a mapping file (--map), as the preset sacct does")
    assert warned(frame.with_columns(job_id=pl.Series(["7", "7.0", "8", "9", "10", "11"])))


def test_ids_of_condor_and_ids_that_were_floats_are_no_steps() -> None:
    frame = sound(6, 6)
    for names in (["7.0", "7.1", "7.2", "8.0", "9.0", "9.1"], [f"{index}.0" for index in range(6)]):
        assert sanity_warnings(frame.with_columns(job_id=pl.Series(names)).lazy()) == ()


def test_days_of_excel() -> None:
    # 45291.5 is noon of 2023-12-31; a job each 600 s is one each 1/144 day
    days = sound(7, 300).with_columns(pl.col("submit_s") / DAY_S + 45_291.5)
    text = warned(days)
    assert text.startswith("submit_s looks like days of Excel for 300 of 300 jobs, such as job 'job-0'")
    assert text.endswith("`cells: {COLUMN: {as: excel_date}}` in a mapping file (--map)")
    rebased = days.with_columns(pl.col("submit_s") - 45_291.5)
    assert warned(rebased, 45_291.5).startswith("submit_s looks like days of Excel")
    dates_only = days.with_columns(pl.col("submit_s").floor())
    assert warned(dates_only).startswith("submit_s looks like days of Excel")
    seconds = days.with_columns(submit_s=pl.Series([40_000.0 + 3 * index for index in range(300)]))
    assert sanity_warnings(seconds.lazy()) == ()


def test_dates_in_digits() -> None:
    digits = [20_240_100.0 + day for day in range(1, 32)]
    text = warned(sound(8, 31).with_columns(submit_s=pl.Series(digits)))
    assert text.startswith("submit_s looks like dates in digits for 31 of 31 jobs, such as job 'job-0' with")
    assert "submit_s 20240101, " in text
    assert '`time_format: "%Y%m%d"`' in text


def test_days_from_any_zero() -> None:
    # 600 s are 0.007 days: 300 jobs come within about 2 "s"
    text = warned(sound(9, 300).with_columns(pl.col("submit_s") / DAY_S))
    assert text.startswith("submit_s looks like another unit than seconds: 300 jobs are within 2")


def test_a_conversion_warns_of_the_trace_in_its_own_time(trace: Callable[..., Path], tmp_path: Path) -> None:
    source = trace("job_id,submit_s,duration_s,num_gpus\na,45292.5,10,1\nb,45293.25,20,2\n")
    report = convert("csv", [source], tmp_path / "w.parquet", options=ConvertOptions(rebase=True))
    (text,) = report.warnings
    assert "such as job 'a' with submit_s 45292.5, duration_s 10" in text
