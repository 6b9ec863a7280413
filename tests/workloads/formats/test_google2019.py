from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ray_sim.experiments.conversion import write_cluster
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.model.errors import InvalidWorkloadError
from tests.proofs import quick_first
from workloads.convert import ConversionReport, convert
from workloads.formats.google import event_records, trace2019, trace_reader
from workloads.store import read_frame
from workloads.trace_format import Censored, ConvertOptions, RowKind

SUBMIT, QUEUE, ENABLE, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(11)
AFTER_END = 2**63 - 1
FINISHED = ((601.0, SUBMIT), (601.5, QUEUE), (602.0, ENABLE), (603.0, SCHEDULE), (613.0, FINISH))


def instance(time_s: float, event: int, job: int = 7, task: int = 0, **more: object) -> dict[str, object]:
    return {
        "time": str(int(time_s * 1_000_000)),  # BigQuery writes its 64-bit numbers as texts
        "type": str(event),
        "collection_id": str(job),
        "scheduling_class": "2",
        "collection_type": "0",
        "priority": "200",
        "alloc_collection_id": "0",
        "instance_index": str(task),
        "machine_id": "99" if event >= SCHEDULE else "0",
        "resource_request": {"cpus": 0.0206, "memory": 0.5},
        "constraint": [],
        **more,
    }


def collection(time_s: float, event: int, job: int = 7, **more: object) -> dict[str, object]:
    keys = ("time", "type", "collection_id", "scheduling_class", "collection_type", "priority")
    return {key: instance(time_s, event, job)[key] for key in keys} | {"user": "u1="} | more


def machine(time_s: float, event: int, name: int, cpus: float | None) -> dict[str, object]:
    capacity = None if cpus is None else {"cpus": cpus, "memory": 0.25}
    return {"time": str(int(time_s * 1e6)), "machine_id": str(name), "type": str(event), "capacity": capacity}


