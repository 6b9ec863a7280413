from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from tests.proofs import quick_first
from tests.workloads.conversions import Trace, converted
from workloads.convert import convert
from workloads.formats.tables.mapping import ColumnMapping
from workloads.formats.text import TableSource, named_twice
from workloads.store import read_provenance
from workloads.trace_format import ConvertOptions

TABLE = "submit_s,duration_s,num_gpus\n10,1,1\n5,2,0.5\n"


def problems(trace: Trace, mapping: str, table: str = TABLE) -> list[str]:
    with pytest.raises(InvalidInputError) as error:
        converted(trace(table), mapping)
    return str(error.value).splitlines()


def test_a_count_may_have_a_suffix(trace: Trace) -> None:
    mapping = "columns: {num_tasks: n}\ncells: {n: {as: quantity}}\n"
    _, frame = converted(trace("submit_s,duration_s,num_gpus,n\n0,1,1,2k\n"), mapping)
    assert frame["num_tasks"].to_list() == [2000]


def test_columns_of_the_schemas_names_need_no_map_and_the_rest_is_named(trace: Trace) -> None:
    text = "job_id,gpu_model,submit_s,user,duration_s,num_gpus,priority,memory_gib_per_task,colour\n"
    report, frame = converted(trace(text + "7,V100,3.5,ann,2,0.25,-3,1.5,red\n,,,,,,,,\n"))
    assert report.warnings == ("ignored columns: gpu_model, colour",)
    assert report.notes["ignored_columns"] == ["gpu_model", "colour"]
    row = frame.row(0, named=True)
    assert (row["job_id"], row["submit_s"], row["user"], row["num_gpus"]) == ("7", 3.5, "ann", 0.25)
    assert (row["priority"], row["memory_gib_per_task"], row["vc"], row["attempts"]) == (-3, 1.5, None, None)


