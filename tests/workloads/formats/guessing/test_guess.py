"""Guessed mappings: published forms, tables that no rule was written for, and drawn tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proofs import instances, quick_first
from workloads.convert import ConversionReport, convert
from workloads.formats.guessing.guess import Guess, guess_mapping
from workloads.formats.registry import presets
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions

Real = Callable[[str], Path]


def guessed(paths: list[Path], folder: Path, zone: str | None = None) -> Guess:
    copies = folder / "copies"
    copies.mkdir(exist_ok=True)
    return guess_mapping(paths, copies, zone, presets())


def converted(
    paths: list[Path], folder: Path, zone: str | None = None
) -> tuple[Guess, ConversionReport, pl.DataFrame]:
    guess = guessed(paths, folder, zone)
    mapping, out = folder / "map.yaml", folder / "w.parquet"
    mapping.write_text(guess.proposal.text("guessed"))
    report = convert("csv", paths, out, options=ConvertOptions(mapping=mapping))
    return guess, report, read_frame(out).sort("trace_order")


def foreign(real: Real, *names: str) -> list[Path]:
    return [real(f"data/foreign/{name}") for name in names]


@pytest.mark.parametrize(
    ("name", "zone", "preset", "kept", "left_out", "rejected"),
    quick_first(
        [
            (
                "sacct.txt",
                "Europe/Berlin",
                "sacct",
                108,
                {"never_started": 3, "pending": 5, "running": 4, "step": 336},
                {},
            ),
            ("pods.json", None, "k8s-pods", 70, {"pending": 6, "running": 4}, {}),
            ("pwa.swf", None, "swf", 99, {}, {"missing_duration_s": 1}),
            ("batch_task_2018.csv", None, "alibaba-2018", 182, {}, {"missing_duration_s": 18}),
            ("condor_history.json", None, "condor", 43, {"never_started": 17}, {}),
            ("acme_kalos_readme_rows.csv", None, "acme", 2, {}, {}),
        ]
    ),
)
def test_tables_of_known_systems_are_taken_for_their_presets(
    real: Real,
    tmp_path: Path,
    name: str,
    zone: str | None,
    preset: str,
    kept: int,
    left_out: dict[str, int],
    rejected: dict[str, int],
) -> None:
    guess, report, _ = converted(foreign(real, name), tmp_path, zone)
    assert (guess.preset, guess.proposal.doubts(of_numbers=True)) == (preset, [])
    assert (report.kept, report.left_out, report.rejected) == (kept, left_out, rejected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pods.json", "pwa.swf"])
def test_a_preset_gives_the_right_numbers(real: Real, tmp_path: Path, name: str) -> None:
    (path,) = foreign(real, name)
    _, _, frame = converted([path], tmp_path)
    truth = pl.read_csv(path.with_name(f"{path.stem}_truth.csv"), schema_overrides={"job_id": pl.String})
    both = truth.join(frame, on="job_id", suffix=" found")
    assert both.height == frame.height == truth.height
    for column in ("submit_s", "duration_s", "wait_s"):
        assert (both[column].cast(pl.Float64) == both[f"{column} found"]).all()


@pytest.mark.slow
def test_a_table_with_our_names_has_no_doubt(real: Real, tmp_path: Path) -> None:
    for name in ("comment_first.csv", "header_spaces.csv", "excel_de.csv"):
        guess, report, _ = converted(foreign(real, name), tmp_path)
        assert (guess.proposal.doubts(), report.kept) == ([], 1)
    _, _, frame = converted(foreign(real, "excel_de.csv"), tmp_path)
    assert frame.select("submit_s", "duration_s", "num_gpus").rows() == [(0.5, 10, 1)]


def test_a_job_that_still_ran_in_january_is_that_of_february(real: Real, tmp_path: Path) -> None:
    guess, _, frame = converted(foreign(real, "jan.csv", "feb.csv"), tmp_path)
    assert guess.proposal.doubts() == []
    assert frame.filter(pl.col("job_id") == "2").select("duration_s", "status").rows() == [
        (90_000, "COMPLETED")
    ]


def test_of_a_requeued_job_the_longer_record_is_kept(real: Real, tmp_path: Path) -> None:
    guess, report, frame = converted(foreign(real, "sacct_ids.csv"), tmp_path, "UTC")
    assert guess.proposal.doubts() == []
    assert frame.select("job_id", "duration_s").rows() == [("100+0", 10), ("100+1", 10), ("101_3", 90)]
    assert report.left_out == {"not_ended": 2}


def test_local_days_need_their_zone(real: Real, tmp_path: Path) -> None:
    paths = foreign(real, "local_days.csv")
    (doubt,) = guessed(paths, tmp_path).proposal.doubts(of_numbers=True)
    assert doubt.startswith("submit_s: dates have no offset from UTC")
    guess, report, frame = converted(paths, tmp_path, "America/Los_Angeles")
    assert (guess.proposal.doubts(), report.kept) == ([], 54)
    local = pl.from_epoch(frame["submit_s"].cast(pl.Int64)).dt.replace_time_zone("UTC")
    assert (
        local.dt.convert_time_zone("America/Los_Angeles").dt.date().value_counts()["count"].to_list()
        == [9] * 6
    )


@pytest.mark.parametrize(
    ("name", "doubted", "submissions"),
    [("excel_serial.csv", "day numbers of Excel, or s?", 64_800), ("yyyymmdd.csv", "no offset", 86_400)],
)
def test_numbers_of_days_are_never_seconds_of_1970(
    real: Real, tmp_path: Path, name: str, doubted: str, submissions: float
) -> None:
    guess, _, frame = converted(foreign(real, name), tmp_path)
    assert doubted in "".join(guess.proposal.doubts())
    assert frame["submit_s"].diff().to_list()[1:] == [submissions]


def test_gpus_of_a_worker_are_multiplied_and_doubted(real: Real, tmp_path: Path) -> None:
    guess, _, frame = converted(foreign(real, "spot_one.csv"), tmp_path)
    assert frame["num_gpus"].to_list() == [94]
    assert guess.proposal.doubts() == ["num_gpus: is num_gpus of the job, or of a task? Taken as of a task"]


def test_units_in_cells_are_read(real: Real, tmp_path: Path) -> None:
    guess, report, frame = converted(foreign(real, "units_in_cells.csv"), tmp_path)
    assert frame["duration_s"].to_list() == [1234, 3723, 93_784, 5400]
    assert frame["cpu_per_task"].to_list() == [0.5, 2, 4, 4]
    assert [round(each, 4) for each in frame["memory_gib_per_task"]] == [16, 1, 7.4506, 7.4506]
    assert report.rejected == {"no_unit_memory_gib_per_task": 1}
    assert "values without a unit are rejected" in "".join(guess.proposal.doubts())


@pytest.mark.slow
def test_blank_gpus_are_rejected_with_a_doubt_and_a_broken_row_is_rejected(
    real: Real, tmp_path: Path
) -> None:
    guess, report, frame = converted(foreign(real, "pandas_index.csv"), tmp_path)
    assert frame.select("job_id", "num_gpus").rows() == [("a", 4), ("d", 1)]
    assert report.rejected == {"invalid_duration_s": 1, "invalid_num_gpus": 1}
    [doubt] = guess.proposal.doubts()
    assert doubt.startswith("num_gpus: blank in 1 rows, which are rejected; with cells: {")
    _, report, _ = converted(foreign(real, "pipe_in_name.txt"), tmp_path, "UTC")
    assert report.rejected == {"wrong_field_count": 1}


OWN = {
    "PBS with epochs": (
        "job_id|username|qtime|start|end|ngpus\n88.a|eva|1690000000|1690000060|1690003660|2\n"
        "89.a|tom|1690000100|1690000100|1690000160|1\n",
        [],
        [("88.a", 1690000000.0, 3600.0, 2.0), ("89.a", 1690000100.0, 60.0, 1.0)],
    ),
    "LSF with offsets": (
        "JOBID;STAT;SUBMIT_TIME;START_TIME;FINISH_TIME;NUM_GPUS\n"
        "1;DONE;1970/01/02 01:00:00 +0100;1970/01/02 01:10:00 +0100;1970/01/02 02:10:00 +0100;4\n"
        "2;EXIT;1970/01/02 01:05:00 +0100;1970/01/02 01:15:00 +0100;1970/01/02 01:45:00 +0100;8\n",
        [],
        [("1", 86400.0, 3600.0, 4.0), ("2", 86700.0, 1800.0, 8.0)],
    ),
    "Ray's jobs": (
        '{"submission_id":"r1","status":"SUCCEEDED","start_time":1700000000123,"end_time":1700000060123,'
        '"entrypoint_num_gpus":2}\n'
        '{"submission_id":"r2","status":"FAILED","start_time":1700000005123,"end_time":1700000015123,'
        '"entrypoint_num_gpus":0.5}\n',
        ["submit_s: the start is taken for the submission"],
        [("r1", 1700000000.123, 60.0, 2.0), ("r2", 1700000005.123, 10.0, 0.5)],
    ),
    "Alibaba 2020 in one table": (
        "job_name,inst_num,submitted_time,start_time,end_time,plan_gpu\n"
        "j1,1,0,60,3660,50\nj2,4,600,660,1260,100\n",
        [
            "submit_s: neither the name nor the values say the unit",
            "duration_s: neither the name nor the values say the unit",
            "wait_s: neither the name nor the values say the unit",
            "num_gpus: all are multiples of 25",
            "num_gpus: is plan_gpu of the job, or of a task? Taken as of a task",
        ],
        [("j1", 0.0, 3600.0, 0.5), ("j2", 600.0, 600.0, 4.0)],
    ),
    "a run time with the queue": (
        "id,created,started,ended,duration,gpus\n"
        "1,1700000000,1700000100,1700000400,400,1\n2,1700000500,1700000600,1700001600,1100,2\n",
        ["duration_s: duration equals end - submission: it contains the queue"],
        [("1", 1700000000.0, 300.0, 1.0), ("2", 1700000500.0, 1000.0, 2.0)],
    ),
    "months in words": (
        "run_id\tWho\tWhen submitted\tElapsed (hh:mm:ss)\t# GPUs\n"
        "e1\tZoë\t02 Jan 1970 00:00 UTC\t02:10:00\t8\ne2\tAnn\t02 Jan 1970 01:00 UTC\t00:45:30\t1\n",
        [],
        [("e1", 86400.0, 7800.0, 8.0), ("e2", 90000.0, 2730.0, 1.0)],
    ),
    "a table of a site": (
        '"Name","State","Created","Runtime","GPU Count"\n'
        '"w-1","finished","1970-01-02T00:00:00.500Z","3600","4"\n'
        '"c-2","crashed","1970-01-02T01:00:00Z","120","4"\n',
        ["duration_s: neither the name nor the values say the unit; taken as s"],
        [("w-1", 86400.5, 3600.0, 4.0), ("c-2", 90000.0, 120.0, 4.0)],
    ),
    "an export without starts": (
        "task_id,created_ts,finished_ts,gpu_hours,gpus\n"
        "a,1970-01-02 00:00:00 UTC,1970-01-02 02:00:00 UTC,2.0,1\n"
        "b,1970-01-02 00:30:00 UTC,1970-01-02 01:30:00 UTC,8.0,8\n",
        ["duration_s: no column has the start: contains the time in the queue"],
        [("a", 86400.0, 7200.0, 1.0), ("b", 88200.0, 3600.0, 8.0)],
    ),
    "microseconds": (
        "jid,arrival_us,service_us,gpu_fraction\n1,0,1500000,0.5\n2,250000,3000000,0.25\n",
        [],
        [("1", 0.0, 1.5, 0.5), ("2", 0.25, 3.0, 0.25)],
    ),
    "columns of blanks": (
        "% qacct\njob-ID  owner  submission_time      run_time_s  slots  gpus\n"
        "3001    max    1970-01-02T00:00:00Z 61          4      1\n"
        "3002    mia    1970-01-02T00:00:30Z 3600        8      2\n",
        [],
        [("3001", 86400.0, 61.0, 1.0), ("3002", 86430.0, 3600.0, 2.0)],
    ),
    "names that say little": (
        "nr;ts;len;dev\na;17.01.1970 00:00:00;00:10:00;2\nb;18.01.1970 00:00:00;00:20:00;4\n"
        "c;19.01.1970 00:00:00;00:20:00;4\n",
        [
            "submit_s: dates have no offset from UTC",
            "duration_s: column len is taken for duration_s by its values only",
            "num_gpus: column dev is taken for num_gpus by its values only",
        ],
        [("0", 1382400.0, 600.0, 2.0), ("1", 1468800.0, 1200.0, 4.0), ("2", 1555200.0, 1200.0, 4.0)],
    ),
    "Flux with a limit beside the run time": (
        '{"jobs":[{"id":"a","t_submit":1709287200.5,"duration":3600.0,"runtime":1800.0,"gpus":4},'
        '{"id":"b","t_submit":1709287300.5,"duration":600.0,"runtime":200.0,"gpus":1}]}\n',
        [
            "duration_s: neither the name nor the values say the unit; taken as s",
            "duration_s: or is it runtime, whose values differ?",
        ],
        [("a", 1709287200.5, 3600.0, 4.0), ("b", 1709287300.5, 600.0, 1.0)],
    ),
    "LSF with GPUs asked and given": (
        "JOBID STAT SUBMIT_TIME RUN_TIME_S GPUS GPUS_USED\n1 DONE 2024/03/01-10:00:00 60 4 4\n"
        "2 EXIT 2024/03/01-10:01:30 60 2 0\n3 PEND 2024/03/01-10:02:00 - 2 0\n",
        [
            "submit_s: dates have no offset from UTC",
            "num_gpus: or is it GPUS_USED, whose values differ?",
        ],
        # 2024-03-01 10:00 UTC is 1,709,287,200 s.
        [("1", 1709287200.0, 60.0, 4.0), ("2", 1709287290.0, 60.0, 2.0)],
    ),
    "a nested object": (
        '{"meta":{"n":2},"tags":[1,2],"results":[{"Id":"x1","Submit":{"Time":1700000000},"WallTimeMinutes":30,'
        '"Resources":{"GPUs":2}},{"Id":"x2","Submit":{"Time":1700000900},"WallTimeMinutes":5,"Resources":'
        '{"GPUs":1}}]}\n',
        [],
        [("x1", 1700000000.0, 1800.0, 2.0), ("x2", 1700000900.0, 300.0, 1.0)],
    ),
}


@pytest.mark.parametrize("name", quick_first(OWN, 3))
def test_tables_that_no_rule_was_written_for(tmp_path: Path, name: str) -> None:
    text, doubts, rows = OWN[name]
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    guess, _, frame = converted([path], tmp_path)
    found = guess.proposal.doubts(of_numbers=True)
    assert len(found) == len(doubts)
    assert all(each.startswith(doubt) for each, doubt in zip(found, doubts, strict=True))
    assert frame.select("job_id", "submit_s", "duration_s", "num_gpus").rows() == rows


def test_each_entry_has_its_evidence_and_what_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job,created,colour\na,2024-01-01T00:00:00Z,red\nb,2024-01-02T00:00:00Z,blue\n")
    guess = guessed([path], tmp_path)
    assert (guess.missing, guess.left) == (["duration_s", "num_gpus"], ["colour"])
    entries = [
        line for line in guess.proposal.text("").splitlines() if line.startswith("  ") and "DOUBT" not in line
    ]
    assert entries
    assert all("  # " in line for line in entries)


def test_models_of_gpus_ends_and_waits_are_ours(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "submit,minutes,waiting_min,hardware,GPUs,final\n1970-01-02T00:00:00Z,10,5,V100,1,COMPLETED\n"
        "1970-01-02T00:00:09Z,20,0,Tesla T4,2,FAILED\n1970-01-02T00:00:10Z,1,2,A100-SXM4-80GB,4,CANCELLED\n"
        "1970-01-02T00:00:12Z,2,2,,4,COMPLETED\n"
    )
    guess, _, frame = converted([path], tmp_path)
    assert frame.select("wait_s", "gpu_types").rows() == [
        (300.0, "V100"),
        (0.0, "Tesla T4"),
        (120.0, "A100-SXM4-80GB"),
        (120.0, None),
    ]
    assert frame["status"].to_list() == ["COMPLETED", "FAILED", "CANCELLED", "COMPLETED"]
    assert any(each.startswith("gpu_types: did the job ask") for each in guess.proposal.doubts())


def test_a_zero_among_epochs_is_no_date(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "id,submit,start,end,gpus\n1,1700000000,1700000001,1700000004,4\n2,1700000001,0,1700000009,4\n"
    )
    _, report, frame = converted([path], tmp_path)
    assert frame["duration_s"].to_list() == [3]
    assert report.rejected == {"missing_duration_s": 1}


def test_gpus_of_slurms_resources(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(
        "JobID|State|Submit|ElapsedRaw|ReqTRES\n1|COMPLETED|2024-01-01T00:00:00Z|60|cpu=1,gres/gpu=2\n"
        "1.batch|COMPLETED|2024-01-01T00:00:00Z|60|cpu=1,gres/gpu=2\n"
        "2|COMPLETED|2024-01-01T00:00:00Z|60|cpu=1\n"
    )
    guess, report, frame = converted([path], tmp_path)
    assert (guess.preset, guess.proposal.doubts(), report.left_out) == (None, [], {"step": 1})
    assert frame.select("job_id", "num_gpus").rows() == [("1", 2), ("2", 0)]


def test_day_and_month_are_doubted_where_no_row_decides_them(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit,run_s,gpus\n1,03/04/2023 10:00,1,1\n2,05/04/2023 10:00,1,1\n")
    (doubt,) = guessed([path], tmp_path, "UTC").proposal.doubts()
    assert doubt.startswith("submit_s: day and month may be exchanged")
    path.write_text("job_id,submit,run_s,gpus\n1,03/04/2023 10:00,1,1\n2,05/14/2023 10:00,1,1\n")
    guess, _, frame = converted([path], tmp_path, "UTC")
    assert guess.proposal.doubts() == []
    # 4 March 2023 10:00 UTC
    assert frame["submit_s"][0] == datetime(2023, 3, 4, 10, tzinfo=UTC).timestamp()


BEGIN = datetime(2023, 3, 1, tzinfo=UTC)

SUBMISSIONS: dict[str, Callable[[datetime], str]] = {
    "iso": lambda at: at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "local": lambda at: at.strftime("%Y-%m-%d %H:%M:%S"),
    "german": lambda at: at.strftime("%d.%m.%Y %H:%M:%S"),
    "american": lambda at: at.strftime("%m/%d/%Y %I:%M:%S %p"),
    "british": lambda at: at.strftime("%d/%m/%Y %H:%M:%S"),
    "words": lambda at: at.strftime("%b %d, %Y %H:%M:%S"),
    "s": lambda at: f"{at.timestamp():.0f}",
    "ms": lambda at: f"{at.timestamp() * 1000:.0f}",
    "us": lambda at: f"{at.timestamp() * 1_000_000:.0f}",
    "digits": lambda at: at.strftime("%Y%m%d%H%M%S"),
    "excel": lambda at: f"{25569 + at.timestamp() / 86400:.9f}",
}
UNITS_S = {"": 1, "_s": 1, "_ms": 0.001, "_min": 60, " (hours)": 3600, "Seconds": 1, " in": 60}
AMOUNTS = {"": 1.0, "_milli": 0.001, " (%)": 0.01, "Count": 1.0}


@st.composite
def drawn_tables(draw: st.DrawFn) -> tuple[str, pl.DataFrame]:
    """A table, and the values that it stands for."""
    count = draw(st.integers(2, 12))
    lists = st.lists
    at = draw(lists(st.integers(0, 60 * 86_400).map(lambda s: s // 60 * 60), min_size=count, max_size=count))
    run_s = draw(lists(st.integers(1, 200).map(lambda minutes: minutes * 36), min_size=count, max_size=count))
    gpus = draw(lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0, 8.0]), min_size=count, max_size=count))
    form = draw(st.sampled_from(sorted(SUBMISSIONS)))
    unit, amount = draw(st.sampled_from(sorted(UNITS_S))), draw(st.sampled_from(sorted(AMOUNTS)))
    run_name = draw(st.sampled_from(["duration", "runtime", "elapsed", "run_time", "Walltime"]))
    submit_name = draw(st.sampled_from(["submit_time", "Submitted", "created_at", "arrival", "timestamp"]))
    gpu_name = draw(st.sampled_from(["gpus", "num_gpus", "gpu", "GPU_request"]))
    separator = draw(st.sampled_from([",", ";", "\t", "|"]))
    clocks = draw(st.booleans())
    submitted = [BEGIN + timedelta(seconds=each) for each in at]
    quotes = '"' if separator == "," else ""
    lines = [separator.join(["job_id", submit_name, f"{run_name}{unit}", f"{gpu_name}{amount}"])]
    for index in range(count):
        run = f"{run_s[index] / UNITS_S[unit]:.10g}"
        if clocks and not unit:
            run = str(timedelta(seconds=run_s[index]))
        cells = [
            f"j{index}",
            f"{quotes}{SUBMISSIONS[form](submitted[index])}{quotes}",
            run,
            f"{gpus[index] / AMOUNTS[amount]:.10g}",
        ]
        lines.append(separator.join(cells))
    truth = pl.DataFrame(
        {
            "job_id": [f"j{index}" for index in range(count)],
            "submit_s": [each.timestamp() for each in submitted],
            "duration_s": [float(each) for each in run_s],
            "num_gpus": gpus,
        }
    )
    return "\n".join(lines) + "\n", truth


@st.composite
def drawn_lifecycles(draw: st.DrawFn) -> tuple[str, pl.DataFrame]:
    """A table with submission, start and end, and maybe a run time, also with the queue."""
    count = draw(st.integers(2, 12))
    whole = st.lists(st.integers(0, 90_000), min_size=count, max_size=count)
    at, waits, runs = draw(whole), draw(whole), draw(whole)
    step = draw(st.sampled_from([1, 60, 3600]))
    times = [(a, a + w * step, a + (w + r) * step) for a, w, r in zip(at, waits, runs, strict=True)]
    form = draw(st.sampled_from(["iso", "s", "ms", "us", "american"]))
    written = [[SUBMISSIONS[form](BEGIN + timedelta(seconds=each)) for each in row] for row in times]
    factor = draw(st.sampled_from([1, 60, 3600, 0.001]))
    length = draw(st.sampled_from(["none", "run", "queue", "other"]))
    lengths = {
        "run": [end - start for _, start, end in times],
        "queue": [end - submit for submit, _, end in times],
        "other": [start - submit for submit, start, _ in times],
    }.get(length)
    names = draw(st.permutations(["id", "created", "began", "finished", "gpus"]))
    columns = {
        "id": [f"j{index}" for index in range(count)],
        "created": [row[0] for row in written],
        "began": [row[1] for row in written],
        "finished": [row[2] for row in written],
        "gpus": ["2"] * count,
    }
    if lengths is not None:
        names = [*names, "elapsed"]
        columns["elapsed"] = [f"{each / factor:.10g}" for each in lengths]
    truth = pl.DataFrame(
        {
            "job_id": columns["id"],
            "submit_s": [BEGIN.timestamp() + a for a, _, _ in times],
            "duration_s": [float(end - start) for _, start, end in times],
            "num_gpus": [2.0] * count,
        }
    )
    lines = [
        ";".join(names),
        *(";".join(row) for row in zip(*(columns[name] for name in names), strict=True)),
    ]
    return "\n".join(lines) + "\n", truth


@pytest.mark.slow
@settings(deadline=None, max_examples=instances(80))
@given(drawn_tables() | drawn_lifecycles())
def test_what_is_guessed_without_a_doubt_is_what_the_table_means(drawn: tuple[str, pl.DataFrame]) -> None:
    text, truth = drawn
    with TemporaryDirectory() as name:
        path = Path(name) / "jobs.csv"
        path.write_text(text)
        guess, report, frame = converted([path], Path(name), "UTC")
    assert report.kept == truth.height
    both = truth.join(frame, on="job_id", suffix=" found")
    assert both.height == truth.height
    doubts = guess.proposal.doubts()
    for column in ("submit_s", "duration_s", "num_gpus"):
        if not any(doubt.startswith(f"{column}:") for doubt in doubts):
            assert ((both[column] - both[f"{column} found"]).abs() <= 1e-3).all(), (column, text)
