"""Delays of a stored run and of its trace: the right files, unchanged, or an error that says what to do."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pydantic import TypeAdapter

from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.real_delays import compare_real_delays
from ray_sim.experiments.results.result_directories import write_files
from ray_sim.experiments.scenario import Scenario
from ray_sim.model.errors import InvalidInputError
from workloads.convert import convert
from workloads.store import load_workload

HOSTILE = "<script>alert('$a$')</script>\x1b[2J"

TRACE = """job_id,submit_s,duration_s,num_gpus,wait_s,priority,vc
a,10,100,1,5,2,x
b,20,100,1,70,1,x
c,30,10,1,200,1,x
d,40,10,4,1,3,y
e,300,100,1,0,2,y
f,310,5000,1,90,2,y
"""
"""On one GPU under FIFO: a 10-110, b 110-210, c 210-220, d is too large, e 300-400, f 400-."""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a trace of six jobs and a server of one GPU."""
    monkeypatch.chdir(tmp_path)
    _trace(TRACE)
    Path("one.yaml").write_text("name: one\nservers:\n  - {name: gpu, count: 1, gpus: 1}\n")
    return tmp_path


def _trace(text: str, name: str = "trace") -> Path:
    source, workload = Path(f"{name}.csv"), Path(f"{name}.parquet")
    source.write_text(text)
    convert("csv", [source], workload)
    return workload


def _run(name: str = "run", **entries: object) -> Path:
    given = {"workload": "trace.parquet", "cluster": "one.yaml", "policy": "fifo", **entries}
    scenario = TypeAdapter(Scenario).validate_python(given)
    write_files(Path(name), prepare(scenario).run().files())
    return Path(name)


def test_delays_are_joined_job_by_job(desk: Path) -> None:
    # With a horizon of 300 s after the first submission f does not start; d never fits. Left are a b c e:
    # 5 70 200 0 s in the trace and 0 90 180 0 s here. Ranks about 2.5: -0.5 0.5 1.5 -1.5 and -1 0.5 1.5 -1.
    found = compare_real_delays(_run(world={"horizon_s": 300})).found
    assert found.left_out == {
        "never started in the run: rejected": 1,
        "never started in the run: unfinished": 1,
    }
    assert found.overall is not None
    assert (found.overall.jobs, found.overall.real_s.mean, found.overall.simulated_s.mean) == (4, 68.75, 67.5)
    assert found.overall.ranks.simulated.value == pytest.approx(4.5 / (5 * 4.5) ** 0.5)
    assert [part.jobs for part in found.by_priority] == [2, 2]


def test_jobs_outside_a_window_are_not_compared(desk: Path) -> None:
    found = compare_real_delays(_run(workload={"path": "trace.parquet", "window": [15, 35]})).found
    assert found.jobs == 2
    assert found.overall is not None
    assert found.overall.simulated_s.mean == 45.0  # b starts at once, c after it: 0 and 90 s


def test_rows_that_the_conversion_rejected_are_told(desk: Path) -> None:
    _trace(TRACE + "g,soon,1,1,1,1,x\n")
    told = compare_real_delays(_run()).to_dict()
    assert told["rejected_by_conversion"] == {"invalid_submit_s": 1}
    assert (told["policy"], told["workload"], told["jobs"]) == ("fifo", "trace.parquet", 6)


def test_a_workload_that_has_moved_is_named_and_another_one_refused(desk: Path) -> None:
    run = _run()
    Path("trace.parquet").rename("moved.parquet")
    with pytest.raises(InvalidInputError, match=r"trace.parquet: no such file.*name it with --workload"):
        compare_real_delays(run)
    assert compare_real_delays(run, "moved.parquet").found.jobs == 6
    _trace(TRACE.replace("a,10", "a,11"), "other")
    with pytest.raises(InvalidInputError, match=r"other.parquet: is not the workload of run: its SHA-256 is"):
        compare_real_delays(run, "other.parquet")


def test_a_trace_without_real_delays_says_which_traces_have_some(desk: Path) -> None:
    text = "\n".join(",".join([*line.split(",")[:4], *line.split(",")[5:]]) for line in TRACE.splitlines())
    _trace(text)
    assert load_workload("trace.parquet").submit_us[1] == 10_000_000
    with pytest.raises(InvalidInputError, match=r"trace.parquet: no job has a wait_s.*google-2011"):
        compare_real_delays(_run())


@pytest.mark.parametrize(
    ("workload", "complaint"),
    [
        ({"synth": {"profile": "philly", "jobs": 5}}, "its jobs are drawn"),
        ({"path": "trace.parquet", "resample": "days"}, "draws days of the trace"),
        ({"path": "trace.parquet", "load_scale": 2.0}, "jobs come 2 times as fast as in the trace"),
    ],
)
def test_other_arrivals_than_the_traces_are_refused(
    desk: Path, workload: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        compare_real_delays(_run(workload=workload))


@pytest.mark.parametrize("file", ["jobs.parquet", "manifest.json"])
def test_a_changed_result_is_refused(desk: Path, file: str) -> None:
    path = _run() / file
    path.write_bytes(path.read_bytes().replace(b"o", b"0", 1))
    with pytest.raises(InvalidInputError, match=f"{file}: changed since it was written"):
        compare_real_delays(Path("run"))


@pytest.mark.slow
def test_the_page_escapes_names_and_is_the_same_again(desk: Path) -> None:
    named = _trace(TRACE.replace("a,10", f'"{HOSTILE}",10').replace(",x\n", f',"{HOSTILE}"\n'))
    named.rename("<b>$x$.parquet")
    run = _run(workload="<b>$x$.parquet")
    compare_real_delays(run, out=Path("page.html"))
    page = Path("page.html").read_bytes()
    assert b"<b>" not in page
    assert b"&lt;b&gt;$x$.parquet" in page
    assert b"<script" not in page
    assert b"\x1b" not in page
    compare_real_delays(run, out=Path("again.html"))
    assert Path("again.html").read_bytes() == page
    Path("page.html").write_bytes(page + b"my notes")
    with pytest.raises(InvalidInputError, match=r"page\.html"):
        compare_real_delays(run, out=Path("page.html"))


def test_a_run_in_which_nothing_started_has_a_page(desk: Path) -> None:
    Path("none.yaml").write_text("name: none\nservers:\n  - {name: gpu, count: 1, gpus: 0, cpus: 1}\n")
    found = compare_real_delays(_run(cluster="none.yaml"), out=Path("page.html")).found
    assert (found.overall, found.left_out) == (None, {"never started in the run: rejected": 6})
    assert b"</html>" in Path("page.html").read_bytes()


def test_real_delays_may_be_unknown_for_some(desk: Path) -> None:
    _trace(TRACE.replace("c,30,10,1,200", "c,30,10,1,"))
    found = compare_real_delays(_run()).found
    assert found.left_out["no real delay in the trace"] == 1
    assert pl.read_parquet("trace.parquet")["wait_s"].null_count() == 1
