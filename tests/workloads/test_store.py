from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.units import MAX_TIME_S
from tests.proofs import quick_first
from workloads import store
from workloads.job_table import frame_to_table
from workloads.provenance import Counts, Provenance
from workloads.schema import COLUMNS, SCHEMA, with_all_columns
from workloads.store import (
    _unreadable,
    load_workload,
    read_columns,
    read_frame,
    read_provenance,
    read_some,
    write_workload,
)

Jobs = Callable[..., pl.DataFrame]

MADE = Provenance(
    converter="test", converter_version="1", counts=Counts(read=3, kept=3), notes={"a": [1, "b"]}
)


@st.composite
def workload_frames(draw: st.DrawFn) -> pl.DataFrame:
    n = draw(st.integers(1, 12))
    times = st.floats(0, MAX_TIME_S) | st.integers(0, 100).map(float)
    optional_text = st.none() | st.sampled_from(["x", "y", 'é,\n"'])

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=n, max_size=n))

    frame = pl.DataFrame(
        {
            "job_id": draw(st.lists(st.text(min_size=1), min_size=n, max_size=n, unique=True)),
            "trace_order": draw(st.permutations(range(n))),
            "submit_s": column(times),
            "num_gpus": column(st.floats(0, 2**20)),
            "duration_s": column(times),
            "vc": column(optional_text),
            "priority": column(st.none() | st.integers(-(2**52), 2**52)),
            "num_tasks": column(st.none() | st.integers(1, 2**20)),
            "memory_gib_per_task": column(st.none() | st.floats(0, 2**30)),
        },
        schema_overrides={"vc": pl.String, "priority": pl.Int64, "num_tasks": pl.Int64},
        strict=False,
    )
    return with_all_columns(frame.with_columns(pl.col("memory_gib_per_task").cast(pl.Float64)))


@pytest.mark.slow
@settings(deadline=None)
@given(frame=workload_frames())
def test_what_is_written_is_read_back_in_canonical_order(
    frame: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("store") / "w.parquet"
    write_workload(frame, MADE, path)
    back = read_frame(path)
    assert back.equals(frame.sort("submit_s", "trace_order", "vc"))
    assert read_provenance(path) == MADE


def test_the_order_of_the_rows_does_not_change_the_bytes(jobs: Jobs, tmp_path: Path) -> None:
    frame = jobs(50)
    write_workload(frame, MADE, tmp_path / "a")
    write_workload(frame.sample(fraction=1, shuffle=True, seed=1), MADE, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.slow
def test_the_number_of_threads_does_not_change_the_bytes(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from workloads.synthetic.synth import synth;"
        "from workloads.store import write_workload;"
        "write_workload(*synth('philly', 150_000, 3), Path(sys.argv[1]))"
    )
    written = []
    for threads in ("1", "3"):
        path = tmp_path / threads
        environment = {
            **os.environ,
            "POLARS_MAX_THREADS": threads,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=environment)
        written.append(path.read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("columns", "told"),
    quick_first(
        [
            ({"duration_s": [1.0, -5.0, -6.0]}, ["duration_s: row 1 is -5.0: negative", "2 such rows"]),
            ({"duration_s": [1.0, float("nan"), 1.0]}, ["duration_s: row 1 is nan: invalid"]),
            ({"submit_s": [0.0, 1.0, float("inf")]}, ["submit_s: row 2 is inf: invalid"]),
            ({"submit_s": [0.0, 1.0, 1e18]}, ["submit_s: row 2 is 1e+18: absurd", str(MAX_TIME_S)]),
            ({"num_gpus": [1.0, 1.0, None]}, ["num_gpus: row 2 is None: missing"]),
            (
                {"num_tasks": [1, 0, None]},
                ["num_tasks: row 1 is 0: too_small, expected a whole number in 1 .."],
            ),
            ({"job_id": ["a", "b", "a"]}, ["job_id: row 2 repeats a", "unique"]),
            ({"trace_order": [1, 2, 1]}, ["trace_order: row 2 repeats 1", "unique within a vc"]),
        ],
        2,
    ),
)
def test_a_broken_row_is_named_with_its_file_column_and_value(
    jobs: Jobs, tmp_path: Path, columns: dict[str, list[object]], told: list[str]
) -> None:
    path = tmp_path / "w.parquet"
    frame = jobs(3, **columns)
    with pytest.raises(InvalidWorkloadError) as writing:
        write_workload(frame, MADE, path)
    assert not path.exists()
    frame.write_parquet(path)
    with pytest.raises(InvalidWorkloadError) as reading:
        read_frame(path)
    for error in (writing, reading):
        for words in (str(path), "1 problem", *told):
            assert words in str(error.value)


def test_the_same_trace_order_may_appear_in_two_vcs(jobs: Jobs, tmp_path: Path) -> None:
    frame = jobs(3, trace_order=[0, 0, 0], vc=["a", "b", None])
    write_workload(frame, MADE, tmp_path / "w.parquet")
    assert read_frame(tmp_path / "w.parquet").height == 3


def test_all_problems_of_a_file_are_reported_at_once(jobs: Jobs, tmp_path: Path) -> None:
    frame = jobs(2, duration_s=[-1.0, 1.0], num_gpus=[1.0, float("nan")], job_id=["a", "a"])
    with pytest.raises(InvalidWorkloadError, match="3 problems"):
        write_workload(frame, MADE, tmp_path / "w.parquet")


def test_a_parquet_file_of_another_schema_is_named_column_by_column(jobs: Jobs, tmp_path: Path) -> None:
    path = tmp_path / "w.parquet"
    jobs(2).drop("job_id").with_columns(pl.col("num_gpus").cast(pl.Int64), extra=1).write_parquet(path)
    with pytest.raises(InvalidWorkloadError) as error:
        read_frame(path)
    assert "job_id: column missing, expected String" in str(error.value)
    assert "num_gpus: expected Float64, found Int64" in str(error.value)
    assert "extra: not a column" in str(error.value)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"job_id,submit_s\n1,2\n", bytes(range(256)) * 9])
