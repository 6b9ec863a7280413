"""Scores of a run: one measure for all kinds of jobs, from arithmetic that fits into the test."""

from __future__ import annotations

import math

import polars as pl
import pytest

from ray_sim.experiments.arena.run import job_scores
from ray_sim.model.job import JobTable
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
