"""Comparison of results in memory, by hand."""

from __future__ import annotations

import polars as pl
import pytest

from ray_sim.experiments.compare_in_memory import compare_in_memory
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.result import RunResult
from tests.results_by_hand import three_jobs


def with_jct(last_jct_s: float) -> RunResult:
    """Three jobs whose second takes this long: the mean JCT is (10 + last) / 2."""
    return three_jobs(last_jct_s)


def test_two_results_are_compared_job_by_job_and_without_a_test() -> None:
    report = compare_in_memory({"fifo": with_jct(40.0), "las": with_jct(30.0)})
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
            "a": [with_jct(each) for each in (20.0, 40.0, 60.0, 80.0, 100.0)],
            "b": [with_jct(each) for each in (30.0, 52.0, 74.0, 92.0, 110.0)],
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
    one = with_jct(40.0)
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
