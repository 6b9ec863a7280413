"""What an enrichment refuses, and the jobs that it finds infeasible."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.training_progress import Form
from tests.proofs import instances
from tests.training_profiles import JUNK, PROFILES, SMALL, Jobs, of_yaml, philly
from tests.worlds import cluster_of
from workloads.checks import check_frame
from workloads.schema import with_all_columns
from workloads.training.bundles import JobBundles, fewest_servers, infeasible_bundles
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


def bundle(workers: int, ps: int, worker: list[int], server: list[int]) -> JobBundles:
    return JobBundles(np.array([workers]), np.array([ps]), np.array([worker]), np.array([server]))


@given(
    workers=st.integers(1, 40),
    ps=st.integers(0, 40),
    worker=st.lists(st.integers(0, 9), min_size=2, max_size=2),
    server=st.lists(st.integers(0, 9), min_size=2, max_size=2),
    capacity=st.lists(st.integers(1, 30), min_size=2, max_size=2),
)
@settings(max_examples=instances(200))
def test_the_fewest_servers_are_the_first_number_that_holds_the_bundle(
    workers: int, ps: int, worker: list[int], server: list[int], capacity: list[int]
) -> None:
    def holds(k: int) -> bool:
        return all(
            -(-workers // k) * a + -(-ps // k) * b <= c
            for a, b, c in zip(worker, server, capacity, strict=True)
        )

    first = next((k for k in range(1, max(workers, ps) + 1) if holds(k)), 0)
    assert fewest_servers(bundle(workers, ps, worker, server), np.array(capacity)).tolist() == [first]


def test_workers_without_gpus_fit_on_servers_without_gpus(tmp_path: Path, jobs: Jobs) -> None:
    cores_only = Feasibility(cluster_of([0, 0], cpu=[64, 64], memory_gib=[512, 512], disk_gib=[0, 0]))
    for worker_gpu, infeasible in ((1, {"a worker fits no server": 3}), (0, {})):
        draws = of_yaml(tmp_path, SMALL.replace("worker_gpu: 1", f"worker_gpu: {worker_gpu}"))
        _, report = enrich(jobs(3, num_gpus=[1.0, 4.0, 8.0]), draws, 0, cores_only)
        assert report.infeasible == infeasible


def test_a_bundle_never_fits_for_one_reason() -> None:
    # Servers of (4, 10) and (2, 20). A worker of 5 GPUs; a PS of 21 cores; 4 workers of 2 GPUs where 3 go;
    # and 3 of 2 GPUs with a PS of 9 cores, whom they leave 30 - 3 x 2 = 24.
    servers = np.array([[4, 10], [2, 20]])
    cases = {
        "a worker fits no server": bundle(1, 1, [5, 1], [0, 1]),
        "a parameter server fits no server": bundle(1, 1, [1, 1], [0, 21]),
        "the cluster is too small": bundle(4, 1, [2, 1], [0, 1]),
    }
    for reason, case in cases.items():
        found = infeasible_bundles(case, servers, endless=False)
        assert [name for name, jobs in found.items() if jobs.any()] == [reason]
    for fine, endless in ((bundle(3, 1, [2, 2], [0, 9]), False), (cases["the cluster is too small"], True)):
        assert not any(jobs.any() for jobs in infeasible_bundles(fine, servers, endless=endless).values())


def test_infeasible_jobs_are_counted_and_left_out_where_asked(tmp_path: Path, jobs: Jobs) -> None:
    # Gangs of one task: 5 GPUs exceed the reference server's 4. On the cluster of 2 x 2 GPUs so do 4 and 3.
    frame = jobs(4, num_gpus=[5.0, 4.0, 3.0, 2.0], num_tasks=[1] * 4)
    draws = of_yaml(tmp_path, SMALL.replace("  worker_cpu: 4\n  ps_cpu: 2\n  ps_memory_gib: 8\n", ""))
    everyone, report = enrich(frame, draws, 0)
    assert report.infeasible == {"a worker fits no server": 1}
    assert everyone.height == 4
    some, report = enrich(frame, draws, 0, Feasibility(only=True))
    assert some["num_gpus"].to_list() == [4, 3, 2]
    small: Cluster = cluster_of([2, 2])
    some, report = enrich(frame, draws, 0, Feasibility(cluster=small, only=True))
    assert (some.height, report.kept, report.infeasible) == (1, 1, {"a worker fits no server": 3})
    with pytest.raises(InvalidWorkloadError, match="none of 4 jobs is feasible"):
        enrich(frame, draws, 0, Feasibility(cluster=cluster_of([1]), only=True))


def test_a_job_must_be_able_to_end_by_the_horizon(tmp_path: Path, jobs: Jobs) -> None:
    # In the trace one worker and a PS trained a batch of 4 in 4 x 0.5 + 2 x 0.4 = 2.8 s. So 2800 s are 1000
    # steps. By placement 4 workers and 4 PSs on one server take 0.5 + 0.8 = 1.3 s a step; by pd_ors
    # 4 workers take 0.5 + (2 / 4) 2 x 0.4 = 0.9 s. The second job comes 100 s later.
    draws = of_yaml(tmp_path, SMALL.replace("batch: [1, 100]", "batch: 4"))
    frame = jobs(2, submit_s=[0.0, 100.0], duration_s=[2800.0, 2800.0])
    cases: list[tuple[Form | None, float, int]] = [
        *((None, 1401.0, 0), (None, 1399.0, 1), (None, 1299.0, 2), ("placement", 1399.0, 1)),
        *(("pd_ors", 1001.0, 0), ("pd_ors", 999.0, 1), ("pd_ors", 899.0, 2)),
    ]
    for truth, horizon_s, late in cases:
        _, report = enrich(frame, draws, 0, Feasibility(horizon_s=horizon_s, truth=truth))
        reason = f"it cannot end by the horizon, truth {truth or 'placement'}"
        assert report.infeasible == ({reason: late} if late else {})


def test_a_faster_cluster_ends_jobs_earlier(tmp_path: Path, jobs: Jobs) -> None:
    # As above, with servers of speed 2: 4 workers take 0.25 + 0.8 = 1.05 s a step by placement.
    draws = of_yaml(tmp_path, SMALL.replace("batch: [1, 100]", "batch: 4"))
    fast = replace(cluster_of([8, 8]), speed=np.array([1.0, 2.0]))
    for horizon_s, late in ((1051.0, 0), (1049.0, 1)):
        wanted = Feasibility(cluster=fast, horizon_s=horizon_s)
        _, report = enrich(jobs(1, duration_s=[2800.0]), draws, 0, wanted)
        assert report.infeasible.get("it cannot end by the horizon, truth placement", 0) == late


@pytest.mark.parametrize("profile", ["optimus_nine_models", "pd_ors"])
def test_a_job_that_ran_in_the_trace_within_the_horizon_is_never_late(profile: str) -> None:
    frame = philly(300)
    end_s = frame["submit_s"] - frame["submit_s"].min() + frame["duration_s"]
    horizon_s = float(end_s.quantile(0.3) or 0)
    wanted = Feasibility(horizon_s=horizon_s, only=True)
    kept, _ = enrich(frame, load_training_draws(profile), 1, wanted)
    assert set(frame.filter(end_s <= horizon_s)["job_id"]) <= set(kept["job_id"])
