"""The command explain: the text and the JSON of a job, and what it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from ray_sim.experiments.explain import run_facts
from ray_sim.experiments.results.result_files import read_result
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.kernels.core.room_over_time import NO_RULE
from tests.command_line import WEEK, answer, complaint, process
from tests.conftest import REPOSITORY
from tests.proofs import quick_first

DOCS = REPOSITORY / "docs"

ELASTIC = ["-w", "truth=placement", "--enrich", "optimus_nine_models"]


@pytest.fixture
def longest(desk: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Name of the job of a run in `out` that waited longest."""
    answer(capsys, "run", *WEEK, "--policy", "fifo", "-o", "out")
    jobs = pl.read_parquet("out/jobs.parquet").sort("queue_s", descending=True)
    assert jobs["queue_s"][0] > 0
    return str(jobs["job_id"][0])


def test_explain_covers_the_waiting_time_of_a_job(longest: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "explain", "out", longest)
    parts = [part for wait in found["waits"] for part in wait["parts"]]
    covered = sum(part["end_s"] - part["begin_s"] for part in parts)
    assert covered == pytest.approx(found["queue_s"])
    assert {part["reason"] for part in parts} <= {"full", "fragmented", "no_server", "behind", "policy"}
    assert main(["explain", "out", longest]) == 0
    text = capsys.readouterr().out
    assert longest in text
    assert "started first" in text


def test_explain_without_a_job_lists_those_that_waited_longest(
    longest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = pl.read_parquet("out/jobs.parquet").filter(pl.col("queue_s") > 0)
    waits = sorted(jobs["queue_s"].to_list(), reverse=True)[:10]
    found = answer(capsys, "explain", "out")["longest_waits"]
    assert [each["queue_s"] for each in found] == waits
    assert found[0]["job_id"] == longest
    assert main(["explain", "out"]) == 0
    header, first, *_, last = capsys.readouterr().out.splitlines()
    assert header.split() == ["job", "waited", "GPUs", "user", "vc"]
    assert first.startswith(longest)
    assert last == "why: ray-sim explain out JOB"


@pytest.mark.parametrize(("options", "dated"), [([], True), (["--load-scale", "2"], False)])
def test_explain_has_the_date_of_a_submission_that_comes_when_the_trace_says(
    options: list[str], dated: bool, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, "run", *WEEK, *options, "--policy", "fifo", "-o", "out")
    jobs = pl.read_parquet("out/jobs.parquet").sort("submit_s")
    first_s, last_s = jobs["submit_s"][0], jobs["submit_s"][-1]
    found = answer(capsys, "explain", "out", str(jobs["job_id"][-1]))
    assert found["after_first_s"] == pytest.approx(last_s - first_s)
    # The synthetic Philly week begins on 2017-10-30 at 07:00 UTC.
    date = f"{datetime(2017, 10, 30, 7, tzinfo=UTC) + timedelta(seconds=last_s):%Y-%m-%d %H:%M}"
    assert found["submit_utc"] == (date if dated else None)


@pytest.mark.parametrize(
    ("options", "rule"),
    quick_first(
        [
            (["--policy", "sjf", "-p", "placement=spread"], RULE_NAMES.index("spread")),
            # The placement `spread` of optimus is its own: each task on the freest server.
            (["--policy", "optimus", "-p", "placement=spread", "-w", "slot_s=600", *ELASTIC], NO_RULE),
        ]
    ),
)
def test_a_placement_of_a_policy_of_its_own_is_no_placement_rule(
    options: list[str], rule: int, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, "run", *WEEK, *options, "-o", "out")
    assert run_facts(Path("out"), read_result(Path("out"))).rule == rule


@pytest.mark.slow
def test_nothing_is_assumed_of_a_policy_whose_file_has_changed(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A process imports a module once: the first run is one of another process.
    source = (DOCS / "examples" / "least_work_first.py").read_text()
    Path("least.py").write_text(source)
    options = [*WEEK, "--policy", "least:LeastWorkFirst", "-o"]
    process("run", *options, "before")
    Path("least.py").write_text(f"{source}\n# another file\n")
    answer(capsys, "run", *options, "after")
    rules = {name: run_facts(Path(name), read_result(Path(name))).rule for name in ("before", "after")}
    assert rules == {"before": NO_RULE, "after": RULE_NAMES.index("consolidate")}


def test_explain_names_the_cluster_and_its_files_if_one_has_changed(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("away.csv").write_text("time_s,server,event\n10,gpu-0,fail\n50,gpu-0,repair\n")
    answer(capsys, "run", *WEEK, "--policy", "fifo", "-w", "availability=away.csv", "-o", "out")
    Path("away.csv").write_text("time_s,server,event\n10,gpu-0,fail\n60,gpu-0,repair\n")
    job = str(pl.read_parquet("out/jobs.parquet")["job_id"][0])
    assert "small.yaml, away.csv, or a file that the cluster names: changed since the run" in complaint(
        capsys, "explain", "out", job
    )


def test_explain_names_the_closest_jobs_and_what_has_changed(
    longest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = complaint(capsys, "explain", "out", longest[:-1] + "~")
    assert "out: no job '" in told
    assert "among 30 jobs; the closest are " in told
    assert r"no job 'a\nb'" in complaint(capsys, "explain", "out", "a\nb")
    Path("small.yaml").write_text("name: small\nservers:\n  - {name: gpu, count: 2, gpus: 8}\n")
    assert "small.yaml, or a file that the cluster names: changed since the run of out" in complaint(
        capsys, "explain", "out", longest
    )
    Path("week.parquet").unlink()
    told = complaint(capsys, "explain", "out", longest)
    assert "week.parquet: no such file, but it is the workload of out; a relative path counts from" in told
    assert "not a result of ray-sim" in complaint(capsys, "explain", ".", longest)
