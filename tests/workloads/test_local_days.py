"""Days of `resample: days` are those of the clocks where the jobs were submitted."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from tests.proofs import quick_first
from workloads.convert import convert
from workloads.trace_format import ConvertOptions

DAY_S = 86_400
CLUSTER = "name: roomy\nservers:\n  - {name: s, gpus: 64}\n"


def dates_from(year: int, month: int, first: int, last: int) -> list[str]:
    return [f"{year}-{month:02}-{day:02}" for day in range(first, last + 1)]


def table_of(dates: Sequence[str], clocks: Sequence[str], offset: str = "") -> str:
    """A job of a second for each date and time of day, named by both."""
    rows = [f"{date} {clock},{date} {clock}{offset},1,1" for date in dates for clock in clocks]
    return "\n".join(["job_id,submit_s,duration_s,num_gpus", *rows]) + "\n"


def workload(folder: Path, text: str, zone: str | None = None, *, rebase: bool = False) -> Path:
    table, mapping, out = folder / "t.csv", folder / "map.yaml", folder / "w.parquet"
    table.write_text(text)
    mapping.write_text(f"time_zone: {zone}\n")
    options = ConvertOptions(mapping=None if zone is None else mapping, rebase=rebase)
    report = convert("csv", [table], out, options=options)
    assert report.kept == report.read
    return out


def drawn(path: Path, seed: int, *options: str) -> dict[str, tuple[int, float]]:
    """By drawn name: the block that it is in, and its submission."""
    cluster, out = path.with_name("roomy.yaml"), path.with_name(f"run-{seed}")
    cluster.write_text(CLUSTER)
    argv = ["--workload", str(path), "--cluster", str(cluster), "--policy", "fifo", "--resample", "days"]
    assert main(["run", *argv, "--seed", str(seed), "-o", str(out), *options]) == 0
    rows = pl.read_parquet(out / "jobs.parquet").select("job_id", "submit_s").rows()
    return {name: (int(name.rpartition("@")[2]), submit_s) for name, submit_s in rows}


def blocks_of(jobs: dict[str, tuple[int, float]]) -> dict[int, frozenset[str]]:
    """Names of the trace by block."""
    found: dict[int, set[str]] = {}
    for name, (block, _) in jobs.items():
        found.setdefault(block, set()).add(name.rpartition("@")[0])
    return {block: frozenset(names) for block, names in found.items()}


EARLY_AND_LATE = ("00:10", "12:00", "23:50")


@pytest.mark.parametrize(
    ("zone", "dates", "clocks"),
    quick_first(
        [
            pytest.param("America/Los_Angeles", dates_from(2017, 10, 9, 14), EARLY_AND_LATE, id="summer"),
            # A day of 25 hours, and one of 23.
            pytest.param("America/Los_Angeles", dates_from(2017, 11, 1, 6), EARLY_AND_LATE, id="back"),
            pytest.param("America/Los_Angeles", dates_from(2018, 3, 8, 13), EARLY_AND_LATE, id="forward"),
            pytest.param(
                "Europe/Berlin", dates_from(2023, 3, 24, 27), ("00:00", "00:30", "23:59:59"), id="east"
            ),
            pytest.param(
                "Asia/Kolkata", dates_from(2021, 6, 1, 4), ("00:01", "05:00", "23:59"), id="half_hour"
            ),
            pytest.param("Pacific/Auckland", dates_from(2018, 3, 30, 31), ("01:00", "22:00"), id="far_east"),
            pytest.param(
                "Australia/Lord_Howe", dates_from(2018, 3, 30, 31), EARLY_AND_LATE, id="to_half_hour"
            ),
            # The clocks went from 24:00 to 1:00, so that 15 October had no midnight.
            pytest.param(
                "America/Sao_Paulo", dates_from(2017, 10, 13, 16), ("01:10", "23:50"), id="no_midnight"
            ),
            # They went from 1:00 to 0:00, so that 5 November had two.
            pytest.param(
                "America/Havana", dates_from(2017, 11, 3, 6), ("00:30", "23:30"), id="two_midnights"
            ),
        ],
        2,
    ),
)
def test_blocks_are_the_days_of_the_local_calendar(
    tmp_path: Path, zone: str, dates: list[str], clocks: tuple[str, ...]
) -> None:
    path = workload(tmp_path, table_of(dates, clocks), zone)
    days = {frozenset(f"{date} {clock}" for clock in clocks) for date in dates}
    blocks = blocks_of(drawn(path, 1))
    assert set(blocks) == set(range(len(dates)))
    assert set(blocks.values()) <= days


def test_jobs_on_both_sides_of_a_local_midnight_are_never_drawn_as_one_day(tmp_path: Path) -> None:
    """18:30 and 22:00 in Los Angeles are the next day in UTC, with the morning after."""
    evening, morning = ["2017-10-09 18:30", "2017-10-09 22:00"], ["2017-10-10 03:00"]
    rows = "".join(f"{time},{time},1,1\n" for time in evening + morning)
    path = workload(tmp_path, "job_id,submit_s,duration_s,num_gpus\n" + rows, "America/Los_Angeles")
    for seed in range(2):
        blocks = blocks_of(drawn(path, seed))
        assert set(blocks) == {0, 1}
        assert set(blocks.values()) <= {frozenset(evening), frozenset(morning)}


def test_times_of_day_are_kept_from_day_to_day(tmp_path: Path) -> None:
    """Between two drawn jobs lie 24 h for each block, and the difference of their clocks."""
    clock_s = {"00:10": 600, "17:20": 62_400, "23:50": 85_800}
    path = workload(tmp_path, table_of(dates_from(2017, 10, 9, 13), list(clock_s)), "America/Los_Angeles")
    jobs = drawn(path, 4)
    zeros = {
        submit_s - block * DAY_S - clock_s[name.partition("@")[0].split(" ")[1]]
        for name, (block, submit_s) in jobs.items()
    }
    assert len(jobs) == 15
    assert len(zeros) == 1


def test_a_workload_that_counts_from_its_first_submission_keeps_its_local_midnights(tmp_path: Path) -> None:
    dates = dates_from(2017, 10, 9, 12)
    # The first job is that of 18:30; a day counted from it would run from evening to evening.
    text = table_of(dates, ("18:30", "06:00")).replace("2017-10-09 06:00,2017-10-09 06:00,1,1\n", "")
    path = workload(tmp_path, text, "America/Los_Angeles", rebase=True)
    days = [frozenset({f"{date} 06:00", f"{date} 18:30"}) for date in dates[1:]]
    blocks = blocks_of(drawn(path, 1))
    assert set(blocks) == set(range(4))
    assert set(blocks.values()) <= {frozenset({"2017-10-09 18:30"}), *days}


def test_a_window_of_local_days_gives_these_days(tmp_path: Path) -> None:
    dates = dates_from(2017, 10, 9, 14)
    path = workload(tmp_path, table_of(dates, ("00:10", "23:50")), "America/Los_Angeles")
    # From midnight of 10 October in Los Angeles, 07:00 UTC, for three days.
    from_s = 1_507_618_800
    jobs = drawn(path, 2, "--window", str(from_s), str(from_s + 3 * DAY_S))
    blocks = blocks_of(jobs)
    assert set(blocks) == {0, 1, 2}
    assert set(blocks.values()) <= {frozenset({f"{date} 00:10", f"{date} 23:50"}) for date in dates[1:4]}


def test_training_columns_that_are_added_later_leave_the_days_local(tmp_path: Path) -> None:
    dates = dates_from(2017, 10, 9, 11)
    plain = workload(tmp_path, table_of(dates, ("00:10", "23:50")), "America/Los_Angeles")
    path = tmp_path / "trained.parquet"
    assert main(["enrich", str(plain), "-o", str(path), "--profile", "optimus_nine_models"]) == 0
    blocks = blocks_of(drawn(path, 3))
    assert set(blocks) == {0, 1, 2}
    assert set(blocks.values()) <= {frozenset({f"{date} 00:10", f"{date} 23:50"}) for date in dates}


def test_days_of_the_philly_table_are_those_of_los_angeles(tmp_path: Path) -> None:
    """Its jobs are named by their rows: row 0 came in the evening of the first day."""
    dates = dates_from(2017, 11, 3, 8)
    times = [f"{date} {clock}" for date in dates for clock in ("06:00:00", "20:00:00")][1:]
    table, path = tmp_path / "philly.csv", tmp_path / "w.parquet"
    rows = "".join(f"{time},60,1,60,v\n" for time in times)
    table.write_text("timestamp,duration,num_gpus,gpu_time,cluster\n" + rows)
    convert("philly-csv", [table], path)
    days = [frozenset({"0"}), *(frozenset({str(2 * day - 1), str(2 * day)}) for day in range(1, 6))]
    blocks = blocks_of(drawn(path, 1))
    assert set(blocks) == set(range(6))
    assert set(blocks.values()) <= set(days)


def test_days_of_the_philly_log_are_those_of_los_angeles(tmp_path: Path) -> None:
    def job(date: str, hour: int) -> dict[str, object]:
        stay = {"start_time": f"{date} {hour:02}:00:10", "end_time": f"{date} {hour:02}:00:20"}
        attempt = {**stay, "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}
        facts = {"status": "Pass", "vc": "v", "user": "u", "attempts": [attempt]}
        return {**facts, "jobid": f"{date} {hour}", "submitted_time": f"{date} {hour:02}:00:00"}

    dates = dates_from(2017, 10, 9, 12)
    log, path = tmp_path / "log.json", tmp_path / "w.parquet"
    log.write_text(json.dumps([job(date, hour) for date in dates for hour in (6, 20)][1:]))
    convert("philly", [log], path)
    days = [frozenset({f"{date} 6", f"{date} 20"}) for date in dates[1:]]
    blocks = blocks_of(drawn(path, 2))
    assert set(blocks) == set(range(4))
    assert set(blocks.values()) <= {frozenset({f"{dates[0]} 20"}), *days}


@pytest.mark.parametrize(("zone", "offset"), [("UTC", ""), (None, ""), (None, "Z")])
def test_where_the_zone_is_utc_or_unknown_days_are_those_of_utc(
    tmp_path: Path, zone: str | None, offset: str
) -> None:
    dates = dates_from(2017, 10, 9, 12)
    path = workload(tmp_path, table_of(dates, EARLY_AND_LATE, offset), zone)
    blocks = blocks_of(drawn(path, 1))
    assert set(blocks) == set(range(4))
    assert set(blocks.values()) <= {
        frozenset(f"{date} {clock}" for clock in EARLY_AND_LATE) for date in dates
    }


def test_offsets_of_dates_name_no_zone_so_days_are_those_of_utc(tmp_path: Path) -> None:
    """20:00 at -07:00 is 3:00 of the next day in UTC, with that day's 4:00 at -07:00, which is 11:00."""
    dates = dates_from(2017, 10, 9, 11)
    path = workload(tmp_path, table_of(dates, ("04:00", "20:00"), "-07:00"))
    days = [
        frozenset({"2017-10-09 04:00"}),
        frozenset({"2017-10-09 20:00", "2017-10-10 04:00"}),
        frozenset({"2017-10-10 20:00", "2017-10-11 04:00"}),
        frozenset({"2017-10-11 20:00"}),
    ]
    blocks = blocks_of(drawn(path, 1))
    assert set(blocks) == set(range(4))
    assert set(blocks.values()) <= set(days)


