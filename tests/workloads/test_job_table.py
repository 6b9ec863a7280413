"""Records of a table of jobs that are there only where jobs have their columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from workloads.job_table import frame_to_table

Jobs = Callable[..., pl.DataFrame]


def test_measured_jobs_have_a_weight_of_1_no_batch_and_no_deadline_where_the_workload_has_none(
    jobs: Jobs,
) -> None:
    columns = {"batch": [64, None], "weight": [2.5, None], "utility_due_s": [None, 90.0]}
    table = frame_to_table(jobs(2, model=["net", "walk"], steps=[10, 20], **columns))
    measured = table.measured
    assert measured is not None
    np.testing.assert_array_equal(measured.batch, [64, np.nan])
    assert measured.steps.tolist() == [10, 20]
    assert measured.weight.tolist() == [2.5, 1]
    assert measured.deadline_s.tolist() == [np.inf, 90]


def test_jobs_without_a_model_or_steps_are_not_measured(jobs: Jobs) -> None:
    assert frame_to_table(jobs(2, model=["net", None])).measured is None
    some = frame_to_table(jobs(2, model=["net", None], steps=[10, None])).measured
    assert some is not None
    np.testing.assert_array_equal(some.steps, [10, np.nan])
