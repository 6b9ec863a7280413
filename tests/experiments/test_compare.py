"""`ray-sim compare` from stored results to its tables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

import ray_sim as rs
from ray_sim.cli import main
from ray_sim.experiments.compare import compare_in_memory, compare_results
from ray_sim.experiments.results.result_files import read_summary
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep import run_sweep
from ray_sim.experiments.sweep_results import SweepResults
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.result import RunResult
from tests.command_line import answer
from tests.results_by_hand import three_jobs
from tests.small_workloads import stored
from tests.stored_sweeps import numbered, scenarios, store_sweep
from tests.worlds import Job

WEEK = ["--workload", "week.parquet", "--cluster", "small.yaml"]


def _simulate(directory: Path, policy: str, *options: str) -> str:
    assert main(["run", *WEEK, "--policy", policy, *options, "-o", str(directory), "--json"]) == 0
    return str(directory)


@pytest.fixture(scope="module")
def two_runs(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """FIFO and SJF on the same forty jobs."""
    directory = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk)
        return _simulate(directory / "fifo", "fifo"), _simulate(directory / "sjf", "sjf")


def _answer(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    capsys.readouterr()
    return answer(capsys, "compare", *argv)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk")
def test_a_sweep_is_compared_over_its_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stores = []
    for name, policies in (("one", ["fifo", "sjf"]), ("two", ["srtf", "mine:Broken", "fifo"])):
        content = {
            "name": name,
            "workloads": [{"path": "week.parquet", "resample": "days"}],
            "clusters": ["small.yaml"],
            "policies": policies,
            "seeds": {"count": 8},
            "log": "numbers",
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))
        run_sweep(tmp_path / f"{name}.yaml", tmp_path / name)
        stores.append(str(tmp_path / name))

    told = _answer(capsys, *stores, "--baseline", "fifo", "--by", "size", "--by", "load")
    assert told == _answer(capsys, *reversed(stores), "--baseline", "fifo", "--by", "size", "--by", "load")
    assert told["runs"] == 24  # fifo is in both sweeps and counts once
    assert len(told["missing"]) == 8  # the broken policy's
    reports: list[tuple[int, int, str]] = []
    compare_results(stores, by=["size"], progress=lambda *report: reports.append(report))
    one, two = sorted(stores)  # each has the 16 runs of two policies; fifo's 8 of the second are the first's
    steps = [(f"runs of {one}", 16), (f"runs of {two}", 16), ("jobs of runs", 24)]
    for step, total in steps:
        assert [report[:2] for report in reports if report[2] == step] == [
            (done, total) for done in range(1, total + 1)
        ]
    (group,) = told["groups"]
    assert (group["workload"], group["cluster"], group["setting"]) == ("week/days", "small.yaml", "")
    compared = {each["policy"]: each for each in group["comparison"]["policies"]}
    assert set(compared) == {"sjf", "srtf"}

    store = ResultStore(Path(stores[0]))
    bounds = {each["policy"]: each for each in group["bounds"]}
    assert set(bounds) == {"fifo", "sjf", "srtf"}
    certified = [row.summary for row in store.rows(store.read_plan()[1]) if row.policy == "sjf"]
    bound = np.mean([each.certificate.bound_s for each in certified if each.certificate is not None])
    mean = np.mean([each.jct_s.mean for each in certified if each.jct_s.mean is not None])
    assert bounds["sjf"]["bound"] == pytest.approx(bound, rel=1e-12)
    assert bounds["sjf"]["gap"] == pytest.approx(mean / bound - 1, rel=1e-9)
    assert bounds["sjf"]["gap"] >= 0
    means = {
        (row.policy, row.seed): row.summary.jct_s.mean or 0.0 for row in store.rows(store.read_plan()[1])
    }
    difference = np.array([means["sjf", seed] - means["fifo", seed] for seed in range(8)])
    sjf = compared["sjf"]
    assert sjf["pairs"] == 8
    assert sjf["difference"] == pytest.approx(difference.mean(), rel=1e-12)
    assert sjf["interval"]["low"] <= difference.mean() <= sjf["interval"]["high"]
    assert sjf["superiority"] == np.mean((difference < 0) + 0.5 * (difference == 0))
    assert [(each["by"], each["policy"]) for each in group["breakdowns"]] == [
        (by, each["policy"]) for each in group["comparison"]["policies"] for by in ("size", "load")
    ]

    (group,) = compare_results(stores, baseline="fifo", by=["size"], policy="srtf").groups
    assert [each.policy for each in group.breakdowns] == ["srtf"]
    assert len(group.comparison.policies) == 2  # p-values are those of all policies

    assert main(["compare", *stores, "--by", "duration"]) == 0
    printed = capsys.readouterr().out
    assert "verdict" in printed
    assert "by duration: fifo over" in printed
    assert re.search(r"lower bound +gap +largest bound", printed)
    assert "failed: week/days, small.yaml, mine:Broken, seed 7" in printed


def test_two_runs_are_compared_job_by_job_and_n_is_1(
    two_runs: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = _answer(capsys, *two_runs, "--baseline", "fifo")
    assert told == _answer(capsys, *reversed(two_runs), "--baseline", "fifo")
    (group,) = told["groups"]
    (sjf,) = group["comparison"]["policies"]
    assert (sjf["pairs"], sjf["interval"], sjf["verdict"]) == (1, None, "not tested")
    assert "seed-free: no run here depends on a seed" in group["comparison"]["notes"]
    jobs = group["jobs"]
    assert jobs["jobs"] == 40
    assert jobs["faster"] + jobs["slower"] + jobs["same"] == 40
    assert jobs["mean_difference_s"] == pytest.approx(sjf["difference"], rel=1e-9)
    assert main(["compare", *two_runs]) == 0
    printed = capsys.readouterr().out
    assert "n = 1: a difference without an interval and without a test" in printed
    assert "job by job" in printed


@pytest.mark.slow
def test_too_few_seeds_and_the_cover_of_their_intervals_are_said(
    two_runs: tuple[str, str], at_desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = [_simulate(tmp_path / seed, "mine:Lottery", "--seed", seed) for seed in "01234"]
    capsys.readouterr()
    assert main(["compare", two_runs[1], *drawn, "--baseline", "sjf"]) == 0
    printed = capsys.readouterr().out
    assert "too few seeds: 6 needed" in printed
    assert (
        "intervals over 5 seeds hold the true value in 95 % of cases if the differences are normal, 88 % if"
        in printed
    )
    assert "83 % if log-normal" in printed
    told = _answer(capsys, two_runs[1], *drawn, "--baseline", "sjf")
    assert told["cover"] == {
        "seeds": 5,
        "percent": {"exponential": 88, "log-normal": 83, "Pareto with tail index 2.5": 78},
    }
    assert _answer(capsys, *two_runs)["cover"] is None


def test_bounds_name_what_binds_and_only_metrics_with_bounds_have_them(two_runs: tuple[str, str]) -> None:
    (group,) = compare_results(two_runs).groups
    fifo, sjf = group.bounds
    assert (fifo.policy, fifo.runs, sjf.policy) == ("fifo", 1, "sjf")
    summary = json.loads((Path(two_runs[0]) / "summary.json").read_text())
    assert fifo.bound == summary["certificate"]["bound_s"]
    assert fifo.gap == pytest.approx(summary["certificate"]["gap"])
    assert fifo.largest is not None
    assert fifo.largest.startswith(summary["certificate"]["binding"])
    assert not compare_results(two_runs, "makespan_s").groups[0].bounds


@pytest.mark.parametrize(
    "metric", ["jct_s.p99", "queue_s.mean", "makespan_s", "utilisation.gpu", "preemptions"]
)
def test_any_number_of_the_summary_can_be_compared(two_runs: tuple[str, str], metric: str) -> None:
    (group,) = compare_results(two_runs, metric, "fifo").groups
    fifo, sjf = (json.loads((Path(directory) / "summary.json").read_text()) for directory in two_runs)
    for key in metric.split("."):
        fifo, sjf = fifo[key], sjf[key]
    assert group.comparison.policies[0].difference == sjf - fifo


def test_mistakes_are_named(two_runs: tuple[str, str], desk: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown metric 'jct_s.p9'. Did you mean 'jct_s.p9[09]'"):
        compare_results(two_runs, "jct_s.p9")
    with pytest.raises(UnknownNameError, match=r"unknown baseline 'fifi'. Did you mean 'fifo'"):
        compare_results(two_runs, baseline="fifi")
    with pytest.raises(UnknownNameError, match=r"unknown --by 'sise'. Did you mean 'size'"):
        compare_results(two_runs, by=["sise"])
    with pytest.raises(UnknownNameError, match=r"unknown policy 'fifi'. Did you mean 'fifo'"):
        compare_results(two_runs, by=["size"], policy="fifi")
    for mistake, by, text in (("fifo", [], "only with --by"), ("fifo", ["size"], "is the baseline")):
        with pytest.raises(InvalidInputError, match=f"--policy fifo: {text}"):
            compare_results(two_runs, baseline="fifo", by=by, policy=mistake)
    with pytest.raises(InvalidInputError, match="holds neither a run"):
        compare_results([two_runs[0], str(desk)])


def test_nothing_in_common_says_what_there_is(
    two_runs: tuple[str, str], at_desk: Path, tmp_path: Path
) -> None:
    other = _simulate(tmp_path / "slow", "sjf", "-w", "restart_cost_s=60")
    with pytest.raises(InvalidInputError) as caught:
        compare_results([two_runs[0], other])
    assert str(caught.value).splitlines() == [
        "nothing to compare: it takes runs of two policies on the same workload, cluster, setting and seed",
        "  finished runs: 2; failed or missing: 0",
        "  week, small.yaml: left out, it has no two policies: fifo",
        "  week, small.yaml, restart_cost_s=60: left out, it has no two policies: sjf",
    ]
    with pytest.raises(InvalidInputError, match="finished runs: 1;"):
        compare_results([two_runs[0], two_runs[0]])


def test_a_place_without_the_baseline_is_left_out_and_said(
    two_runs: tuple[str, str], at_desk: Path, tmp_path: Path
) -> None:
    slow = [_simulate(tmp_path / policy, policy, "-w", "restart_cost_s=60") for policy in ("srtf", "las")]
    report = compare_results([*two_runs, *slow], baseline="fifo")
    assert len(report.groups) == 1
    assert report.notes == (
        "week, small.yaml, restart_cost_s=60: left out, the baseline fifo has no run there",
    )
    assert len(compare_results([*two_runs, *slow]).groups) == 2


@pytest.mark.slow
def test_settings_of_a_policy_are_compared_as_policies_of_a_setting_are(
    at_desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two policies with and without a restart cost: a group for each policy; fifo never restarts anything."""
    cost = {"free": [], "dear": ["-w", "restart_cost_s=600"]}
    sources = [
        _simulate(tmp_path / f"{policy}-{name}", policy, *options)
        for policy in ("fifo", "srtf")
        for name, options in cost.items()
    ]
    report = compare_results(sources, baseline="defaults", across="world")
    assert report.compared == "settings"
    found = {group.setting: group.comparison.policies[0] for group in report.groups}
    assert {name: each.policy for name, each in found.items()} == dict.fromkeys(
        ("fifo", "srtf"), "restart_cost_s=600"
    )
    assert found["fifo"].difference == 0
    free, dear = (read_summary(Path(source)).jct_s.mean for source in sources[2:])
    assert free is not None
    assert dear is not None
    assert found["srtf"].difference == dear - free > 0
    assert main(["compare", *sources, "--settings"]) == 0
    assert "setting" in capsys.readouterr().out
    with pytest.raises(
        InvalidInputError, match="two settings on the same workload, cluster, policy and seed"
    ):
        compare_results([sources[0], sources[2]], across="world")