def test_seconds_without_a_date_have_days_of_86400_s_from_0(tmp_path: Path) -> None:
    rows = "".join(f"{second},{second},1,1\n" for second in (10, 86_390, 86_410, 172_790, 172_810))
    path = workload(tmp_path, "job_id,submit_s,duration_s,num_gpus\n" + rows)
    days = {frozenset({"10", "86390"}), frozenset({"86410", "172790"}), frozenset({"172810"})}
    blocks = blocks_of(drawn(path, 1))
    assert set(blocks) == {0, 1, 2}
    assert set(blocks.values()) <= days


def test_the_load_is_scaled_after_the_local_days_are_drawn(tmp_path: Path) -> None:
    path = workload(
        tmp_path, table_of(dates_from(2017, 10, 9, 12), ("00:10", "23:50")), "America/Los_Angeles"
    )
    jobs = drawn(path, 1, "--load-scale", "2")
    # A job at 00:10 and one at 23:50 of each of four blocks, all times halved.
    times = sorted(submit_s for _, submit_s in jobs.values())
    gaps = [late - soon for soon, late in pairwise(times)]
    assert gaps == pytest.approx([42_600, 600] * 3 + [42_600])
    assert all(re.fullmatch(r".* (00:10|23:50)@[0-3]", name) for name in jobs)