@pytest.mark.slow
def test_the_work_on_a_header_grows_with_its_columns(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = 10**5
    visits = 0

    class Header(ColumnMapping):
        """A mapping that counts the columns that it goes through."""

        def names(self, source: TableSource) -> dict[str, str]:
            nonlocal visits
            visits += len(source.header)
            return super().names(source)

    monkeypatch.setattr("workloads.formats.tables.table.ColumnMapping", Header)
    names = ",".join(f"c{column}" for column in range(columns))
    text = f"submit_s,duration_s,num_gpus,{names}\n0,1,1{',' * columns}\n"
    report, _ = converted(trace(text))
    assert (report.kept, len(report.warnings[0].split(", "))) == (1, columns)
    assert visits < 10 * (columns + 3)


def test_lines_that_end_with_cr_alone_are_named(trace: Trace) -> None:
    with pytest.raises(InvalidWorkloadError, match="its lines end with CR alone; save it with line ends LF"):
        converted(trace(TABLE.replace("\n", "\r")))
    assert converted(trace(TABLE.replace("\n", "\r\n")))[0].kept == 2


@pytest.mark.slow
def test_repeated_names_are_found_in_one_pass() -> None:
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    header = [Name(f"c{column}") for column in range(10**5)]
    assert named_twice([*header, Name("c7"), Name("c5")]) == ["c5", "c7"]
    assert compared < 10 * len(header)


def test_a_table_may_say_how_its_jobs_train_in_chunks(trace: Trace) -> None:
    header = "submit_s,duration_s,num_gpus,chunks,epochs,minibatches_per_chunk,minibatch_s,gradient_mb,bw\n"
    mapping = "columns: {bandwidth_mbps: bw}\nunits: {bandwidth_mbps: gbps, gradient_mb: gb}\n"
    rows = "0,1,1,4,20,58,0.5,0.3,2.5\n1,1,1,,,,,,\n2,1,1,0,20,58,0.5,0.3,2.5\n"
    report, frame = converted(trace(header + rows), mapping)
    row = frame.row(0, named=True)
    assert (row["chunks"], row["epochs"], row["minibatches_per_chunk"]) == (4, 20, 58)
    assert row["minibatch_s"] == 0.5
    assert (row["gradient_mb"], row["bandwidth_mbps"], row["upload_edge_s"]) == (300.0, 2500.0, None)
    assert (frame["chunks"].to_list(), report.rejected) == ([4, None], {"too_small_chunks": 1})


def test_a_negative_upload_delay_is_rejected_by_name(trace: Trace) -> None:
    header = "submit_s,duration_s,num_gpus,upload_edge_s,upload_cloud_s\n"
    report, frame = converted(trace(header + "0,1,1,60,600\n1,1,1,-60,600\n2,1,1,60,-1\n"))
    assert report.rejected == {"negative_upload_edge_s": 1, "negative_upload_cloud_s": 1}
    assert frame["upload_edge_s"].to_list() == [60.0]


def test_a_table_may_say_of_which_blocks_models_are(trace: Trace) -> None:
    rows = "submit_s,duration_s,num_gpus,blocks\n0,1,1,9408 2*64\n1,1,1,\n2,1,1,64;64\n3,1,1,0\n4,1,1,7\n"
    report, frame = converted(trace(rows))
    assert frame["blocks"].to_list() == ["9408 2*64", None, "7"]
    assert report.rejected == {"invalid_blocks": 2}
    told = problems(trace, 'constants: {blocks: "64,64"}\n')
    assert "constants.blocks: must be whole numbers such as 9408 2*64 3*(4096 64), with spaces" in told[1]


def test_jobs_without_name_and_order_are_numbered_by_row(trace: Trace) -> None:
    _, frame = converted(trace(TABLE))
    assert frame.select("job_id", "trace_order", "submit_s").rows() == [("1", 1, 5.0), ("0", 0, 10.0)]


def test_submission_is_shifted_only_on_request(trace: Trace) -> None:
    assert converted(trace(TABLE))[1]["submit_s"].to_list() == [5.0, 10.0]
    report, frame = converted(trace(TABLE), rebase=True)
    assert frame["submit_s"].to_list() == [0.0, 5.0]
    assert report.notes["rebased_by_s"] == 5.0


def test_times_before_the_traces_zero_need_rebasing(trace: Trace) -> None:
    table = TABLE + "-7,1,1\n"
    assert converted(trace(table))[0].rejected == {"negative_submit_s": 1}
    assert converted(trace(table), rebase=True)[1]["submit_s"].to_list() == [0.0, 12.0, 17.0]


def test_a_mapping_renames_fills_and_scales(trace: Trace) -> None:
    mapping = """
columns: {job_id: name, submit_s: created, duration_s: run, memory_gib_per_task: mem}
constants: {num_gpus: 2, vc: "7", priority: 1}
units: {submit_s: ms, duration_s: min, memory_gib_per_task: mib}
"""
    report, frame = converted(trace("name,created,run,mem,num_gpus\nx,1500,0.5,512,9\n"), mapping)
    row = frame.row(0, named=True)
    # 1500 ms = 1.5 s; 0.5 min = 30 s; 512 MiB = 0.5 GiB.
    assert (row["submit_s"], row["duration_s"], row["memory_gib_per_task"]) == (1.5, 30.0, 0.5)
    assert (row["job_id"], row["num_gpus"], row["vc"], row["priority"]) == ("x", 2.0, "7", 1)
    # A constant goes before the file's own column, which is then ignored.
    assert report.warnings == ("ignored columns: num_gpus",)
    provenance = read_provenance(report.out)
    assert provenance is not None
    stored = provenance.options["mapping"]
    assert isinstance(stored, dict)
    assert stored["units"] == {"submit_s": "ms", "duration_s": "min", "memory_gib_per_task": "mib"}


@pytest.mark.parametrize(
    ("unit", "written", "seconds"),
    quick_first(
        [
            ("us", 7, 7e-6),
            ("ms", 7, 0.007),
            ("s", 7, 7),
            ("min", 7, 420),
            ("h", 7, 25_200),
            ("d", 7, 604_800),
        ],
        2,
    ),
)
def test_units_of_time(trace: Trace, unit: str, written: int, seconds: float) -> None:
    table = f"submit_s,duration_s,num_gpus\n0,{written},1\n"
    assert converted(trace(table), f"units: {{duration_s: {unit}}}")[1]["duration_s"].to_list() == [seconds]


def test_demands_of_a_job_are_divided_by_its_tasks(trace: Trace) -> None:
    # Four GPUs are four tasks, half a GPU and none are one, and stated tasks are what they are.
    header = "submit_s,duration_s,num_gpus,num_tasks,cores,mib\n"
    table = f"{header}0,1,4,,16,8192\n1,1,0.5,,3,512\n2,1,0,,5,\n3,1,4,2,6,1024\n"
    mapping = (
        "columns: {cpu_per_task: cores, memory_gib_per_task: mib}\n"
        "units: {memory_gib_per_task: mib}\nper_job: [cpu_per_task, memory_gib_per_task]\n"
    )
    _, frame = converted(trace(table), mapping)
    assert frame["cpu_per_task"].to_list() == [4, 3, 5, 3]
    assert frame["memory_gib_per_task"].to_list() == [2, 0.5, None, 0.5]
    no_column = trace("submit_s,duration_s,num_gpus,cores\n0,1,4,16\n")
    _, frame = converted(no_column, "columns: {cpu_per_task: cores}\nper_job: [cpu_per_task]\n")
    assert frame["cpu_per_task"].to_list() == [4]


def test_only_demands_of_a_task_are_divided_by_tasks(trace: Trace) -> None:
    told = problems(trace, "per_job: [duration_s, disk_gib_per_task]\n")
    assert told[1].startswith("  per_job.duration_s: unknown column of a task's demand 'duration_s'")
    assert (
        told[2]
        == "  per_job.disk_gib_per_task: no column of the file is disk_gib_per_task; name it under `columns`"
    )


def test_dates_without_an_offset_among_dates_with_one_are_warned_of(trace: Trace) -> None:
    rows = ["2023-10-26T08:05+02:00", "2023-10-26T08:45", "2023-10-26", "2023-10-26T09:00Z"]
    table = "submit_s,duration_s,num_gpus\n" + "".join(f"{row},1,1\n" for row in rows)
    report, _ = converted(trace(table))
    (warning,) = report.warnings
    assert warning.startswith("submit_s: 2 of 4 dates have no offset from UTC, first in ")
    assert ", line 3; they are taken as UTC" in warning
    assert converted(trace(table), "time_zone: Europe/Berlin\n")[0].warnings == ()


def test_dates_are_read_in_their_zone_with_the_double_hour_as_its_first_pass(trace: Trace) -> None:
    mapping = 'time_format: "%d.%m.%Y %H:%M"\ntime_zone: Europe/Berlin\n'
    table = (
        "submit_s,duration_s,num_gpus\n29.10.2017 01:30,1,1\n29.10.2017 02:30,1,1\n"
        "29.10.2017 03:30,1,1\n26.03.2017 02:30,1,1\nsoon,1,1\n"
    )
    report, frame = converted(trace(table), mapping, rebase=True)
    # Clocks go back at 03:00 CEST: 01:30 and 02:30 CEST are 23:30 and 00:30 UTC, 03:30 CET is 02:30 UTC.
    assert frame["submit_s"].to_list() == [0.0, 3600.0, 10_800.0]
    assert report.notes["epoch_utc"] == "2017-10-28T23:30:00+00:00"
    assert report.notes["ambiguous_local_times"] == 1
    assert report.rejected == {"invalid_submit_s": 1, "skipped_submit_s": 1}


def test_tabs_separate_the_fields_of_a_tsv_file(trace: Trace) -> None:
    assert converted(trace(TABLE.replace(",", "\t"), "t.tsv"))[0].kept == 2


def test_fields_may_be_quoted_and_padded(trace: Trace) -> None:
    table = 'job_id,"submit_s",duration_s,num_gpus\n"a, ""b""", 1 ,2,3\nc,2,"3",4\n"d"x,1,2,3\n"e,1,2,3\n'
    report, frame = converted(trace(table))
    assert frame["job_id"].to_list() == ['a, "b"', "c"]
    assert frame["submit_s"].to_list() == [1.0, 2.0]
    assert report.rejected == {"malformed_quotes": 2}


def test_a_name_or_an_order_that_comes_again_is_rejected(trace: Trace) -> None:
    table = (
        "job_id,vc,trace_order,submit_s,duration_s,num_gpus\n"
        "a,x,0,0,1,1\n"
        "a,x,1,0,1,1\n"  # the name again
        "b,x,0,0,1,1\n"  # the order again
        "c,y,0,0,1,1\n"  # the same order in another vc
        "d,,0,0,1,1\n"  # and without a vc
        "e,,0,0,1,1\n"
        "f,x,2,0,-1,1\n"  # rejected, so it takes neither name nor order
        "f,x,2,0,1,1\n"
        ",x,3,0,1,1\n"
        "g,x,,0,1,1\n"
    )
    report, frame = converted(trace(table))
    assert frame["job_id"].to_list() == ["d", "a", "c", "f"]
    assert report.rejected == {
        "duplicate_job_id": 1,
        "duplicate_trace_order": 2,
        "missing_job_id": 1,
        "missing_trace_order": 1,
        "negative_duration_s": 1,
    }


@pytest.mark.parametrize(
    ("column", "text", "reason"),
    quick_first(
        [
            ("priority", "1.5", "invalid_priority"),
            ("priority", "high", "invalid_priority"),
            ("attempts", "-1", "negative_attempts"),
            ("num_tasks", "0", "too_small_num_tasks"),
            ("num_tasks", "1e9", "absurd_num_tasks"),
            ("trace_order", str(2**53 + 1), "absurd_trace_order"),
            ("cpu_per_task", "inf", "invalid_cpu_per_task"),
        ],
        2,
    ),
)
def test_an_optional_number_may_be_absent_but_not_wrong(
    trace: Trace, column: str, text: str, reason: str
) -> None:
    table = f"submit_s,duration_s,num_gpus,{column}\n0,1,1,{text}\n1,1,1,3.0\n2,1,1,\n"
    report, frame = converted(trace(table))
    missing = {} if column != "trace_order" else {"missing_trace_order": 1}
    assert report.rejected == {reason: 1} | missing
    assert frame[column][0] == 3


@pytest.mark.slow
def test_missing_required_columns_are_named_with_those_found(trace: Trace) -> None:
    with pytest.raises(
        InvalidWorkloadError, match=r"missing: submit_s, num_gpus; found: start, duration_s; .*--map"
    ):
        converted(trace("start,duration_s\n1,2\n"))


def test_every_problem_of_a_mapping_is_reported_at_once_with_its_path(trace: Trace) -> None:
    told = problems(
        trace,
        """
columns: {submit_s: arrival, gpus: num_gpus, duration_s: duration_s}
constants: {duration_s: 5, job_id: a, vc: 7, attempts: 1.5, priority: .nan, user: ""}
units: {duration_s: weeks, vc: s, cpu_per_task: milli, submit_s: ms}
time_zone: Mars/Olympus
time_format: "%H"
""",
    )
    assert told[0].endswith("map.yaml: 15 problems")
    for line in (
        "columns.submit_s: trace.csv has no column 'arrival'; found: submit_s, duration_s, num_gpus",
        "columns.gpus: unknown column of a workload 'gpus'. Did you mean 'num_gpus'?",
        "columns.duration_s: also a constant",
        "constants.job_id: must differ from row to row",
        "constants.vc: must be a text (in quotes), is 7",
        "constants.attempts: must be a whole number in the column's range, is 1.5",
        "constants.priority: must be a whole number in the column's range, is nan",
        "constants.user: must be a text (in quotes), is ''",
        "units.duration_s: must be one of us, ms, s, min, h, d, is 'weeks'",
        "units.vc: must be left out, the column has no unit",
        "units.cpu_per_task: no column of the file is cpu_per_task",
        "units.submit_s: a date has no unit",
        "time_zone: unknown zone 'Mars/Olympus'",
        "time_format: '%H' is no form of dates",
    ):
        assert any(line in problem for problem in told), line


def test_entries_of_a_wrong_shape_hide_no_other_problem(trace: Trace) -> None:
    told = problems(
        trace,
        """
colums: {submit_s: a}
columns: {submit_s: [a], duration_s: b}
units: {submit_s: s, num_gpus: weeks, duration_s: 7}
constants: {prioritty: 1}
derived: {wait_s: {times: {by: a, table: {}}}}
time_format: 3
""",
    )
    assert told[0].endswith("map.yaml: 8 problems")
    for place in (
        "colums: unknown key",
        "columns.submit_s: ",
        "columns.duration_s: trace.csv has no column 'b'",
        "units.num_gpus: must be one of gpu, milli",
        "units.duration_s: must be text",
        "constants.prioritty: unknown column of a workload 'prioritty'. Did you mean 'priority'?",
        "derived.wait_s.times.table: must not be empty",
        "time_format: must be text",
    ):
        assert sum(line.strip().startswith(place) for line in told) == 1, place


@pytest.mark.parametrize(
    ("mapping", "told"),
    [
        ("column: {submit_s: a}", "column: unknown key; did you mean 'columns'?"),
        ("columns: [a]", "columns: must be a mapping, got ['a']"),
        ("columns: {submit_s: 3}", "columns.submit_s[0]: must be text (put it in quotes), got 3"),
        ("- a", "must be a mapping, got ['a']"),
        ("columns: {submit_s: a, submit_s: b}", "key 'submit_s' appears twice"),
        ("columns: {submit_s: [", "is not valid YAML: line 2"),
        ("? [a]\n: b", "is not valid YAML: line 1"),
        ("!!python/object/apply:os.getcwd []", "python/object/apply:os.getcwd' are not allowed"),
        ("a: &a [x]\nb: *a", "aliases are not allowed"),
        (
            "columns: {submit_s: submit}",
            "has no column 'submit'; did you mean 'submit_s' (as '10')? Found: submit_s, dur",
        ),
        ("units: {duration: s}", "Did you mean 'duration_s'?"),
        (
            "derived: {duration_s: {colum: a}}",
            "derived.duration_s.colum: unknown key; did you mean 'column'?",
        ),
        ("{1: 2}", "[1]: keys must be text (put them in quotes), got 1"),
        ("columns: {2017-13-45: a}", "is not valid YAML: month must be in 1..12"),
        ("[" * 200 + "]" * 200, "nested more than 32 deep"),
        (
            "constants: {priority: " + "9" * 5000 + "}",
            "is not valid YAML: line 1, column 23: a number of 5,000 digits",
        ),
        ("", "is empty"),
        ('{time_format: "%s%z", time_zone: UTC}', "time_zone: the dates carry their offset"),
        ('{time_format: "%s", constants: {submit_s: 0}}', "constants.submit_s: a constant is a number"),
        ("constants: {num_gpus: true}", "constants.num_gpus: must be a number"),
        ("constants: {num_gpus: -1}", "constants.num_gpus: must be a number in the column's range, is -1"),
        ("constants: {vc: 2017-01-01}", "constants.vc"),
    ],
)
def test_a_mapping_that_is_none_is_a_clear_error(trace: Trace, mapping: str, told: str) -> None:
    assert any(told in line for line in problems(trace, mapping))


def test_a_mapping_that_cannot_be_read_is_a_clear_error(trace: Trace, tmp_path: Path) -> None:
    for path, told in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "not a file")):
        with pytest.raises(InvalidInputError, match=told):
            convert("csv", [trace(TABLE)], tmp_path / "w.parquet", options=ConvertOptions(mapping=path))
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match="is not UTF-8 text"):
        convert("csv", [trace(TABLE)], tmp_path / "w.parquet", options=ConvertOptions(mapping=binary))


