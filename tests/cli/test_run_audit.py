"""The option --audit of run, and `audit` in a scenario and a sweep."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.experiments.scenario import AuditSpec, overridden, parse_scenario
from ray_sim.experiments.sweep_file import read_sweep
from tests.command_line import WEEK, answer, complaint

SLOTS = [
    "-w",
    "truth=announced",
    "-w",
    "slot_s=3600",
    "-w",
    "horizon_s=1080000",
    "-w",
    "clip_statements=true",
]


@pytest.fixture
def announced(desk: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Options of a run of 30 announced jobs on 100 GPUs."""
    answer(capsys, "enrich", "week.parquet", "--profile", "announced", "--seed", "1", "-o", "a.parquet")
    Path("pool.yaml").write_text("name: pool\nservers:\n  - {name: gpu, count: 1, gpus: 100}\n")
    return ["--workload", "a.parquet", "--cluster", "pool.yaml", "--policy", "posted_price", *SLOTS]


@pytest.mark.slow
def test_run_prints_the_audit_and_keeps_it(announced: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *announced, "--audit-jobs", "1", "-o", "out"]) == 0
    table = capsys.readouterr().out
    for label in ("upper bound on welfare", "audit: largest gain by misreports", "audit: violation"):
        assert label in table
    found = json.loads(Path("out/summary.json").read_text())["audit"]
    assert found["violations"] == []
    assert (found["sampled_jobs"], found["jobs"]) == (1, 30)
    assert found["regret"]["max"] <= found["regret_bound"]
    assert main(["info", "out"]) == 0
    assert "audit: sampled jobs" in capsys.readouterr().out
    assert main(["report", "out", "-o", "out.html"]) == 0
    assert "audit: sampled jobs" in Path("out.html").read_text()
    capsys.readouterr()
    plain = answer(capsys, "run", *announced, "-o", "plain")
    assert plain["summary"]["audit"] is None
    assert Path("plain/jobs.parquet").read_bytes() == Path("out/jobs.parquet").read_bytes()


@pytest.mark.slow
def test_run_prints_how_many_statements_it_cut_and_how_many_jobs_misreport(
    announced: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    misreports = ["-w", "misreport=value", "-w", "misreport_share=1"]
    assert main(["run", *announced, "-w", "most_value=8", *misreports, "-o", "out"]) == 0
    told = json.loads(Path("out/summary.json").read_text())["welfare"]
    table = capsys.readouterr().out
    assert told["clipped"] > 0
    assert re.search(rf"statements cut to the bounds +{told['clipped']}\b", table)
    assert re.search(r"jobs misreported +30\b", table)


@pytest.mark.slow
def test_a_sweep_audits_every_run(announced: list[str]) -> None:
    lines = (
        "name: audited\nworkloads: [a.parquet]\nclusters: [pool.yaml]\n"
        "policies: [announced_fifo, posted_price]\n"
        "world: {truth: announced, slot_s: 3600, horizon_s: 1080000, clip_statements: true}\n"
    )
    runs = {}
    for audit in ("{jobs: 2}", "true", "false"):
        Path("sweep.yaml").write_text(f"{lines}audit: {audit}\n")
        runs[audit] = [each.identity for each in read_sweep("sweep.yaml").configurations]
    asked = {audit: [one.scenario.audit for one in made] for audit, made in runs.items()}
    assert asked == {
        "{jobs: 2}": [AuditSpec(jobs=2)] * 2,
        "true": [AuditSpec(jobs=3)] * 2,
        "false": [None] * 2,
    }
    assert len({one.content_hash for made in runs.values() for one in made}) == 6


def test_an_audit_of_other_jobs_is_refused_before_the_run(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = complaint(capsys, "run", *WEEK, "--audit", "-o", "out")
    assert "audit: is about announced jobs" in told
    assert not Path("out").exists()
    Path("s.yaml").write_text("workload: week.parquet\ncluster: small.yaml\naudit: {jobs: 0}\n")
    assert "audit.jobs" in complaint(capsys, "run", "s.yaml")
    Path("s.yaml").write_text("workload: week.parquet\ncluster: small.yaml\naudit: false\n")
    assert main(["run", "s.yaml", "-o", "out"]) == 0


def test_options_keep_the_other_sizes_of_an_audit() -> None:
    content = {"workload": "w.parquet", "cluster": "c.yaml", "audit": {"jobs": 50, "nodes": 20}}
    for given, audit in (({}, AuditSpec(jobs=50, nodes=20)), ({"jobs": 4}, AuditSpec(jobs=4, nodes=20))):
        assert parse_scenario(overridden(content, {"audit": given}), "test").audit == audit