def test_a_file_that_is_no_parquet_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w.parquet"
    path.write_bytes(content)
    for read in (load_workload, read_frame, read_provenance):
        with pytest.raises(InvalidWorkloadError, match=r"w\.parquet"):
            read(path)


@pytest.mark.slow
def test_a_small_file_with_more_rows_than_memory_holds_is_refused_unread(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A million equal rows of 8 + 8 + 8 + 8 + 16 bytes are 48 MB, twice in memory, from a file of some 20 kB.
    path, million = tmp_path / "many.parquet", 1_000_000
    columns = dict.fromkeys(("submit_s", "duration_s", "num_gpus", "trace_order"), np.zeros(million))
    pl.DataFrame({"job_id": ["a"] * million, **columns}).write_parquet(path)
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(store, "available_bytes", lambda: 96 * million - 1)
    words = r"many\.parquet: its 1,000,000 rows take 0\.1 GiB of memory, and 0\.1 GiB are free; take fewer"
    for read in (read_frame, lambda path: read_some(path, gaps=False)):
        with pytest.raises(InvalidWorkloadError, match=words):
            read(path)
    assert read_columns(path, ["submit_s"]).height == million
    monkeypatch.setattr(store, "available_bytes", lambda: 96 * million)
    with pytest.raises(InvalidWorkloadError, match="trace_order: expected Int64"):  # read, and no workload
        read_frame(path)
    assert store.available_bytes() > 0


def test_memory_that_runs_out_is_not_blamed_on_the_format() -> None:
    told = str(_unreadable("many.parquet", pa.ArrowMemoryError("malloc of size 64 failed")))
    assert told == "many.parquet: memory does not hold its rows (malloc of size 64 failed); take fewer jobs"


def test_a_missing_file_and_a_folder_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkloadError, match="no such file"):
        load_workload(tmp_path / "none.parquet")
    with pytest.raises(InvalidWorkloadError, match="not a file"):
        load_workload(tmp_path)


def test_a_file_cut_short_anywhere_is_a_clear_error(jobs: Jobs, tmp_path: Path) -> None:
    whole, cut = tmp_path / "w.parquet", tmp_path / "cut.parquet"
    write_workload(jobs(100), MADE, whole)
    content = whole.read_bytes()
    for length in range(0, len(content), 97):
        cut.write_bytes(content[:length])
        with pytest.raises(InvalidWorkloadError):
            load_workload(cut)


def test_a_workload_without_jobs_is_an_error(jobs: Jobs, tmp_path: Path) -> None:
    jobs(1).clear().write_parquet(tmp_path / "w.parquet")
    with pytest.raises(InvalidWorkloadError, match="no jobs"):
        load_workload(tmp_path / "w.parquet")


def test_broken_and_newer_metadata_are_errors_and_absent_metadata_is_not(jobs: Jobs, tmp_path: Path) -> None:
    path = tmp_path / "w.parquet"
    for text, told in (
        ("{", "metadata ray_sim"),
        ('{"converter": 1}', "ray_sim.converter"),
        (MADE.model_copy(update={"schema_version": "99"}).model_dump_json(), "schema version 99"),
    ):
        jobs(1).write_parquet(path, metadata={"ray_sim": text})
        with pytest.raises(InvalidWorkloadError, match=told):
            load_workload(path)
    jobs(1).write_parquet(path)
    assert read_provenance(path) is None
    assert len(load_workload(path)) == 1