def test_a_mapped_column_of_a_file_with_semicolons_is_missed_for_its_separator(trace: Trace) -> None:
    with pytest.raises(InvalidInputError, match=r"'start'.*; line 1 has semicolons: fields must be "):
        converted(trace("start;duration_s\n1;2\n"), "columns: {submit_s: start}")


def test_an_empty_mapping_maps_nothing(trace: Trace) -> None:
    assert converted(trace(TABLE), "# nothing\n")[0].kept == 2


def test_truth_values_are_numbers_but_no_seconds(trace: Trace) -> None:
    names = "submit_s,duration_s,num_gpus,different_machines\n"
    rows = "0,1,True,true\n1,1,TRUE,False\n2,1,false,FALSE\n3,True,1,0\n4,1,1,yes\n"
    report, frame = converted(trace(names + rows))
    assert report.rejected == {"invalid_duration_s": 1, "invalid_different_machines": 1}
    assert frame["num_gpus"].to_list() == [1, 1, 0]
    assert frame["different_machines"].to_list() == [1, 0, 0]


JOB = "submit_s,duration_s,num_gpus"


@pytest.mark.parametrize(
    ("rule", "kept"),
    quick_first([("best", [1]), ("first", [0]), ("last", [2]), ("longest", [2]), ("reject", [])], 2),
)
def test_the_mapping_says_which_record_of_a_job_is_kept(rule: str, kept: list[int], trace: Trace) -> None:
    rows = "a,0,5,1,\na,1,5,1,FAILED\na,2,9,1,RUNNING\nb,3,1,1,\n"
    report, frame = converted(trace(f"job_id,{JOB},status\n{rows}"), f"duplicates: {rule}")
    assert report.rejected == {"duplicate_job_id": 3 - len(kept)}
    assert sorted(frame["submit_s"].to_list()) == [*kept, 3]


