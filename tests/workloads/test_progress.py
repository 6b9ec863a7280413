"""What people see of a conversion while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.damaged import GOOD
from tests.proofs import quick_first
from workloads import rows, store
from workloads.convert import convert
from workloads.formats.google import trace_reader
from workloads.progress import Meter
from workloads.trace_format import ConvertOptions

Told = list[tuple[int, int, str]]


def file_of(folder: Path, name: str, size: int) -> Path:
    path = folder / name
    path.write_bytes(bytes(size))
    return path


def test_files_and_what_follows_them_add_up_to_the_work(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", 6_000_000), file_of(tmp_path, "two.gz", 2_000_000)
    told: Told = []
    progress = Meter([one, two], lambda *now: told.append(now))
    progress.expect(2_000_000)  # 10 MB in all
    progress.begin(one)
    for _ in range(3):
        progress.add(1_500_000)  # 1.5, 3 and 4.5 of 6 MB
    progress.begin(two)
    progress.add(12_000_000)  # half of about 24 MB that 2 MB are packed from: 1 of 2 MB
    progress.add(50_000_000)  # more than it should hold: no more than the file
    progress.advance(2_000_000, "writing")
    assert told == [
        *((done, 100, "reading one") for done in (0, 15, 30, 45)),
        *((done, 100, "reading two.gz") for done in (60, 70, 80)),
        (100, 100, "writing"),
    ]


def test_nothing_is_told_twice(tmp_path: Path) -> None:
    told: Told = []
    progress = Meter([path := file_of(tmp_path, "one", 2_000_000)], lambda *now: told.append(now))
    progress.begin(path)
    for _ in range(1_000):
        progress.add(1_999)
    assert told == [(done, 100, "reading one") for done in range(100)]


@pytest.mark.parametrize("name", quick_first(sorted(GOOD), 2))
def test_every_format_tells_how_far_it_is(name: str, tmp_path: Path, trace: Callable[..., Path]) -> None:
    path = trace(GOOD[name])
    told: Told = []
    convert(name, [path], tmp_path / "w.parquet", progress=lambda *now: told.append(now))
    done, totals, what = zip(*told, strict=True)
    assert list(done) == sorted(done)
    assert done[0] == 0
    assert (done[-1], {*totals}) == (100, {100})
    assert what[0] == "hashing the sources"
    assert f"reading {path.name}" in what
    assert what[-1] == "writing w.parquet"


def test_portions_of_a_step_are_its_work(tmp_path: Path) -> None:
    told: Told = []
    progress = Meter([path := file_of(tmp_path, "one", 4_000_000)], lambda *now: told.append(now))
    progress.expect(8_000_000)
    progress.begin(path)
    count = progress.step(8_000_000, "writing")
    for portion in (1, 2, 4):
        count(portion, 4)
    assert told == [(0, 100, "reading one"), *((done, 100, "writing") for done in (33, 50, 66, 100))]


@pytest.mark.parametrize(
    ("name", "mapping", "steps"),
    [
        ("philly-csv", None, ["comparing rows", "writing w.parquet"]),
        ("csv", "columns: {job_id: id}", ["comparing job_id", "writing w.parquet"]),
    ],
)
def test_what_follows_the_reading_of_a_table_is_told_part_by_part(
    name: str, mapping: str | None, steps: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 100 rows in parts of 10, and row groups of 10: each step is told in ten portions.
    monkeypatch.setattr(rows, "PART_ROWS", 10)
    monkeypatch.setattr(store, "ROW_GROUP_ROWS", 10)
    trace, options = tmp_path / "trace.csv", ConvertOptions()
    if mapping is None:
        lines = ["timestamp,duration,num_gpus,gpu_time,cluster"]
        lines += [f"2017-11-05 02:{i // 60:02}:{i % 60:02},10.0,1,10.0,vc" for i in range(100)]
    else:
        (tmp_path / "map.yaml").write_text(mapping)
        options = ConvertOptions(mapping=tmp_path / "map.yaml")
        lines = ["id,submit_s,duration_s,num_gpus", *(f"j{i},{i},10,1" for i in range(100))]
    trace.write_text("\n".join(lines) + "\n")
    told: Told = []
    convert(name, [trace], tmp_path / "w.parquet", options=options, progress=lambda *now: told.append(now))
    # Reading, comparing and writing are a third of the work each.
    for step, ends in zip(steps, [(33, 66), (66, 100)], strict=True):
        done = [now for now, _, what in told if what == step]
        assert (done[0], done[-1]) == ends
        assert len(done) == 11


_EVENT = "{time},,{job},{task},1,{event},u,0,0,0.5,0.5,0.1,0"
_POD = "name,num_gpu,gpu_milli,cpu_milli,memory_mib,pod_phase,creation_time,deletion_time,scheduled_time"
_LOG = b'[{"status": "Pass", "vc": "v", "jobid": "a", "attempts": [{"start_time": "2017-10-09 07:02:00", '
_LOG += b'"end_time": "2017-10-09 08:02:00", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}], '
_LOG += b'"submitted_time": "2017-10-09 07:01:00", "user": "u"}]'


def _google(folder: Path) -> list[Path]:
    """Events of 40 tasks, of their jobs, and of machines."""
    events = [(600_000_000 + 10 * task + code, task, code) for task in range(40) for code in (0, 1, 4)]
    tasks = [_EVENT.format(time=time, job=task // 4, task=task, event=code) for time, task, code in events]
    jobs = [f"{600_000_000 + job},,{job},0,u,0,a,a" for job in range(10)]
    machines = [f"0,{machine},0,p,0.5,0.5" for machine in range(30)]
    files = {"task_events": tasks, "job_events": jobs, "machine_events": machines}
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return [folder / f"{name}.csv" for name in files]


def _pods(folder: Path) -> list[Path]:
    (folder / "pods.csv").write_text(f"{_POD}\np,1,1000,1000,1024,Succeeded,0,20,10\n")
    (folder / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,8000,65536,2,G\n")
    return [folder / "pods.csv", folder / "nodes.csv"]


def _log(folder: Path) -> list[Path]:
    (folder / "log.json").write_bytes(_LOG)
    (folder / "machines.csv").write_text("machineId, number of GPUs, single GPU mem\nm1,2,24GB\n")
    return [folder / "log.json", folder / "machines.csv"]


@pytest.mark.parametrize(("name", "write"), [("google-2011", _google), ("gpu-pods", _pods), ("philly", _log)])
def test_the_bar_ends_at_its_total_with_files_that_hold_no_jobs_and_with_buckets(
    name: str, write: Callable[[Path], list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reader, "BUCKET_BYTES", 300)
    told: Told = []
    convert(name, write(tmp_path), tmp_path / "w.parquet", progress=lambda *now: told.append(now))
    reading = {what for _, _, what in told if what.startswith("reading")}
    assert len(reading) == len(write(tmp_path))
    done = [now for now, _, _ in told]
    assert done == sorted(done)
    assert told[-1] == (100, 100, "writing w.parquet")
    before = max(now for now, _, what in told if what != "writing w.parquet")
    assert before < 100
