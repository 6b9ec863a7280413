"""Sweeps on a real Ray cluster: configurations, failures, and processes that die."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ray_sim.experiments.fanout.driver import fan_out
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results.result_files import read_result
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run import simulate
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.sweep import run_sweep
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.model.errors import InvalidInputError
from tests.sweeps import RESAMPLED, children, sweep_file

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_cluster", "mlflow_uri", "at_desk")]


def test_a_sweep_gives_what_single_runs_give(tmp_path: Path) -> None:
    report = run_sweep(sweep_file(tmp_path, "alike", seeds=[0, 1]), tmp_path / "store")
    assert report.ok
    assert report.configurations == 2  # nothing draws, so the second seed adds nothing
    assert report.logged is not None
    assert (report.logged.created, report.logged.present) == (2, 0)
    store = ResultStore(tmp_path / "store")
    for entry in store.read_plan()[1]:
        stored = read_result(store.run_directory(entry.content_hash))
        assert stored.jobs.equals(simulate("week.parquet", "small.yaml", entry.policy).jobs)
    assert report.table["policy"].to_list() == ["fifo", "sjf"]


NAMED = '''
from pathlib import Path

from ray import get_runtime_context

from ray_sim.policies.fifo import Fifo


class Named(Fifo):
    """Notes the name of the task that runs it."""

    name = "named"

    def order(self, world):
        with Path(__file__).with_name("names").open("a") as file:
            file.write(get_runtime_context().get_task_name() + "\\n")
        return super().order(world)
'''


def test_a_task_has_the_names_of_its_workload_cluster_policy_and_seed(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "named.py").write_text(NAMED)
    (at_desk / "names").unlink(missing_ok=True)
    sweep = sweep_file(tmp_path, "named", workloads=[RESAMPLED], policies=["named:Named"], seeds={"count": 3})
    assert run_sweep(sweep, tmp_path / "store").ok
    names = (at_desk / "names").read_text().splitlines()
    assert names
    pattern = re.compile(r"week/days, small\.yaml, named:Named, seed [012](, and [12] more)?")
    assert [name for name in names if not pattern.fullmatch(name)] == []


def test_a_resampled_workload_gives_one_run_per_seed_and_the_table_their_mean(tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, "seeds", workloads=[RESAMPLED], policies=["fifo"], seeds={"count": 3})
    report = run_sweep(sweep, tmp_path / "store")
    store = ResultStore(tmp_path / "store")
    rows = store.rows(store.read_plan()[1])
    means = [row.summary.jct_s.mean or 0.0 for row in rows]
    assert len(set(means)) > 1
    assert report.table["seeds"].to_list() == [3]
    assert report.table["jct_s.mean"].to_list() == [pytest.approx(sum(means) / 3, rel=1e-12)]


def test_realised_and_trimmed_runs_of_a_sweep_are_those_of_single_scenarios(tmp_path: Path) -> None:
    workload = {**RESAMPLED, "window": [[0, 200_000]], "load_scale": [1, 2]}
    like = {"synth": {"like": "week.parquet", "jobs": 30, "arrivals": "alternating"}}
    sweep = sweep_file(tmp_path, "realised", workloads=[workload, like], trim={"warm_up_s": 3600}, seeds=[3])
    assert run_sweep(sweep, tmp_path / "store").ok
    store = ResultStore(tmp_path / "store")
    for configuration in read_sweep(sweep, HashedInputs()).configurations:
        alone = prepare(configuration.identity.scenario).run()
        stored = read_result(store.run_directory(configuration.entry.content_hash))
        assert stored.summary == alone.result.summary
        assert stored.summary.trimmed_jobs
    params = [run.data.params for run in children("realised")]
    assert {each["trim.warm_up_s"] for each in params} == {"3600.0"}
    assert {each["workload"] for each in params} == {
        "week/0-200000s/days",
        "week/0-200000s/days/x2.0",
        "synth:like-week:30:alternating",
    }


SERVERS = """
name: servers
servers:
  - {name: c5n, count: 30, gpus: 8, cpus: 72, memory_gib: 192, disk_gib: 500}
