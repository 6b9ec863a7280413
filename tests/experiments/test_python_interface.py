"""Sweeps and plans from Python on a real Ray cluster: a mapping does what a file does."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure

import ray_sim as rs
from tests.small_workloads import write_jobs
from tests.sweeps import RESAMPLED
from tests.worlds import Job

pytestmark = [
    pytest.mark.ray,
    pytest.mark.long,
    pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk"),
]


def test_a_sweep_of_a_mapping_runs_and_its_results_can_be_loaded_compared_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = {
        "name": "mapped",
        "workloads": [RESAMPLED],
        "clusters": [Path("small.yaml")],
        "policies": ("fifo", "srtf", "mine:Broken"),
        "seeds": range(2),
    }
    with pytest.warns(UserWarning, match=r"2 seeds are too few .* to tell 3 policies apart"):
        outcome = rs.sweep(content, tmp_path / "store")
    assert (outcome.configurations, len(outcome.failures), outcome.ok) == (6, 2, False)
    assert capsys.readouterr().out == ""
    markup = outcome._repr_html_()
    assert "4 of 6 done" in markup
    assert "ZeroDivisionError: no luck" in markup
    stored = rs.load(outcome.directory)
    assert isinstance(stored, rs.SweepResults)
    assert stored.table.equals(outcome.table)
    assert stored.runs["seed"].to_list() == [0, 1, 0, 1]
    report = rs.compare(outcome, by=["size"])
    assert report.to_dict() == rs.compare(stored, by=["size"]).to_dict()
    assert "by size: fifo over srtf" in report._repr_html_()
    axes = rs.plots.means(outcome, Figure().add_subplot())
    assert [text.get_text() for text in axes.get_xticklabels()] == ["fifo", "srtf"]


def test_a_plan_of_a_mapping_answers_as_the_command_does(tmp_path: Path) -> None:
    # 12 jobs of 10 s at once on n GPUs end in ceil(12 / n) rounds: all within 30 s if n >= 4.
    write_jobs(tmp_path / "jobs.parquet", [Job(0.0, 1.0, 10.0)] * 12)
    (tmp_path / "c.yaml").write_text("name: c\nservers:\n  - {name: s, count: 1, gpus: 1}\n")
    scenario = {"workload": tmp_path / "jobs.parquet", "cluster": tmp_path / "c.yaml"}
    plan = rs.plan(scenario, "p100_jct_s<=30", {"s.count": (1, 6)}, seeds=1, out=tmp_path / "plan")
    (answer,) = plan.plans
    assert answer.best is not None
    assert answer.best.mix == (4,)
    markup = plan._repr_html_()
    assert "needs s.count=4, price 4" in markup
    assert "30 s" in markup
    stored = rs.load(tmp_path / "plan")
    assert isinstance(stored, rs.SweepResults)
    assert len(stored.runs) == len(answer.points)
    label = f"fifo ({tmp_path / 'jobs'}, {tmp_path / 'c.yaml'}@s.count=4)"
    axes = rs.plots.means(plan, Figure().add_subplot())
    assert label in [text.get_text() for text in axes.get_xticklabels()]
