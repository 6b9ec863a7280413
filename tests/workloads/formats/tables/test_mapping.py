from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError
from tests.proofs import quick_first
from tests.workloads.conversions import Trace, converted
from workloads.convert import convert
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions

MAP = Path(__file__).parents[4] / "workloads" / "samples" / "pcs_philly_map.yaml"

WORK = """
derived:
  duration_s:
    column: work
    divided_by:
      by: [model, num_gpus]
      table:
        resnet: {1: 1, 2: 1.6, 4: 2.5}
        vgg: {1: 2}
"""
HEADER = "submit_s,num_gpus,work,model\n"


def test_a_column_divided_by_what_two_others_look_up(trace: Trace) -> None:
    # 8 / 1 = 8; 8 / 1.6 = 5; 8 / 2.5 = 3.2; 8 / 2 = 4.
    report, frame = converted(trace(HEADER + "0,1,8,resnet\n1,2,8,resnet\n2,4,8, resnet \n3,1,8,vgg\n"), WORK)
    assert frame["duration_s"].to_list() == [8, 5, 3.2, 4]
    assert report.warnings == ()


@pytest.mark.parametrize(("operation", "expected"), [("times", 30.0), ("plus", 13.0), ("divided_by", 10 / 3)])
def test_the_three_operations(trace: Trace, operation: str, expected: float) -> None:
    mapping = f"derived: {{duration_s: {{column: run, {operation}: {{by: kind, table: {{a: 3}}}}}}}}"
    _, frame = converted(trace("submit_s,num_gpus,run,kind\n0,1,10,a\n"), mapping)
    assert frame["duration_s"].to_list() == [expected]


def test_a_unit_is_that_of_the_column_before_the_lookup(trace: Trace) -> None:
    # 2 min = 120 s; 120 s + 3 s.
    mapping = (
        "derived: {duration_s: {column: run, plus: {by: kind, table: {a: 3}}}}\nunits: {duration_s: min}"
    )
    _, frame = converted(trace("submit_s,num_gpus,run,kind\n0,1,2,a\n"), mapping)
    assert frame["duration_s"].to_list() == [123]


def test_a_row_without_an_entry_or_a_number_is_counted(trace: Trace) -> None:
    rows = "0,1,8,resnet\n1,8,8,resnet\n2,1,8,alexnet\n3,1,8,\n4,1,x,vgg\n5,1,-8,vgg\n6,1,,vgg\n"
    report, frame = converted(trace(HEADER + rows), WORK)
    assert frame["duration_s"].to_list() == [8]
    assert report.rejected == {
        "invalid_duration_s": 1,
        "missing_duration_s": 1,
        "negative_duration_s": 1,
        "no_entry_duration_s": 3,
    }