def test_the_classes_of_trimmed_runs_hold_the_jobs_that_count(at_desk: Path, tmp_path: Path) -> None:
    sources = [_simulate(tmp_path / policy, policy, "--warm-up", "86400") for policy in ("fifo", "sjf")]
    counted = {read_summary(Path(source)).completed for source in sources}
    report = compare_results(sources, by=["size"])
    (group,) = report.groups
    (breakdown,) = group.breakdowns
    assert {sum(each.jobs for each in breakdown.classes)} == counted
    assert max(counted) < 40


def test_classes_have_the_metric_or_it_is_refused(two_runs: tuple[str, str]) -> None:
    """The queueing delays of the classes, weighted by their jobs, are that of the run."""
    report: Any = compare_results(two_runs, "queue_s.mean", "fifo", ["size"]).to_dict()
    (breakdown,) = report["groups"][0]["breakdowns"]
    assert breakdown["metric"] == "queue_s.mean"
    means = [(each["jobs"], each["mean_queue_s"]) for each in breakdown["classes"]]
    queue_s = read_summary(Path(two_runs[1])).queue_s.mean
    assert sum(jobs * mean for jobs, mean in means) / 40 == pytest.approx(queue_s, rel=1e-9)
    text = r"--metric makespan_s: .* with --by name jct_s.mean or queue_s.mean"
    with pytest.raises(InvalidInputError, match=text):
        compare_results(two_runs, "makespan_s", by=["size"])


