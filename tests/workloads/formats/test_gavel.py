"""Gavel's traces: both forms, run times on V100, deadlines, and what is rejected."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError
from tests.workloads.formats.gavel_writer import gavel_text, sample_frame, sample_text
from workloads.convert import ConversionReport, convert
from workloads.store import read_frame, read_provenance
from workloads.trace_format import ConvertOptions

SAMPLE = Path(__file__).parents[3] / "workloads" / "samples" / "gavel_sample.trace"
"""The sample that comes with the project, written by `sample_text`."""

SPEEDS = """model,batch,gpus,gpu_type,consolidated,steps_per_s
net,64,2,V100,1,8
net,64,2,V100,0,1
net,64,2,K80,1,2
net,64,4,V100,1,0
walk,,1,V100,1,0.5
"""


def line(
    job_type: str = "net (batch size 64)",
    steps: object = 960,
    gpus: object = 2,
    weight: object = 1,
    slo: object = "-1.000000",
    submit_s: object = 0,
) -> str:
    """A line of 10 fields."""
    fields = (job_type, "run --n %s", "nets", "--steps", 0, steps, gpus, weight, slo, submit_s)
    return "\t".join(map(str, fields)) + "\n"


def old_line(job_type: str, steps: int, submit_s: float, gpus: int) -> str:
    """A line of 7 fields."""
    return "\t".join(map(str, (job_type, "cd x && run", "-n", 1, steps, submit_s, gpus))) + "\n"


@pytest.fixture
def converted(tmp_path: Path) -> Callable[..., tuple[ConversionReport, pl.DataFrame]]:
    """Convert the text of a trace by speeds of two models."""
    (tmp_path / "speeds.csv").write_text(SPEEDS)

    def converted(*texts: bytes | str) -> tuple[ConversionReport, pl.DataFrame]:
        files = [tmp_path / f"{i}.trace" for i in range(len(texts))]
        for file, text in zip(files, texts, strict=True):
            file.write_bytes(text.encode() if isinstance(text, str) else text)
        options = ConvertOptions(speeds=str(tmp_path / "speeds.csv"))
        report = convert("gavel", files, tmp_path / "w.parquet", options=options)
        return report, read_frame(tmp_path / "w.parquet").sort("trace_order")

    return converted


Converted = Callable[..., tuple[ConversionReport, pl.DataFrame]]


def test_a_job_runs_for_its_steps_over_the_speed_on_one_server_of_v100(converted: Converted) -> None:
    _, jobs = converted(line(submit_s=7.5, weight=5) + line("walk", steps=3, gpus=1))
    columns = ("job_id", "submit_s", "num_gpus", "model", "batch", "steps", "weight", "duration_s")
    assert jobs.select(columns).rows() == [
        ("0", 7.5, 2.0, "net", 64, 960, 5.0, 960 / 8),
        ("1", 0.0, 1.0, "walk", None, 3, 1.0, 3 / 0.5),
    ]
    assert jobs["user"].to_list() == jobs["utility_due_s"].to_list() == [None, None]


def test_a_deadline_is_a_multiple_of_the_run_time_and_negative_for_none(converted: Converted) -> None:
    _, jobs = converted(line(slo=1.5) + line(slo=-1) + line(slo=0))
    assert jobs["utility_due_s"].to_list() == [1.5 * 120, None, 0]


def test_the_older_form_has_no_weights_and_deadlines_and_other_places(converted: Converted) -> None:
    text = old_line("net (batch size 64)", 80, 3.25, 2) + old_line("walk", 1, 9, 1)
    report, jobs = converted(gzip.compress(text.encode()), line(submit_s=1))
    columns = ("job_id", "submit_s", "num_gpus", "steps", "weight", "duration_s")
    assert jobs.select(columns).rows() == [
        ("0", 3.25, 2.0, 80, None, 10.0),
        ("1", 9.0, 1.0, 1, None, 2.0),
        ("2", 1.0, 2.0, 960, 1.0, 120.0),
    ]
    assert report.rejected == {}


def test_what_cannot_be_read_or_was_not_measured_is_counted_with_its_reason(converted: Converted) -> None:
    lines = [line(job_type) for job_type in ("", "net (batch size 32)", "net", "unknown")]
    lines += [line(gpus=1), line(gpus=4)]  # 4 GPUs have a speed of 0
    lines += [line(steps=value) for value in ("", 0, 1.5, "nan", 2**60)]
    lines += [line(gpus=0), line(weight=0), line(weight="x"), line(slo="inf"), line(submit_s=-1)]
    lines += ["\n", line()[:-3] + "\n", line(slo=2**20, steps=2**40)]
    report, jobs = converted("".join([line(), *lines]))
    assert report.rejected == {
        "no_entry_duration_s": 5,
        "missing_model": 1,
        "missing_steps": 1,
        "too_small_steps": 1,
        "invalid_steps": 2,
        "absurd_steps": 1,
        "too_small_num_gpus": 1,
        "too_small_weight": 1,
        "invalid_weight": 1,
        "invalid_slo": 1,
        "negative_submit_s": 1,
        "empty_row": 1,
        "wrong_field_count": 1,
        "absurd_duration_s": 1,
    }
    assert (report.read, jobs.height) == (1 + len(lines), 1)


def test_the_speeds_are_in_the_provenance_by_content(converted: Converted, tmp_path: Path) -> None:
    converted(line())
    made = read_provenance(tmp_path / "w.parquet")
    assert made is not None
    assert made.options["speeds"] == "speeds.csv"
    assert len(str(made.options["speeds_sha256"])) == 64


def test_run_times_are_by_gavels_simulation_unless_other_speeds_are_named(tmp_path: Path) -> None:
    # Recommendation is about ten times as fast on V100 in the physical cluster: 253.6 against 23.3 steps/s.
    (tmp_path / "t.trace").write_text(line("Recommendation (batch size 512)", steps=25_360, gpus=1))
    for speeds, expected in ((None, 25_360 / 23.3), ("gavel_physical", 100)):
        convert(
            "gavel", [tmp_path / "t.trace"], tmp_path / "w.parquet", options=ConvertOptions(speeds=speeds)
        )
        assert read_frame(tmp_path / "w.parquet")["duration_s"][0] == pytest.approx(expected, rel=2e-3)


def test_a_table_without_v100_gives_no_run_times(tmp_path: Path) -> None:
    (tmp_path / "t.trace").write_text(line())
    (tmp_path / "s.csv").write_text(SPEEDS.replace("V100", "H100"))
    with pytest.raises(InvalidInputError, match=r"s\.csv: has no speed on one server of V100"):
        convert(
            "gavel",
            [tmp_path / "t.trace"],
            tmp_path / "w.parquet",
            options=ConvertOptions(speeds=str(tmp_path / "s.csv")),
        )


@pytest.mark.parametrize("old", [False, True])
def test_what_is_written_as_a_trace_converts_back(old: bool, tmp_path: Path) -> None:
    frame = sample_frame(200, seed=8)
    (tmp_path / "t.trace").write_text(gavel_text(frame, old=old))
    convert("gavel", [tmp_path / "t.trace"], tmp_path / "w.parquet")
    back = read_frame(tmp_path / "w.parquet").sort("trace_order")
    columns = ["submit_s", "num_gpus", "model", "batch", "steps", *([] if old else ["weight"])]
    assert back.select(columns).equals(frame.select(columns))
    # Steps are whole: the run time is off by half a step, which takes at most 3 s.
    np.testing.assert_allclose(back["duration_s"], frame["duration_s"], atol=3)
    due = back["utility_due_s"] / back["duration_s"]
    wanted = frame["utility_due_s"] / frame["duration_s"] if not old else pl.repeat(None, 200, eager=True)
    assert due.round(6).equals(wanted.cast(pl.Float64).round(6), check_names=False)


def test_the_bundled_sample_is_what_the_writer_writes(tmp_path: Path) -> None:
    assert SAMPLE.read_text() == sample_text()
    report = convert("gavel", [SAMPLE], tmp_path / "w.parquet")
    assert (report.kept, report.rejected) == (60, {"no_entry_duration_s": 1})


@pytest.mark.parametrize(
    ("name", "jobs", "hours"),
    [
        ("minimize_makespan", 100, (1.0, 5.0)),
        ("max_min_fairness", 96, (0.1, 4.9)),
        ("artifact_evaluation", 15, (0.04, 1.2)),
        ("msr_seed0_ed69ec", 951, (0.0, 1301)),
    ],
)
def test_published_traces_are_read_whole(
    name: str, jobs: int, hours: tuple[float, float], shared_data: Path, tmp_path: Path
) -> None:
    report = convert("gavel", [shared_data / "data" / "gavel" / f"{name}.trace.gz"], tmp_path / "w.parquet")
    assert (report.read, report.kept) == (jobs, jobs)
    found = read_frame(tmp_path / "w.parquet")["duration_s"] / 3600
    assert (found.min(), found.max()) == pytest.approx(hours, abs=0.06, rel=1e-3)