def test_a_file_that_cannot_be_written_leaves_nothing_behind(jobs: Jobs, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="does not exist; create it"):
        write_workload(jobs(1), MADE, tmp_path / "none" / "w.parquet")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInputError, match="is a folder; name a file"):
        write_workload(jobs(1), MADE, tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_gang_rule(jobs: Jobs) -> None:
    # GPUs, tasks -> tasks, milli-GPU per task. Whole GPUs are tasks of one GPU; a fraction or none
    # is one task; a stated number of tasks splits the GPUs: 8 / 2 = 4, 1 / 3 rounds up to 334.
    frame = jobs(
        7, num_gpus=[1.0, 4.0, 0.5, 0.0, 2.5, 8.0, 1.0], num_tasks=[None, None, None, None, None, 2, 3]
    )
    table = frame_to_table(frame)
    assert table.tasks.tolist() == [1, 4, 1, 1, 1, 2, 3]
    assert table.demand[:, 0].tolist() == [1000, 1000, 500, 0, 2500, 4000, 334]
    assert table.num_gpus.tolist() == [1, 4, 0.5, 0, 2.5, 8, 1]


def test_demands_are_per_task_and_zero_where_the_workload_says_nothing(jobs: Jobs) -> None:
    frame = jobs(2, num_gpus=[2.0, 1.0], cpu_per_task=[1.5, None], memory_gib_per_task=[0.5, None])
    table = frame_to_table(frame, ("memory_gib", "gpu", "disk_gib", "cpu", "fpga"))
    assert table.resources == ("memory_gib", "gpu", "disk_gib", "cpu", "fpga")
    # 0.5 GiB = 512 MiB; 1 GPU = 1000 milli; 1.5 cores = 1500 milli. A task's share is the column's own.
    assert table.demand.tolist() == [[512, 1000, 0, 1500, 0], [0, 1000, 0, 0, 0]]


def test_times_count_from_the_first_submission(jobs: Jobs) -> None:
    table = frame_to_table(
        jobs(3, submit_s=[7.25, 5.0, 5.0], trace_order=[0, 2, 1], duration_s=[0.0, 1e-6, 2.5])
    )
    assert table.job_id.to_list() == ["job-2", "job-1", "job-0"]
    assert table.submit_us.tolist() == [0, 0, 2_250_000]
    assert table.work_us.tolist() == [2_500_000, 1, 0]
    assert table.origin_us == 5_000_000
    assert table.trace_order.tolist() == [1, 2, 0]


def test_one_instant_and_trace_order_in_two_vcs_goes_by_the_vcs_name(jobs: Jobs) -> None:
    table = frame_to_table(jobs(3, submit_s=[0.0] * 3, trace_order=[0] * 3, vc=["b", None, "a"]))
    assert table.job_id.to_list() == ["job-1", "job-2", "job-0"]
    assert table.vc_names == ("a", "b")
    assert table.vc.tolist() == [-1, 0, 1]


def test_users_and_priorities_are_absent_unless_the_trace_has_some(jobs: Jobs) -> None:
    bare = frame_to_table(jobs(2))
    assert bare.user is None
    assert bare.priority is None
    table = frame_to_table(jobs(2, user=["u", None], priority=[None, -3]))
    assert table.user is not None
    assert table.user.to_list() == ["u", None]
    assert table.priority is not None
    assert table.priority.tolist() == [0, -3]


def test_no_job_is_an_empty_table(jobs: Jobs) -> None:
    table = frame_to_table(jobs(1).clear(), ("gpu", "cpu"))
    assert len(table) == 0
    assert table.demand.shape == (0, 2)
    assert table.demand.dtype == np.int64


def test_the_arrays_have_the_types_of_the_job_table(jobs: Jobs) -> None:
    table = frame_to_table(jobs(3, vc=["a", "b", "a"], priority=[1, 2, 3]))
    for array in (table.submit_us, table.work_us, table.tasks, table.demand, table.vc, table.trace_order):
        assert array.dtype == np.int64
        assert array.flags.writeable
    assert dict(jobs(3).schema) == SCHEMA


def test_columns_that_a_file_lacks_are_null_where_they_may_be(tmp_path: Path, jobs: Jobs) -> None:
    bare = [column.name for column in COLUMNS if column.null is None]
    assert bare == ["job_id", "trace_order", "submit_s", "num_gpus", "duration_s"]
    jobs(2).select(bare).write_parquet(tmp_path / "own.parquet")
    assert dict(read_frame(tmp_path / "own.parquet").schema) == SCHEMA
    assert load_workload(tmp_path / "own.parquet").chunk_profile is None


def test_the_training_profile_is_in_the_table_and_nan_where_a_job_has_none(jobs: Jobs) -> None:
    profile = frame_to_table(jobs(2, chunks=[3, None], minibatch_s=[0.25, 0.5])).chunk_profile
    assert profile is not None
    np.testing.assert_array_equal(profile.chunks, [3, np.nan])
    np.testing.assert_array_equal(profile.minibatch_s, [0.25, 0.5])
    np.testing.assert_array_equal(profile.upload_cloud_s, [np.nan, np.nan])
