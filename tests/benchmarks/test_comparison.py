"""Reports of benchmarks: their files, and what a comparison says."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.comparison import change, compare
from benchmarks.measurement import Findings, Measurement
from benchmarks.report import BenchReport, Machine, read_report, write_report
from ray_sim.model.errors import InvalidInputError

MACHINE = Machine(processor="Abacus 3", cores=2, memory_gib=8.0, system="Linux x86_64")
SPEED = Measurement("fifo", "jobs_per_cpu_s", 1000.0, "jobs/s", "larger", budget=800.0)
TIME = Measurement("fifo", "cpu_s", 2.0, "s", "smaller")


def _report(*rows: Measurement, name: str = "replay", source: str = "a week") -> BenchReport:
    return BenchReport(MACHINE, {"numpy": "2.4"}, {name: Findings(source, rows)})


@pytest.mark.parametrize(
    ("better", "value", "budget", "result"),
    [
        ("larger", 800.0, 800.0, "passed"),
        ("larger", 799.0, 800.0, "FAILED"),
        ("smaller", 2.0, 2.0, "passed"),
        ("smaller", 2.1, 2.0, "FAILED"),
        ("smaller", 2.1, None, "no budget"),
    ],
)
def test_a_budget_is_the_least_of_a_speed_and_the_most_of_a_time(
    better: str, value: float, budget: float | None, result: str
) -> None:
    assert Measurement("case", "metric", value, "", better, budget).result == result  # type: ignore[arg-type]  # parametrised


@pytest.mark.parametrize(
    ("row", "previous", "verdict"),
    [
        (SPEED, 1250.0, "same"),  # 1250 / 1000 = 1.25, within the tolerance
        (SPEED, 1251.0, "worse"),
        (SPEED, 800.0, "same"),  # 1000 / 800 = 1.25
        (SPEED, 799.0, "better"),
        (TIME, 1.6, "same"),  # 2 / 1.6 = 1.25
        (TIME, 1.5, "worse"),
        (TIME, 2.6, "better"),
        (replace(TIME, tolerance=0.5), 1.5, "same"),  # 2 / 1.5 = 1.33
        (replace(TIME, tolerance=0.0), 1.99, "worse"),
        (replace(TIME, better="neither"), 0.1, "not judged"),
    ],
)
def test_a_figure_is_worse_when_it_is_so_by_a_factor_above_its_tolerance(
    row: Measurement, previous: float, verdict: str
) -> None:
    found = change(row, previous)
    assert (found.verdict, found.ratio) == (verdict, row.value / previous)


def test_the_first_lost_run_is_worse_than_none() -> None:
    lost = Measurement("kill-1", "lost_results", 1, "", "smaller", budget=0, tolerance=0)
    found = change(lost, 0)
    assert (found.verdict, found.ratio) == ("worse", None)
    assert change(replace(lost, value=0), 0).verdict == "same"


def test_a_report_against_itself_has_nothing_worse_and_nothing_left_out() -> None:
    report = _report(SPEED, TIME)
    found = compare(report, report, "before.json")
    assert (found.machine, found.versions, found.left_out, found.worse) == ((), (), (), ())
    assert {key: each.ratio for key, each in found.changes["replay"].items()} == {SPEED.key: 1, TIME.key: 1}


def test_what_is_in_one_report_only_is_named() -> None:
    now = _report(SPEED, TIME)
    before = _report(SPEED, Measurement("sjf", "cpu_s", 1.0, "s", "smaller"))
    assert compare(now, before, "b.json").left_out == (
        "replay.fifo.cpu_s: not in b.json",
        "replay.sjf.cpu_s: only in b.json",
    )
    assert compare(now, _report(name="growth"), "b.json").left_out == (
        "replay: not in b.json",
        "growth: in b.json, not run now",
    )


def test_figures_of_another_input_or_unit_or_of_none_are_not_compared() -> None:
    now = _report(SPEED)
    found = compare(now, _report(SPEED, source="another week"), "b.json")
    assert found.changes["replay"] == {}
    assert found.left_out == ("replay: measured on 'another week' then, on 'a week' now",)
    other_unit = _report(replace(SPEED, unit="jobs/min"))
    assert compare(now, other_unit, "b.json").left_out == (
        "replay.fifo.jobs_per_cpu_s: in jobs/min then, in jobs/s now",
    )
    skipped = BenchReport(MACHINE, {}, {"replay": Findings("", skipped="no trace")})
    assert compare(now, skipped, "b.json").left_out == ("replay: without figures in b.json: no trace",)


def test_another_machine_and_other_versions_are_named() -> None:
    now = _report(SPEED)
    before = replace(now, machine=replace(MACHINE, cores=4), versions={"numpy": "2.3", "ray": "2.6"})
    found = compare(now, before, "b.json")
    assert found.machine == ("cores: 4 then, 2 now",)
    assert found.versions == ("numpy: 2.3 then, 2.4 now", "ray: 2.6 then, none now")


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    report = _report(SPEED, TIME)
    write_report(report, tmp_path / "r.json")
    assert read_report(tmp_path / "r.json") == report
    again = tmp_path / "again.json"
    write_report(read_report(tmp_path / "r.json"), again)
    assert again.read_bytes() == (tmp_path / "r.json").read_bytes()


def test_this_machine_has_a_name_cores_and_memory() -> None:
    here = Machine.here()
    assert here.processor
    assert here.cores >= 1
    assert here.memory_gib > 0


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "EOF"),
        ("{", "EOF"),
        ("[]", "file: Input should be"),
        ('{"mean": 3}', "machine: Field required"),
        ('{"format": 2}', "format: Input should be 1"),
    ],
)
def test_a_file_that_is_no_report_is_refused_with_all_its_problems(
    tmp_path: Path, text: str, part: str
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(InvalidInputError) as caught:
        read_report(path)
    assert str(path) in str(caught.value)
    assert part in str(caught.value)
    assert "expected what `ray-sim bench -o FILE` writes" in str(caught.value)


def test_a_damaged_figure_is_named(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    content = _report(SPEED, TIME).to_dict()
    rows = content["benchmarks"]["replay"]["rows"]
    rows[1]["value"] = "fast"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInputError, match=r"benchmarks\.replay\.rows\.1\.value: .*valid number"):
        read_report(path)
    rows[1] = {**rows[0]}
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInputError, match=r"figures that are there twice: fifo\.jobs_per_cpu_s"):
        read_report(path)
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        read_report(tmp_path / "none.json")