class Trace:
    """Files of a trace in a folder of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root / "cell_a"
        self.out = root / "w.parquet"

    def write(self, table: str, *records: dict[str, object] | str, name: str = "000.json") -> Path:
        folder = self.root / table
        folder.mkdir(parents=True, exist_ok=True)
        lines = [record if isinstance(record, str) else json.dumps(record) + "\n" for record in records]
        content = "".join(lines).encode()
        path = folder / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    def convert(self, options: ConvertOptions | None = None) -> ConversionReport:
        return convert("google-2019", [self.root], self.out, options=options or ConvertOptions())


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Trace(tmp_path)


def test_an_instance_is_a_row_in_the_vocabulary_of_2011(trace: Trace) -> None:
    trace.write("instance_events", *[instance(t, e) for t, e in FINISHED])
    report = trace.convert()
    row = read_frame(report.out).row(0, named=True)
    assert (row["job_id"], row["group_id"], row["status"], row["attempts"]) == ("7-0", "7", "FINISH", 1)
    assert (row["submit_s"], row["wait_s"], row["duration_s"]) == (601, 2, 10)
    assert (row["cpu_norm_per_task"], row["memory_norm_per_task"], row["priority"]) == (0.0206, 0.5, 200)
    counts = report.notes["instance_events"]
    assert counts == {
        **dict.fromkeys(("SUBMIT", "QUEUE", "ENABLE", "SCHEDULE", "FINISH"), 1),
        **dict.fromkeys(("EVICT", "FAIL", "KILL", "LOST", "UPDATE_PENDING", "UPDATE_RUNNING"), 0),
        "last_s": 613.0,
    }


@pytest.mark.parametrize(
    ("event", "status"),
    quick_first([(EVICT, "EVICT"), (FAIL, "FAIL"), (FINISH, "FINISH"), (KILL, "KILL"), (LOST, "LOST")], 2),
)
def test_the_codes_of_ends_are_those_of_version_3(trace: Trace, event: int, status: str) -> None:
    trace.write("instance_events", *[instance(t, e) for t, e in (*FINISHED[:4], (613, event))])
    assert read_frame(trace.convert().out)["status"].to_list() == [status]


def test_numbers_may_be_texts_numbers_or_floats(trace: Trace) -> None:
    lines = [instance(t, e) for t, e in FINISHED]
    lines += [{**instance(t, e, job=8), "time": int(t * 1e6), "type": e} for t, e in FINISHED]
    lines += [{**instance(t, e, job=9), "time": t * 1e6, "type": float(e)} for t, e in FINISHED]
    trace.write("instance_events", *lines)
    report = trace.convert()
    assert (report.kept, report.rejected) == (3, {})
    assert read_frame(report.out)["duration_s"].to_list() == [10, 10, 10]


def test_what_happens_after_the_end_has_not_happened(trace: Trace) -> None:
    lines = [instance(t, e) for t, e in FINISHED]
    for job, time in enumerate([AFTER_END, str(AFTER_END), 9.223372036854775807e18, "9.223372036854776E18"]):
        lines += [*(instance(t, e, job) for t, e in FINISHED[:4]), {**instance(0, FINISH, job), "time": time}]
    trace.write("instance_events", *lines)
    report = trace.convert()
    assert (report.kept, report.notes["events_after_the_end"], report.rejected) == (1, 4, {"censored": 4})


def test_alloc_sets_are_reservations_and_no_jobs(trace: Trace) -> None:
    trace.write(
        "instance_events",
        *[instance(t, e, collection_type="1") for t, e in FINISHED],
        *[instance(t, e, job=8, alloc_collection_id="7") for t, e in FINISHED],
    )
    trace.write("collection_events", *[collection(t, e, collection_type=1) for t, e in FINISHED])
    report = trace.convert(ConvertOptions(rows=RowKind.JOB))
    assert read_frame(report.out)["job_id"].to_list() == ["8"]
    assert report.read == 1
    notes = report.notes
    assert (notes["alloc_set_instance_events"], notes["alloc_set_collection_events"]) == (5, 5)


def test_what_is_there_at_time_0_was_submitted_before(trace: Trace) -> None:
    trace.write(
        "instance_events",
        *[instance(t, e) for t, e in ((0, SCHEDULE), (700, FINISH))],
        *[instance(t, e, job=8) for t, e in ((0, ENABLE), (650, SCHEDULE), (700, FINISH))],
        *[instance(t, e, job=9) for t, e in ((620, ENABLE), (650, SCHEDULE), (700, FINISH))],
    )
    report = trace.convert()
    rows = read_frame(report.out).select("job_id", "submit_s", "wait_s", "duration_s").rows()
    assert rows == [("7-0", 0, 0, 700), ("8-0", 0, 650, 50)]
    assert report.rejected == {"missing_submit_s": 1}


def test_rows_of_jobs_have_the_collections_user(trace: Trace) -> None:
    trace.write("instance_events", *[instance(t, e, task=k) for t, e in FINISHED for k in range(3)])
    trace.write("collection_events", *[collection(t, e) for t, e in FINISHED])
    row = read_frame(trace.convert(ConvertOptions(rows=RowKind.JOB)).out).row(0, named=True)
    assert (row["job_id"], row["num_tasks"], row["user"], row["duration_s"]) == ("7", 3, "u1=", 10)


def test_machines_come_go_and_keep_their_largest_capacity(trace: Trace, tmp_path: Path) -> None:
    trace.write("instance_events", *[instance(t, e) for t, e in FINISHED])
    trace.write(
        "machine_events",
        machine(0, 1, 99, 0.5),
        machine(0, 1, 5, 1.0),
        machine(650, 2, 5, 1.0),
        machine(660, 1, 5, None),
        machine(670, 3, 99, 0.25),
        machine(680, 0, 99, 0.5),
    )
    report = trace.convert(ConvertOptions(cluster=True))
    assert report.cluster is not None
    write_cluster(report.cluster, tmp_path / "c.yaml")
    found = load_cluster(tmp_path / "c.yaml")
    assert (found.name, found.server_names) == ("google-2019", ("99", "5"))
    assert found.capacity[:, found.resources.index("cpu_norm")].tolist() == [500_000, 1_000_000]
    assert found.availability is not None
    assert found.availability.up.tolist() == [False, True]
    assert report.rejected == {"invalid_event": 1}
    assert report.notes["machines_whose_capacity_changed"] == 1


GOOD = [instance(t, e) for t, e in FINISHED]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("\n", "empty_row"),
        ("{\n", "invalid_json"),
        ('{"time": 1}}\n', "invalid_json"),
        ("[" * 5000 + "\n", "invalid_json"),
        ("[]\n", "not_an_object"),
        ("7\n", "not_an_object"),
        ({**GOOD[0], "time": None}, "missing_time"),
        ({**GOOD[0], "time": "soon"}, "invalid_time"),
        ({**GOOD[0], "time": -1}, "negative_time"),
        ({**GOOD[0], "time": 0.5}, "invalid_time"),
        ({**GOOD[0], "time": 10**30}, "invalid_time"),
        ({**GOOD[0], "time": True}, "invalid_time"),
        ({**GOOD[0], "time": [1]}, "invalid_time"),
        ({**GOOD[0], "type": 11}, "absurd_event"),
        ({**GOOD[0], "collection_id": ""}, "missing_job"),
        ({**GOOD[0], "instance_index": None}, "missing_task"),
        ({**GOOD[0], "collection_type": 2}, "absurd_kind"),
        ({**GOOD[0], "priority": 1001}, "absurd_priority"),
        ({**GOOD[0], "resource_request": {"cpus": float("nan")}}, "invalid_cpu"),
        ({**GOOD[0], "resource_request": {"cpus": -0.5}}, "negative_cpu"),
        ({**GOOD[0], "resource_request": {"memory": "1e400"}}, "invalid_memory"),
        ({**GOOD[0], "resource_request": [0.5]}, "invalid_cpu"),
        ('{"time": "\\ud800"}\n', "invalid_time"),
        ("x" * 10_000_000 + "\n", "invalid_json"),
    ],
)
def test_a_line_that_is_no_event_is_counted(trace: Trace, line: dict[str, object] | str, reason: str) -> None:
    trace.write("instance_events", *GOOD, line)
    report = trace.convert()
    assert (report.kept, report.rejected) == (1, {reason: 1})


def test_bytes_that_are_no_text_spoil_one_record(trace: Trace) -> None:
    path = trace.write("instance_events", *GOOD)
    path.write_bytes(path.read_bytes() + b'{"time": "\xff"}\n')
    assert trace.convert().rejected == {"invalid_time": 1}


def test_a_file_that_is_cut_is_an_error(trace: Trace) -> None:
    path = trace.write("instance_events", *(GOOD * 500), name="000.json.gz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidWorkloadError, match=r"000\.json\.gz: cannot be read to its end"):
        trace.convert()


CSV = "time,type,collection_id,instance_index,collection_type,resource_request.cpus,constraint\n"


def test_a_table_with_cells_over_several_lines(trace: Trace, tmp_path: Path) -> None:
    rows = [f"{int(t * 1e6)},{e},7,0,0,0.5,\"[{{'a':\n 1}}]\"\r\n" for t, e in FINISHED]
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xef\xbb\xbf" + CSV.encode() + "".join(rows).encode())
    report = convert("google-2019", [path], tmp_path / "w.parquet")
    row = read_frame(report.out).row(0, named=True)
    assert (row["duration_s"], row["cpu_norm_per_task"], report.rejected) == (10, 0.5, {})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,2\n", "wrong_field_count"),
        ("\n", "empty_row"),
        (",,,,,,\n", "empty_row"),
        ('"1" 2,,,,,,\n', "malformed_quotes"),
        ('1,"' + "x" * 200_000 + "\n", "malformed_quotes"),
    ],
)
def test_a_row_that_is_no_event_is_counted(trace: Trace, tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "instance_events.csv"
    rows = [f"{int(t * 1e6)},{e},7,0,0,0.5,\n" for t, e in FINISHED]
    path.write_text(CSV + "".join(rows) + line)
    report = convert("google-2019", [path], tmp_path / "w.parquet")
    assert (report.kept, report.rejected) == (1, {reason: 1})


def test_batches_make_no_difference(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    trace.write("instance_events", *[instance(t, e, task=k) for t, e in FINISHED for k in range(9)], "{\n")
    whole = trace.convert().out.read_bytes()
    monkeypatch.setattr(event_records, "BATCH_RECORDS", 7)
    monkeypatch.setattr(trace2019, "EVENTS_TOGETHER", 20)
    monkeypatch.setattr(trace_reader, "BUCKET_BYTES", 1000)
    assert trace.convert().out.read_bytes() == whole


@pytest.mark.slow
def test_long_records_are_looked_at_a_few_at_a_time(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    trace.write("instance_events", *[instance(t, e, task=k) for t, e in FINISHED for k in range(9)], "{\n")
    whole = trace.convert().out.read_bytes()
    monkeypatch.setattr(event_records, "BATCH_CHARACTERS", 600)
    assert trace.convert().out.read_bytes() == whole


def test_a_table_without_a_record_is_no_table_of_machines(trace: Trace) -> None:
    trace.write("instance_events", *GOOD)
    trace.write("machine_events", "time,machine_id,type\n", name="000.csv")
    with pytest.raises(InvalidWorkloadError, match="no machine has a capacity"):
        trace.convert(ConvertOptions(cluster=True))


def test_the_table_is_told_by_the_first_line(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in GOOD))
    assert convert("google-2019", [path], tmp_path / "w.parquet").kept == 1
    path.write_text('{"a": 1}\n')
    with pytest.raises(
        InvalidWorkloadError, match="line 1 should have an instance_index, a collection_id or"
    ):
        convert("google-2019", [path], tmp_path / "w.parquet")


def test_published_records_are_read_by_their_codes(
    real: Callable[[str], Path], trace: Trace, tmp_path: Path
) -> None:
    # Random records, none of which makes a task of its own: one that is whole goes with them.
    source = real("data/google2019/fhazraty_slice.csv")
    with source.open(newline="") as stream:
        records = list(csv.DictReader(stream))
    jobs = [record for record in records if float(record["collection_type"]) == 0]
    names = Counter(trace2019.EVENT_NAMES[int(float(record["instance_events_type"]))] for record in jobs)
    tasks = {(record["collection_id"], record["instance_index"]) for record in jobs}
    assert len(records) == 99
    extra = trace.write("instance_events", *GOOD, name="whole.json")
    report = convert(
        "google-2019", [source, extra], tmp_path / "w.parquet", options=ConvertOptions(censored=Censored.CUT)
    )
    assert report.notes["alloc_set_instance_events"] == len(records) - len(jobs)
    counts = report.notes["instance_events"]
    assert isinstance(counts, dict)
    whole = Counter({trace2019.EVENT_NAMES[event]: 1 for _, event in FINISHED})
    assert {name: n for name, n in counts.items() if n and name != "last_s"} == names + whole
    assert (report.notes["tasks"], report.read, report.kept) == (len(tasks) + 1, len(tasks) + 1, 1)
