"""Profiles, workloads and options that enrichment refuses, each with a message."""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from tests.proofs import instances
from tests.training_profiles import JUNK, PROFILES, SMALL, Jobs, of_yaml, philly
from workloads.checks import check_frame
from workloads.schema import with_all_columns
from workloads.training.enrich import Feasibility, enrich


def test_a_workload_without_jobs_cannot_be_enriched() -> None:
    for profile in PROFILES:
        with pytest.raises(InvalidWorkloadError, match="a workload without jobs"):
            enrich(philly(1).clear(), load_training_draws(profile), seed=1)


@pytest.mark.slow
@given(
    column=st.sampled_from([*yaml.safe_load(SMALL)["columns"], "chunks", "utility_max", "loss_b0", "x"]),
    value=JUNK,
    gpus=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0, 64.0, 2.0**20]), min_size=1, max_size=5),
    duration_s=st.sampled_from([0.0, 1.0, 1e5, 2.0**36]),
)
@settings(max_examples=instances(200))
def test_any_profile_is_drawn_from_or_refused_with_a_message(
    column: str, value: object, gpus: list[float], duration_s: float
) -> None:
    content = yaml.safe_load(SMALL)
    content["columns"][column] = value
    columns = {
        "job_id": [str(i) for i in range(len(gpus))],
        "trace_order": list(range(len(gpus))),
        "submit_s": [0.0] * len(gpus),
        "num_gpus": gpus,
        "duration_s": [duration_s] * len(gpus),
    }
    with TemporaryDirectory() as folder:
        try:
            draws = of_yaml(Path(folder), yaml.safe_dump(content))
            filled, _ = enrich(with_all_columns(pl.DataFrame(columns)), draws, 0)
        except InvalidInputError:
            return
    check_frame(filled, "enriched")


def test_options_that_would_do_nothing_are_refused(jobs: Jobs) -> None:
    chunked = load_training_draws("jsac_edge_cloud")
    with pytest.raises(InvalidInputError, match="no reference server to judge by"):
        enrich(jobs(), chunked, 0, Feasibility(only=True))
    with pytest.raises(InvalidInputError, match="no step time"):
        enrich(jobs(), chunked, 0, Feasibility(horizon_s=1.0))
    with pytest.raises(InvalidInputError, match="truth: only used with a horizon"):
        Feasibility(truth="pd_ors")
    for horizon_s in (0.0, -1.0, math.nan, 1e13):
        with pytest.raises(InvalidInputError, match="horizon: must be above 0 and at most 68719476736 s"):
            Feasibility(horizon_s=horizon_s)


def test_work_beyond_what_a_workload_may_hold_is_refused_by_name(tmp_path: Path, jobs: Jobs) -> None:
    # 2^36 s at 1e-7 s a sample are 6.87e17 samples, in 10 epochs.
    draws = of_yaml(
        tmp_path, SMALL.replace("sample_s: 0.5", "sample_s: 0.0000001").replace(": 50\n", ": 0\n")
    )
    with pytest.raises(
        InvalidWorkloadError, match=r"samples: job job-1 would have 6.87e\+16, at most 4.5e\+15"
    ):
        enrich(jobs(2, duration_s=[1.0, 2.0**36]), draws, 0)


def test_drawn_and_measured_values_never_mix(jobs: Jobs) -> None:
    frame = jobs(3, epochs=[None, 5, None], model=["a", None, None])
    with pytest.raises(
        InvalidWorkloadError, match="already says epochs; drawn and other values must not mix"
    ):
        enrich(frame, load_training_draws("pd_ors"), 0)
    with pytest.raises(InvalidWorkloadError, match="already says epochs, model"):
        enrich(frame, load_training_draws("harmony_types"), 0)