def test_across_clusters_the_jobs_that_one_refuses_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two jobs of 60 s, of 2 and 8 GPUs: 4 GPUs refuse the second; both run at once on three such servers.
    stored(tmp_path / "two.parquet", [Job(0, 2, 60), Job(0, 8, 60)])
    monkeypatch.chdir(tmp_path)
    Path("one.yaml").write_text("name: one\nservers:\n  - {name: gpu, count: 1, gpus: 4}\n")
    clusters = ["one.yaml", "one.yaml@gpu.count=3"]
    for number, cluster in enumerate(clusters):
        where = ["--workload", "two.parquet", "--cluster", cluster, "--policy", "fifo"]
        assert main(["run", *where, "-o", f"runs/{number}", "--json"]) == 0
    capsys.readouterr()
    assert main(["compare", "runs", "--across", "cluster"]) == 0
    printed = capsys.readouterr().out
    assert "--by all compares the jobs that both complete" in printed
    told = _answer(capsys, "runs", "--across", "cluster", "--by", "all")["groups"][0]
    assert told["comparison"]["baseline_completed"] == 1
    assert told["comparison"]["policies"][0]["completed"] == 2
    (breakdown,) = told["breakdowns"]
    (both,) = breakdown["classes"]
    assert (both["label"], both["jobs"], both["ratio"]) == ("completed under both", 1, 1.0)
    assert breakdown["left_out"] == 1