def test_durations_and_quantities_in_expressions_are_in_the_columns_unit(trace: Trace) -> None:
    mapping = """
derived: {duration_s: run + 5, memory_gib_per_task: mem + 512, cpu_per_task: cores * 2}
units: {duration_s: min, memory_gib_per_task: mib, cpu_per_task: percent}
cells: {run: {as: duration}, mem: {as: quantity}, cores: {as: quantity}}
"""
    rows = "0,1,01:00:00,16Gi,500m\n1,1,90,1024,150\n"
    _, frame = converted(trace(f"submit_s,num_gpus,run,mem,cores\n{rows}"), mapping)
    assert frame["duration_s"].to_list() == [65 * 60, 95 * 60]
    assert frame["memory_gib_per_task"].to_list() == [16.5, 1.5]
    assert frame["cpu_per_task"].to_list() == [1, 3]


def test_memory_in_an_expression_needs_a_unit_too(trace: Trace) -> None:
    mapping = "derived: {memory_gib_per_task: mem}\ncells: {mem: {as: quantity}}"
    report, frame = converted(trace(f'{JOB},mem\n0,1,1,16Gi\n1,1,1,16\n2,1,1,"1,024"\n3,1,1,x\n'), mapping)
    assert report.rejected == {"no_unit_memory_gib_per_task": 2, "invalid_memory_gib_per_task": 1}
    assert frame["memory_gib_per_task"].to_list() == [16]