"""


def test_a_sweep_draws_whole_jobs_anew_for_each_seed(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "servers.yaml").write_text(SERVERS)
    drawn = {"profile": "pd_ors", "jobs": [5, 10], "horizon_s": 36_000, "feasible_only": True}
    sweep = sweep_file(
        tmp_path,
        "drawn",
        workloads=[{"synth": drawn}],
        clusters=["servers.yaml"],
        policies=["fifo", "pd_ors"],
        world={"truth": "pd_ors", "slot_s": 3600, "horizon_s": 36_000},
        seeds=[0, 1],
    )
    report = run_sweep(sweep, tmp_path / "store")
    assert report.ok
    assert report.table["seeds"].to_list() == [2] * 4
    assert report.table["workload"].unique().sort().to_list() == [
        "synth:pd_ors:10:within-36000s:feasible",
        "synth:pd_ors:5:within-36000s:feasible",
    ]
    store = ResultStore(tmp_path / "store")
    summaries = [row.summary for row in store.rows(store.read_plan()[1])]
    assert sorted(summary.jobs for summary in summaries) == [5] * 4 + [10] * 4
    for summary in summaries:
        assert summary.utility_certificate is not None
        assert 0 <= (summary.utility or 0.0) <= summary.utility_certificate.bound
    bounds = {summary.utility_certificate.bound for summary in summaries if summary.utility_certificate}
    assert len(bounds) == 4  # of two sizes and two seeds, whatever the policy


def test_a_profile_without_workers_is_refused_before_anything_runs(tmp_path: Path) -> None:
    drawn = {"profile": "harmony_types", "jobs": 5, "horizon_s": 36_000}
    sweep = sweep_file(tmp_path, "refused", workloads=[{"synth": drawn}])
    with pytest.raises(
        InvalidInputError, match=r"workloads\[0\]: training profile harmony_types: .*num_workers"
    ):
        run_sweep(sweep, tmp_path / "store")


def test_one_failing_configuration_is_reported_and_takes_no_other_with_it(tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, "broken", policies=["fifo", "mine:Broken", "sjf"])
    report = run_sweep(sweep, tmp_path / "store")
    assert not report.ok
    assert [failure.entry.policy for failure in report.failures] == ["mine:Broken"]
    assert json.loads(json.dumps(report.to_dict()))["failures"][0]["policy"] == "mine:Broken"
    assert "ZeroDivisionError: no luck" in (report.failures[0].error or "")
    assert "mine.py, line" in (report.failures[0].error or "")
    assert report.table["policy"].to_list() == ["fifo", "sjf"]
    statuses = {run.info.run_name: run.info.status for run in children("broken")}
    assert statuses == {"fifo": "FINISHED", "sjf": "FINISHED", "mine:Broken": "FAILED"}


def test_a_process_that_dies_is_tried_again_and_the_reason_is_kept(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "died").unlink(missing_ok=True)
    report = run_sweep(
        sweep_file(tmp_path, "mortal", policies=["mine:DeadlyOnce", "fifo"]), tmp_path / "store"
    )
    assert report.ok
    (retried,) = report.retried
    assert retried.entry.policy == "mine:DeadlyOnce"
    assert [reason.split(":")[0] for reason in retried.lost] == ["WorkerCrashedError"]
    tags = {run.info.run_name: run.data.tags.get("ray_sim.lost_attempts") for run in children("mortal")}
    assert tags == {"fifo": None, "mine:DeadlyOnce": retried.lost[0]}
    assert json.loads(json.dumps(report.to_dict()))["retried"][0]["lost_attempts"] == list(retried.lost)


@pytest.mark.long
def test_what_always_kills_its_process_fails_after_three_attempts_and_the_others_finish(
    tmp_path: Path,
) -> None:
    sweep = sweep_file(tmp_path, "deadly", policies=["mine:Deadly", "fifo", "mine:Leaving", "sjf"])
    report = run_sweep(sweep, tmp_path / "store")
    errors = {failure.entry.policy: failure.error or "" for failure in report.failures}
    assert "its process died in each of 3 attempts" in errors["mine:Deadly"]
    assert "SystemExit: 3" in errors["mine:Leaving"]
    assert [len(outcome.lost) for outcome in report.retried] == [3]
    assert report.table["policy"].to_list() == ["fifo", "sjf"]


def test_a_lost_task_costs_only_the_run_that_was_under_way(tmp_path: Path, at_desk: Path) -> None:
    # A run takes milliseconds, so a task has many; of 60 runs one kills it, and is made once more. The policy
    # starts once before, when the sweep is checked.
    (at_desk / "diary").unlink(missing_ok=True)
    sweep = sweep_file(tmp_path, "midway", policies=["mine:DeadlyMidway"], seeds={"count": 60}, log="numbers")
    report = run_sweep(sweep, tmp_path / "store")
    assert (report.ok, report.table["seeds"].to_list()) == (True, [60])
    (retried,) = report.retried
    assert len(retried.lost) == 1
    assert len((at_desk / "diary").read_text().splitlines()) == 1 + 60 + 1


@pytest.mark.long
def test_a_lost_task_is_made_up_for_where_its_worker_saw_no_store(tmp_path: Path, at_desk: Path) -> None:
    (at_desk / "diary").unlink(missing_ok=True)
    file = sweep_file(tmp_path, "far-midway", policies=["mine:DeadlyMidway"], seeds={"count": 60})
    sweep = read_sweep(file)
    store = ResultStore(tmp_path / "store")  # no sweep holds it
    (tmp_path / "store" / "runs").mkdir(parents=True)
    ended = list(fan_out(sweep.configurations, sweep.inputs, store))
    assert len(ended) == 60
    assert [outcome.error for outcome in ended if outcome.error] == []
    assert [len(outcome.lost) for outcome in ended if outcome.lost] == [1]
    assert all(store.has(outcome.entry.content_hash) for outcome in ended)


def test_configurations_on_the_same_jobs_come_together_and_are_the_single_runs(tmp_path: Path) -> None:
    # Seeds vary fastest in the file; two policies on the jobs of one seed are run one after the other.
    sweep = read_sweep(sweep_file(tmp_path, "together", workloads=[RESAMPLED], seeds={"count": 12}))
    store = ResultStore(tmp_path / "store")
    with store.writing("together"):
        running = fan_out(sweep.configurations, sweep.inputs, store, max_in_flight=1)
        ended = [outcome.entry.seed for outcome in running]
    assert [each.entry.seed for each in sweep.configurations] == [*range(12), *range(12)]
    assert ended == [seed for seed in range(12) for _policy in ("fifo", "sjf")]
    for configuration in sweep.configurations[::5]:
        stored = read_result(store.run_directory(configuration.entry.content_hash))
        assert stored.jobs.equals(prepare(configuration.identity.scenario).run().result.jobs)


def test_a_configuration_that_hangs_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    sweep = read_sweep(sweep_file(tmp_path, "hangs", policies=["mine:Hanging", "fifo"], seeds=[0]))
    store = ResultStore(tmp_path / "store")
    (tmp_path / "store" / "runs").mkdir(parents=True)
    ended = {
        each.entry.policy: each for each in fan_out(sweep.configurations, sweep.inputs, store, stop_after_s=3)
    }
    error = ended["mine:Hanging"].error
    assert error is not None
    assert error.startswith("stopped after 3 s, as --stop-after-s asks: at work in ")
    assert "mine.py, line " in error
    assert (ended["fifo"].error, ended["mine:Hanging"].lost) == (None, ())


def test_without_ray_a_sweep_has_the_same_results_and_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = ["fifo", "mine:Broken", "srtf"]
    sweep = sweep_file(tmp_path, "here", policies=policies, workloads=[RESAMPLED], seeds=[0, 1])
    on_ray = run_sweep(sweep, tmp_path / "ray")
    monkeypatch.setattr("ray.init", None)
    here = run_sweep(sweep, tmp_path / "here", address="none")
    assert here.table.equals(on_ray.table)
    assert {each.entry for each in here.failures} == {each.entry for each in on_ray.failures}
    for path in (tmp_path / "ray" / "runs").glob("*/jobs.parquet"):
        assert path.read_bytes() == (tmp_path / "here" / path.relative_to(tmp_path / "ray")).read_bytes()
    resumed = run_sweep(sweep, tmp_path / "here", address="none", resume=True)
    assert (resumed.resumed, len(resumed.failures)) == (4, 2)
    stops = iter([False, True])
    stopped = run_sweep(sweep, tmp_path / "stopped", address="none", stop=lambda: next(stops))
    assert (stopped.stopped, stopped.missing) == ("interrupted", 5)
    actors = sweep_file(tmp_path, "actors", fleet="actors")
    with pytest.raises(InvalidInputError, match="--address none: fleet=actors needs Ray"):
        run_sweep(actors, tmp_path / "actors", address="none")


def test_an_address_that_is_none_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"--address 10\.0\.0\.1: must be local, auto, ray://"):
        run_sweep(sweep_file(tmp_path, "lost"), tmp_path / "store", address="10.0.0.1")
    assert not (tmp_path / "store").exists()


def test_a_problem_of_the_file_leaves_no_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        run_sweep(sweep_file(tmp_path, "bad", policies=["fofi"]), tmp_path / "store")
    assert not (tmp_path / "store").exists()