def test_two_results_are_compared_job_by_job_and_without_a_test() -> None:
    # Three jobs whose second takes 40 or 30 s: means of (10 + last) / 2.
    report = compare_in_memory({"fifo": three_jobs(40.0), "las": three_jobs(30.0)})
    (group,) = report.groups
    assert (report.metric, report.runs, report.lower_is_better) == ("jct_s.mean", 2, True)
    assert (group.comparison.baseline, group.comparison.baseline_mean) == ("las", 20.0)
    (fifo,) = group.comparison.policies
    assert (fifo.policy, fifo.difference) == ("fifo", 5.0)
    assert fifo.relative_percent == pytest.approx(25.0)
    assert fifo.interval is None
    assert any("without an interval" in note for note in group.comparison.notes)
    assert group.jobs is not None
    assert (group.jobs.policy, group.jobs.jobs, group.jobs.slower, group.jobs.same) == ("fifo", 2, 1, 1)
    assert group.jobs.most_slower[0].job_id == "b"
    assert "jobs under fifo against las" in report._repr_html_()


def test_seeds_are_paired_in_their_order() -> None:
    # Means 15, 25, 35, 45, 55 and 20, 31, 42, 51, 60: differences 5, 6, 7, 6, 5, whose s is 0.83666.
    report = compare_in_memory(
        {
            "a": [three_jobs(each) for each in (20.0, 40.0, 60.0, 80.0, 100.0)],
            "b": [three_jobs(each) for each in (30.0, 52.0, 74.0, 92.0, 110.0)],
        },
        baseline="a",
    )
    (b,) = report.groups[0].comparison.policies
    assert b.pairs == 5
    assert b.difference == pytest.approx(5.8)
    assert b.interval is not None
    assert b.interval.low == pytest.approx(5.8 - 2.776445 * 0.83666 / 5**0.5, rel=1e-5)
    assert report.groups[0].jobs is None
    assert "too few seeds" in report._repr_html_()