def test_a_product_with_an_absent_cell_is_absent(trace: Trace) -> None:
    mapping = "derived: {wait_s: wait * 60, num_gpus: gpus / 2}\nunits: {num_gpus: gpu}"
    report, frame = converted(trace("submit_s,duration_s,wait,gpus\n0,1,,2\n1,1,2,\n"), mapping)
    assert report.rejected == {"missing_num_gpus": 1}
    assert frame["wait_s"].to_list() == [None]


def test_a_difference_of_mixtures_is_a_mixture(trace: Trace) -> None:
    mapping = "derived: {duration_s: begin * begin - end * end}"
    report, _ = converted(
        trace(f"{JOB},begin,end\n0,,1,2024-01-02,2024-01-01\n1,,1,3,2\n".replace(",,", ",9,")), mapping
    )
    assert report.rejected == {"mixed_duration_s": 1}


def test_a_difference_takes_the_second_pass_also_within_a_function(trace: Trace) -> None:
    # From 02:50 to 02:10 of the night in which 02:00 to 03:00 comes twice: 20 minutes.
    mapping = "derived: {wait_s: 'max(begin - made, 0)'}\ntime_zone: Europe/Berlin"
    rows = "0,1,1,2023-10-29T02:50,2023-10-29T02:10\n1,1,1,2023-10-29T03:10,2023-10-29T02:10\n"
    _, frame = converted(trace(f"{JOB},made,begin\n{rows}"), mapping)
    assert frame["wait_s"].to_list() == [20 * 60, 0]


