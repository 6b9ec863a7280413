"""Scores of a run: one measure for all kinds of jobs, by hand, and from the result files of a small arena."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ray_sim.cli import main
from ray_sim.experiments.arena.file import read_arena
from ray_sim.experiments.arena.run import arena_scores, job_scores
from ray_sim.model.job import JobTable
from tests.reports.arena_by_hand import assert_tables
from tests.sweeps import run_here
from workloads.job_table import frame_to_table
from workloads.schema import with_all_columns

SUBMIT_S = (0.0, 100.0, 200.0, 300.0)


def _table(**columns: object) -> JobTable:
    """Four jobs of 100 s each, submitted 100 s apart."""
    frame = pl.DataFrame(
        {
            "job_id": list("abcd"),
            "trace_order": [0, 1, 2, 3],
            "submit_s": SUBMIT_S,
            "num_gpus": [1.0] * 4,
            "duration_s": [100.0] * 4,
            **columns,
        }
    )
    return frame_to_table(with_all_columns(frame))


def _jobs(
    finish_s: dict[str, float], restarts: tuple[int, ...], preemptions: tuple[int, ...]
) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "job_id": list("dcba"),  # in any order
            "status": ["completed" if job in finish_s else "rejected" for job in "dcba"],
            "finish_s": [finish_s.get(job) for job in "dcba"],
            "restarts": restarts,
            "preemptions": preemptions,
        }
    )


ENDS = {"a": 100.0, "b": 300.0, "c": 600.0}
"""a takes 100 s from its submission, b 200 s, c 400 s; d is rejected."""

JOBS = _jobs(ENDS, restarts=(0, 3, 1, 0), preemptions=(0, 0, 2, 0))


def test_times_count_from_the_submission_and_only_completed_jobs_have_them() -> None:
    scores = job_scores(_table(), JOBS)
    assert (scores["jobs"], scores["completed"]) == (4, 3)
    assert scores["jct_mean_s"] == pytest.approx((100 + 200 + 400) / 3)
    # Ranks 0, 1, 2 of 100, 200, 400: the 99th percentile is at rank 1.98.
    assert scores["jct_p99_s"] == pytest.approx(200 + 0.98 * 200)
    assert scores["makespan_s"] == 600
    assert scores["restarts"] == (0 + 2 + 3 + 0) / 4


def test_fairness_is_jains_index_of_run_time_over_completion_time_and_0_for_a_rejected_job() -> None:
    # Rates 1, 1/2, 1/4, 0: (1.75)^2 / (4 (1 + 1/4 + 1/16)).
    assert job_scores(_table(), JOBS)["fairness"] == pytest.approx(1.75**2 / (4 * 1.3125))


def test_utility_is_that_of_the_record_in_continuous_time() -> None:
    table = _table(utility_max=[10.0] * 4, utility_decay_per_s=[0.01] * 4, utility_due_s=[200.0] * 4)
    scores = job_scores(table, JOBS)
    # Delays 100, 200, 400 s with the due time 200 s: 10 / (1 + e^-1), 10 / 2, 10 / (1 + e^2).
    assert scores["utility"] == pytest.approx(10 / (1 + math.exp(-1)) + 5 + 10 / (1 + math.exp(2)))
    assert scores["due_share"] == 2 / 4  # a, and b exactly at its due time
    assert scores["welfare"] is None


def test_welfare_is_the_true_value_at_the_finish_counted_from_the_birth() -> None:
    table = _table(
        birth_s=[-50.0, 100.0, 150.0, 300.0],
        value=["deadline 7 150", "deadline 5 199", "linear 8 0 900", "deadline 9 1000"],
        outlook=["50:100:1", "0:100:1", "50:100:1", "0:100:1"],
    )
    # a: 150 s after its birth, exactly at its deadline. b: 200 s, too late. c: 450 s of 900: half of 8.
    assert job_scores(table, JOBS)["welfare"] == pytest.approx(7 + 0 + 4)


def test_without_a_completed_job_times_are_absent() -> None:
    scores = job_scores(_table(), _jobs({}, (0,) * 4, (0,) * 4))
    absent = ("jct_mean_s", "jct_p99_s", "makespan_s", "fairness")
    assert [scores[name] for name in absent] == [None] * 4
    assert scores["completed"] == 0


WORKLOAD = {"synth": {"profile": "philly", "jobs": 8, "load_scale": 4.0}, "enrich": "common"}
ANNOUNCED = {"truth": "announced", "restart_cost_s": 0, "horizon_s": 3_000_000, "clip_statements": True}
ARENA = {
    "name": "small",
    "seeds": {"count": 3},
    "world": {"truth": "placement", "slot_s": 600, "restart_cost_s": 30},
    "policies": {
        "fifo": {},
        "las": {},
        "drf": {},
        "a_online": {"world": {"truth": "a_online", "slot_s": 60, "restart_cost_s": 0}},
        "posted_price": {"world": ANNOUNCED},
    },
    "places": [
        {"name": "base", "workload": WORKLOAD, "cluster": "arena-scarce"},
        {
            "name": "one NIC",
            "workload": WORKLOAD,
            "cluster": "arena-scarce",
            "changes": "base",
            "world": {"nic": "per_server"},
            "policies": {"a_online": None, "posted_price": None},
        },
    ],
}


Job = Mapping[str, Any]
"""A row of the workload."""


def _submitted(seed: int, folder: Path) -> dict[str, Job]:
    """The jobs that this seed draws, by name."""
    drawn, record = folder / "drawn.parquet", folder / "record.parquet"
    synth = ["synth", "philly", "-n", "8", "--load-scale", "4", "--seed", str(seed), "-o", str(drawn)]
    assert main(synth) == 0
    enrich = ["enrich", str(drawn), "--profile", "common", "--seed", str(seed), "-o", str(record)]
    assert main(enrich) == 0
    return {job["job_id"]: job for job in pl.read_parquet(record).to_dicts()}


def _utility(job: Job, after_s: float) -> float:
    return _falling(job["utility_max"], job["utility_decay_per_s"], after_s - job["utility_due_s"])


def _value(job: Job, finish_s: float) -> float:
    kind, *numbers = job["value"].split()
    most, rate, due, last = map(float, numbers)
    assert kind == "sigmoid"
    from_birth_s = finish_s - job["birth_s"]
    return _falling(most, rate, from_birth_s - due) if from_birth_s <= last else 0.0


def _falling(most: float, rate: float, late_s: float) -> float:
    return most / (1 + math.exp(min(700.0, rate * late_s)))


def _measured(directory: Path, submitted: Mapping[str, Job]) -> dict[str, float | None]:
    """Every measure of a run, from its files and the jobs as they were submitted."""
    summary, timing = (json.loads((directory / name).read_text()) for name in ("summary.json", "timing.json"))
    ends = {row["job_id"]: row for row in pl.read_parquet(directory / "jobs.parquet").to_dicts()}
    assert ends.keys() == submitted.keys()
    done = {name: row["finish_s"] for name, row in ends.items() if row["status"] == "completed"}
    after = {name: end - submitted[name]["submit_s"] for name, end in done.items()}
    on_time = [time <= submitted[name]["utility_due_s"] for name, time in after.items()]
    rates = [submitted[name]["duration_s"] / time for name, time in after.items()]
    times = sorted(after.values())
    place = 0.99 * (len(times) - 1)
    below, above = times[math.floor(place)], times[math.ceil(place)]
    certificates = [summary[name] or {} for name in ("certificate", "utility_certificate", "welfare")]
    return {
        "jobs": len(ends),
        "completed": len(done),
        "jct_mean_s": sum(times) / len(times),
        "jct_p99_s": below + (above - below) * (place - math.floor(place)),
        "makespan_s": max(done.values()) - min(job["submit_s"] for job in submitted.values()),
        "utility": sum(_utility(submitted[name], time) for name, time in after.items()),
        "welfare": sum(_value(submitted[name], end) for name, end in done.items()),
        "due_share": sum(on_time) / len(ends),
        "fairness": sum(rates) ** 2 / len(ends) / sum(rate**2 for rate in rates),
        "restarts": sum(max(row["restarts"], row["preemptions"]) for row in ends.values()) / len(ends),
        "cross_server_gb": summary["cross_server_gb"],
        "decision_ms": timing["decision_s"]["total"] * 1000 / len(ends),
        "jct_bound_s": certificates[0].get("bound_s"),
        "utility_bound": certificates[1].get("bound"),
        "welfare_bound": certificates[2].get("bound"),
    }


@pytest.mark.slow
def test_scores_and_tables_are_those_of_the_result_files(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(json.dumps(ARENA))
    arena = read_arena(path)
    store = run_here(arena.sweep, tmp_path / "results")
    scores = arena_scores(arena, store)
    found = {(row["place"], row["policy"], row["seed"]): row for row in scores.to_dicts()}
    assert len(found) == 3 * (5 + 3)
    submitted = {seed: _submitted(seed, tmp_path) for seed in range(3)}
    for place in arena.places:
        for run in place.runs:
            row = found[place.name, run.policy, run.seed]
            directory = store.run_directory(run.configuration.entry.content_hash)
            for key, value in _measured(directory, submitted[run.seed]).items():
                near = None if value is None else pytest.approx(value, rel=1e-9)
                assert row[key] == near, (place.name, run, key)
    assert assert_tables(scores, [("fifo", "las", "service")], {"base": ["one NIC"]}) > 800