def test_other_jobs_other_metrics_and_one_policy_are_refused() -> None:
    one = three_jobs(40.0)
    other = RunResult(
        one.jobs.with_columns(submit_s=pl.col("submit_s") + 1), one.events, one.timeline, one.summary, ""
    )
    with pytest.raises(
        InvalidInputError, match=r"las\[0\] has other jobs, or other submissions, than fifo\[0\]"
    ):
        compare_in_memory({"fifo": one, "las": other})
    with pytest.raises(UnknownNameError, match=r"jct_s\.mean"):
        compare_in_memory({"fifo": one, "las": one}, metric="jct_s.men")
    with pytest.raises(UnknownNameError, match="baseline"):
        compare_in_memory({"fifo": one, "las": one}, baseline="sjf")
    with pytest.raises(InvalidInputError, match="expected results of two policies, found 1"):
        compare_in_memory({"fifo": one})
    with pytest.raises(InvalidInputError, match="with 1, 0 runs"):
        compare_in_memory({"fifo": one, "las": []})


@pytest.mark.parametrize("name", ["shortest, filled", "sjf", "sjf(backfill=True)"])
def test_a_baseline_is_named_by_label_by_name_or_by_parameters(name: str, tmp_path: Path) -> None:
    runs = scenarios(["sjf"], 2, params={"backfill": True}, label="shortest, filled")
    store_sweep(tmp_path, "labels", numbered([*runs, *scenarios(["fifo"], 2)]))
    [group] = compare_results([str(tmp_path)], baseline=name).groups
    assert group.comparison.baseline == "shortest, filled"


@pytest.mark.parametrize("name", ["filled", "backfill=True"])
def test_across_parameters_a_label_names_the_value_of_its_policy(name: str, tmp_path: Path) -> None:
    runs = scenarios(["sjf"], 2, params={"backfill": True}, label="filled")
    store_sweep(tmp_path, "labels", numbered([*scenarios(["sjf"], 2), *runs]))
    [group] = compare_results([str(tmp_path)], across="params", baseline=name).groups
    assert group.comparison.baseline == "backfill=True"
    assert [each.policy for each in group.comparison.policies] == ["defaults"]


def test_a_folder_of_runs_is_loaded_and_reported_as_it_is_compared(
    two_runs: tuple[str, str], tmp_path: Path
) -> None:
    folder = Path(two_runs[0]).parent
    results = rs.load(folder)
    assert isinstance(results, SweepResults)
    means = {row["policy"]: row["jct_s.mean"] for row in results.runs.to_dicts()}
    (group,) = compare_results([str(folder)]).groups
    assert group.comparison.baseline_mean == min(means.values())
    assert results.result("sjf").summary == read_summary(Path(two_runs[1]))
    written = rs.report(folder, tmp_path / "page.html")
    assert (written.kind, written.done, written.missing) == ("sweep", 2, 0)