def test_infinite_cells_of_an_expression_are_invalid(trace: Trace) -> None:
    mapping = "derived: {cpu_per_task: 'min(a, b)'}\nnull_values: []"
    report, _ = converted(trace(f"{JOB},a,b\n0,1,1,inf,1\n1,1,1,NaN,1\n2,1,1,2,1\n"), mapping)
    assert report.rejected == {"invalid_cpu_per_task": 2}


def test_a_number_of_gpus_may_be_said_to_be_one(trace: Trace) -> None:
    mapping = "columns: {num_gpus: g}\ncells: {g: {as: number}}"
    assert converted(trace("submit_s,duration_s,g\n0,1,2\n"), mapping)[1]["num_gpus"].to_list() == [2]


def test_any_other_text_is_not_an_absent_one(trace: Trace) -> None:
    mapping = "cells: {status: {values: {COMPLETED: done, NULL: lost, '*': failed}}}".replace(
        "NULL", "'NULL'"
    )
    rows = "0,1,1,COMPLETED\n1,1,1,Unknown\n2,1,1,x\n3,1,1,NULL\n"
    _, frame = converted(trace(f"{JOB},status\n{rows}"), mapping)
    assert frame["status"].to_list() == ["done", None, "failed", "lost"]


@pytest.mark.parametrize("order", ["tuv", "vut"])
def test_patterns_of_patterns_of_patterns(order: str, trace: Trace) -> None:
    cells = {"t": "a=(?P<u>.*)", "u": "b=(?P<v>.*)", "v": "c=(?P<num_gpus>.*)"}
    mapping = "cells:\n" + "".join(f"  {name}: {{pattern: '{cells[name]}'}}\n" for name in order)
    _, frame = converted(trace("submit_s,duration_s,t\n0,1,a=b=c=7\n"), mapping)
    assert frame["num_gpus"].to_list() == [7]


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        ("t: {pattern: ['a(?P<x>.)', 'b(?P<x>.)']}", "cells.t.pattern: two patterns have a group 'x'"),
        (
            "t: {pattern: 'a(?P<x>.)'}\n  user: {pattern: '(?P<x>.)'}",
            "another column's pattern makes 'x' too",
        ),
        ("x: {pattern: 'a(?P<y>.)'}\n  y: {pattern: '(?P<x>.)'}", "makes the column that it is made of"),
        ("t: {pattern: 'a{99999999999999999999}'}", "cells.t.pattern: is no regular expression"),
        (f"t: {{pattern: '{'(' * 5000}a{')' * 5000}'}}", "cells.t.pattern: is no regular expression"),
        (
            "t: {pattern: '(?P<x>(?=a))'}",
            "look-around, including look-ahead and look-behind, is not supported",
        ),
    ],
)
def test_patterns_that_cannot_be_are_named(cells: str, problem: str, trace: Trace) -> None:
    assert problem in "\n".join(problems(trace, f"cells:\n  {cells}\n", f"{JOB},t,user\n0,1,1,a,b\n"))


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("end - num_gpus", "with end '2024-01-01', num_gpus '1' in line 2 of trace.csv: dates and numbers"),
        ("max(none)", "with none blank in line 2 of trace.csv: give a value for blank cells by first"),
        ("first(end, `end`) / 0", "with end '2024-01-01' in line 2 of trace.csv: "),
        ("none + line", "with none blank, line 'x' in line 2 of trace.csv: correct the expression"),
    ],
)
def test_where_no_row_is_kept_for_a_computed_column_its_cells_are_shown(
    trace: Trace, tmp_path: Path, expression: str, told: str
) -> None:
    path = trace("submit_s,num_gpus,end,none,line\n5,1,2024-01-01,,x\n")
    (tmp_path / "map.yaml").write_text(f"derived: {{duration_s: '{expression}'}}")
    with pytest.raises(InvalidWorkloadError) as error:
        converted(path, (tmp_path / "map.yaml").read_text())
    assert f"duration_s is {expression}, {told}" in str(error.value)