def test_a_part_of_the_files_name_is_a_column(tmp_path: Path) -> None:
    paths = [tmp_path / f"trace_{vc}.csv" for vc in ("a", "b")]
    for later_s, path in enumerate(paths):
        path.write_text(f"start,duration_s,num_gpus\n0,1,1\n{5 + later_s},1,1\n")
    mapping = "file_name: {vc: trace_*.csv}\n"
    mapping += "derived: {submit_s: {column: start, plus: {by: vc, table: {a: 100, b: 102}}}}\n"
    _, frame = converted(paths, mapping)
    assert frame.select("vc", "submit_s").rows() == [("a", 100), ("b", 102), ("a", 105), ("b", 108)]


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        (
            "derived: {user: {column: work, times: {by: model, table: {a: 1}}}}",
            "derived.user: only columns of",
        ),
        (
            "derived: {duration_s: {column: work}}",
            "derived.duration_s: give an expression, or a column and one of times, divided_by and plus",
        ),
        (
            "derived: {duration_s: {column: w, times: {by: model, table: {a: 1}}}}",
            "derived.duration_s.column: trace.csv has no column 'w'; found: submit_s, num_gpus, work, model",
        ),
        (
            "derived: {duration_s: {column: work, times: {by: kind, table: {a: 1}}}}",
            "derived.duration_s.times.by: trace.csv has no column 'kind'",
        ),
        (
            "derived: {duration_s: {column: work, divided_by: {by: model, table: {a: 0}}}}",
            "derived.duration_s.divided_by.table.a: must be a number other than 0, is 0",
        ),
        (
            "derived: {duration_s: {column: work, times: {by: model, table: {a: {b: 1}}}}}",
            "derived.duration_s.times.table.a.b: must be 1 levels deep, like `by`, is 2",
        ),
        (
            "derived: {duration_s: {column: work, times: {by: model, table: {a: __import__('os')}}}}",
            "derived.duration_s.times.table.a: must be a number, is \"__import__('os')\"",
        ),
        (
            "derived: {duration_s: {column: work, times: {by: model, table: {a: .inf}}}}",
            "derived.duration_s.times.table.a: must be a number, is inf",
        ),
        ("derived: {duration_s: {column: work, times: {by: [], table: {}}}}", "derived.duration_s.times.by"),
        (f"{WORK}constants: {{duration_s: 1}}", "derived.duration_s: also a column or a constant"),
        ("file_name: {vc: trace.csv}", "file_name.vc: must have one star for the part that is wanted"),
        ("file_name: {vc: jobs_*.csv}", "file_name.vc: trace.csv is not of the form 'jobs_*.csv'"),
        ("file_name: {model: '*.csv'}", "file_name.model: trace.csv has a column of that name"),
    ],
)
def test_every_mistake_is_told_with_its_path(trace: Trace, mapping: str, told: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        converted(trace(HEADER + "0,1,8,resnet\n"), mapping)
    assert any(told in line for line in str(error.value).splitlines())


@pytest.mark.slow
def test_the_jobs_of_the_pcs_simulator_get_their_run_times_back(
    real: Callable[[str], Path], tmp_path: Path
) -> None:
    sources = sorted(real("data/philly/pcs_vc_traces").glob("*.csv.gz"))
    report = convert("csv", sources, tmp_path / "w.parquet", options=ConvertOptions(mapping=MAP))
    # Eight jobs have a model on a number of GPUs for which no other trace tells the speed-up.
    assert (report.read, report.kept, report.rejected) == (109_532, 109_524, {"no_entry_duration_s": 8})
    frame = read_frame(report.out)
    assert frame["vc"].n_unique() == 12
    # The log has whole seconds, so a right speed-up gives whole seconds again: up to 5 million of them.
    off_s = (frame["duration_s"] - frame["duration_s"].round()).abs()
    assert float(off_s.to_numpy().max()) < 1e-5
    single = frame.filter(pl.col("num_gpus") == 1)["duration_s"].round()
    assert single.len() == 95_462
    assert [single.quantile(at, "nearest") for at in (0.1, 0.25, 0.5, 0.75, 0.9)] == [
        57, 103, 1_131, 3_466, 12_490,
    ]  # fmt: skip


@pytest.mark.slow
def test_jobs_of_both_published_forms_start_at_the_same_instant(
    real: Callable[[str], Path], tmp_path: Path
) -> None:
    # The CSV of Sia has local times, these files seconds from each VC's first job; most jobs are in both.
    sources = sorted(real("data/philly/pcs_vc_traces").glob("*.csv.gz"))
    convert("csv", sources, tmp_path / "pcs.parquet", options=ConvertOptions(mapping=MAP))
    report = convert("philly-csv", [real("data/philly/sia_philly.csv.gz")], tmp_path / "sia.parquet")
    keys = ["vc", "submit_s", "num_gpus", "duration_s"]
    pcs, sia = (
        read_frame(tmp_path / name).with_columns(pl.col("submit_s", "duration_s").round()).select(keys)
        for name in ("pcs.parquet", "sia.parquet")
    )
    zero_s = 1_504_546_241  # report.notes["epoch_utc"], 2017-09-04T17:30:41
    assert report.notes["epoch_utc"] == "2017-09-04T17:30:41+00:00"
    both = sia.with_columns(pl.col("submit_s") + zero_s).join(pcs, on=keys, how="semi")
    assert both.height > 0.9 * sia.height


def test_a_column_that_files_may_lack_is_blank_there(tmp_path: Path) -> None:
    mapping = (
        "columns: {num_gpus: gpus}\nderived: {wait_s: 'first(start - submit_s, 0)'}\n"
        "blank_if_missing: [gpus, start]\ncells: {gpus: {default: 0}}\n"
    )
    (tmp_path / "old.csv").write_text("job_id,submit_s,duration_s\na,1,5\n")
    (tmp_path / "new.csv").write_text("job_id,submit_s,duration_s,gpus,start\nb,2,5,4,9\nc,3,5,,\n")
    _, frame = converted([tmp_path / "old.csv", tmp_path / "new.csv"], mapping)
    assert frame.select("job_id", "num_gpus", "wait_s").rows() == [("a", 0, 0), ("b", 4, 7), ("c", 0, 0)]


def test_a_row_without_a_required_column_is_rejected(trace: Trace) -> None:
    rows = "submit_s,duration_s,num_gpus,num_tasks,cpu_per_task\n0,1,1,2,4\n1,1,1,,4\n2,1,1,2,\n"
    report, _ = converted(trace(rows), "required: [num_tasks]")
    assert (report.kept, report.rejected) == (2, {"missing_num_tasks": 1})
    with pytest.raises(InvalidInputError, match=r"required.nodes: unknown column of a workload 'nodes'"):
        converted(trace(rows), "required: [nodes]")


def test_a_second_table_is_joined_by_the_key_on_without_quotes(tmp_path: Path) -> None:
    # YAML 1.1 reads on as a truth value.
    (tmp_path / "jobs.csv").write_text("job_id,duration_s,num_gpus\na,5,1\nb,6,1\n")
    (tmp_path / "times.csv").write_text("name,begin\nb,20\na,10\n")
    mapping = "join: {file: times.csv, name: time, on: {job_id: name}}\ncolumns: {submit_s: time.begin}\n"
    _, frame = converted([tmp_path / "jobs.csv", tmp_path / "times.csv"], mapping)
    assert frame.select("job_id", "submit_s").rows() == [("a", 10), ("b", 20)]


@pytest.mark.parametrize(
    ("form", "size", "gib"),
    quick_first(
        [
            ("binary_quantity", "512mb", 0.5),
            ("binary_quantity", "2GB", 2),
            ("binary_quantity", "2Gi", 2),
            ("binary_quantity", "1048576kb", 1),
            ("binary_quantity", "4000Mn", 4000 / 1024),
            ("quantity", "1073741824000m", 1),
            ("quantity", "1G", 10**9 / 2**30),
        ],
        2,
    ),
)
def test_sizes_of_schedulers_are_binary_and_those_of_kubernetes_as_written(
    form: str, size: str, gib: float, trace: Trace
) -> None:
    mapping = (
        "columns: {memory_gib_per_task: mem}\nunits: {memory_gib_per_task: b}\n"
        f"cells: {{mem: {{as: {form}}}}}\n"
    )
    _, frame = converted(trace(f"submit_s,duration_s,num_gpus,mem\n0,1,1,{size}\n"), mapping)
    assert frame["memory_gib_per_task"].to_list() == [pytest.approx(gib, rel=1e-15)]


def test_the_largest_of_unknown_numbers_is_unknown(trace: Trace) -> None:
    mapping = "derived: {cpu_per_task: 'max(first(a, b), c)'}"
    _, frame = converted(trace("submit_s,duration_s,num_gpus,a,b,c\n0,1,1,,,\n1,1,1,,2,1\n"), mapping)
    assert frame["cpu_per_task"].to_list() == [None, 2]


def test_an_object_with_its_records_in_one_line_is_read(trace: Trace) -> None:
    file = trace('{"items": [{"submit_s": 0, "duration_s": 1, "num_gpus": 1}]}\n', "jobs.json")
    assert converted(file, "read: {records: items}")[0].kept == 1
