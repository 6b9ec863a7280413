"""Every built-in policy on workloads at the ends of what a workload may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import polars as pl
import pytest

import ray_sim as rs
from ray_sim.cli import main
from ray_sim.engine.run import run_world
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.job import TrainingProfile
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import BUILT_IN
from tests.policies.utility_worlds import SLOT_S, pd_ors_job, utility_world, worth
from tests.required import REQUIRED, new_policy
from tests.worlds import Job, cluster_of, replay, times_of, world_of
from workloads.provenance import Provenance
from workloads.schema import with_all_columns
from workloads.store import read_frame, write_workload

HOUR, US, LONGEST_S, AGE_S = 3600.0, 1e-6, 2.0**36, 2.0**30

RIGID = ("fifo", "sjf", "srtf", "las", "batch", "gittins")
BY_PRICE = ("pd_ors", "oasis")
ELASTIC = (
    *(*RIGID, "drf", "tetris", "load_balance", "tetris_packing", "lif_linear", "lif_quad"),
    *("harmony", "dorm", "optimus"),
)
CHUNKED = ("chunk_fifo", "chunk_spt", "chunk_earliest_finish", "chunk_las", "chunk_srpt", "a_online")
MEASURED = (
    *("max_min", "hierarchical", "finish_time_fair", "makespan", "throughput", "gavel_fifo", "allox"),
)
ANNOUNCED = ("posted_price", "announced_fifo", "value_density", "reservation")
KINDS = {
    "rigid": RIGID,
    "placement": ELASTIC,
    "pd_ors": BY_PRICE,
    "a_online": CHUNKED,
    "announced": ANNOUNCED,
    "measured": MEASURED,
}
SLOTS = 100
"""Slots before the horizon, where the jobs' kind has one."""

USUAL = ((0.0, 1.0, HOUR), (0.0, 2.0, 2 * HOUR), (HOUR, 1.0, HOUR))
"""Submission in s, GPUs, run time in s."""

Rows = Sequence[tuple[float, float, float]]

WORKLOADS: Mapping[str, tuple[Rows, float]] = {
    "a_microsecond_beside_others": ((*USUAL, (0, 1, US)), HOUR),
    "microseconds_only": (((0, 1, US), (0, 4, US), (1, 1, US)), HOUR),
    "a_microsecond_apart": (tuple((k * US, 1, US) for k in range(12)), HOUR),
    "slots_of_an_age": ((*USUAL, (0, 1, US), (US, 2, 3 * US)), AGE_S),
    "no_length": (((0, 1, 0), (0, 2, 0), (5, 1, 0)), HOUR),
    "lengths_that_round_to_nothing": ((*USUAL, (0, 1, 5e-324), (0, 1, 4e-7)), HOUR),
    "the_longest_run_beside_the_shortest": (((0, 8, LONGEST_S / 2), (1, 1, US), (1, 8, HOUR)), AGE_S),
    "the_latest_submission": (((0, 1, HOUR), (LONGEST_S, 1, HOUR)), AGE_S),
    "no_gpu": ((*USUAL, (0, 0, HOUR), (1, 0, US)), HOUR),
    "a_shred_of_a_gpu": ((*USUAL, (0, 1e-3, HOUR), (1, 1e-9, HOUR)), HOUR),
    "wider_than_the_cluster": (((0, 300, HOUR), (1, 17, US), (1, 16, HOUR)), HOUR),
    "all_at_one_instant": (tuple((7, 1 + k % 8, HOUR * (k % 3)) for k in range(18)), HOUR),
    "parts_of_gpus": (((0, 2.5, HOUR), (0, 7.999, HOUR), (1, 0.5, US)), HOUR),
}
"""Jobs, and the length of a slot."""

TRAINING: Mapping[str, tuple[Mapping[str, float], float]] = {
    "next_to_no_samples": ({"samples": 1e-12}, HOUR),
    "no_samples": ({"samples": 0.0}, HOUR),
    "the_slowest_sample": ({"sample_s": LONGEST_S}, LONGEST_S / 8),
    "the_fastest_sample": ({"sample_s": 2.0**-40}, HOUR),
    "the_slowest_link": ({"bandwidth_mbps": 2.0**-10, "gradient_mb": 2.0**30}, LONGEST_S / 8),
    "worth_nothing": ({"utility_max": 0.0}, HOUR),
    "worth_that_falls_at_once": ({"utility_decay_per_s": 2.0**20, "utility_due_s": 0.0}, HOUR),
    "tasks_without_demand": ({"worker_gpu": 0.0, "worker_cpu": 0.0, "ps_cpu": 0.0}, HOUR),
}
"""Columns that job J1 of the usual jobs has in place of those drawn, and the length of a slot."""


def stored(rows: Rows, path: Path) -> Path:
    n = len(rows)
    submit_s, num_gpus, duration_s = (
        [float(value) for value in column] for column in zip(*rows, strict=True)
    )
    frame = with_all_columns(
        pl.DataFrame(
            {
                "job_id": [f"J{k + 1}" for k in range(n)],
                "trace_order": list(range(n)),
                "submit_s": submit_s,
                "num_gpus": num_gpus,
                "duration_s": duration_s,
            }
        )
    )
    return written(frame, path)


def written(frame: pl.DataFrame, path: Path) -> Path:
    """The file, which the checks of a workload accept."""
    counts = {"read": frame.height, "kept": frame.height}
    write_workload(frame, Provenance(converter="hand", converter_version="1", counts=counts), path)
    assert read_frame(path).height == frame.height
    return path


def trained(path: Path, profile: str = "common") -> Path:
    """The workload with all columns that any kind of job needs, or with those of elastic jobs alone."""
    out = path.with_name("trained.parquet")
    assert main(["enrich", str(path), "-o", str(out), "--profile", profile, "--seed", "1"]) == 0
    return out


def world_params(kind: str, slot_s: float) -> dict[str, str | float]:
    if kind in ("rigid", "measured"):
        return {"truth": kind}
    horizon = {"horizon_s": min(SLOTS * slot_s, LONGEST_S)} if kind in ("pd_ors", "announced") else {}
    return {"truth": kind, "slot_s": slot_s, **horizon}


def fault(path: Path, kind: str, policy: str, slot_s: float) -> str | None:
    """What is wrong with the answer, None where each job is run, refused or rejected as promised."""
    try:
        result = rs.simulate(
            str(path),
            replace(cluster_of([8, 8]), gpu_type=("V100", "K80")),
            policy,
            params=cast("dict[str, str]", REQUIRED.get(policy, {})),
            world=world_params(kind, slot_s),
            progress=False,
        )
    except InvalidInputError as refused:
        told = str(refused)
        named = "jobs out of the workload" in told or any(f"J{k}" in told for k in range(1, 6))
        return None if named else f"refused without the jobs that it is about: {told}"
    except Exception as failed:  # whatever a policy raises is the fault that is looked for
        return f"{type(failed).__name__}: {failed}"
    return _fault_of(result, read_frame(path).height)


def _fault_of(result: RunResult, jobs: int) -> str | None:
    if result.jobs.height != jobs:
        return f"{result.jobs.height} of {jobs} jobs"
    for job, status, reason, submit_s, start_s, finish_s in result.jobs.select(
        "job_id", "status", "reason", "submit_s", "start_s", "finish_s"
    ).iter_rows():
        if status == "completed":
            if start_s is None or finish_s is None or not submit_s <= start_s <= finish_s:
                return f"{job} completed, from {submit_s} over {start_s} to {finish_s}"
        elif status not in ("rejected", "evicted", "unfinished") or not reason:
            return f"{job} is {status} for the reason {reason!r}"
    return None


def faults_of(path: Path, kind: str, slot_s: float) -> dict[str, str]:
    found = {f"{kind} {policy}": fault(path, kind, policy, slot_s) for policy in KINDS[kind]}
    return {name: text for name, text in found.items() if text is not None}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_prices_are_found_at_the_ends_of_what_a_workload_may_hold(tmp_path: Path, name: str) -> None:
    rows, slot_s = WORKLOADS[name]
    path = trained(stored(rows, tmp_path / "w.parquet"), "common_training")
    assert faults_of(path, "pd_ors", slot_s) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_other_policy_fails_at_the_ends_of_what_a_workload_may_hold(tmp_path: Path, name: str) -> None:
    rows, slot_s = WORKLOADS[name]
    plain = stored(rows, tmp_path / "w.parquet")
    whole = trained(plain)
    found = faults_of(plain, "rigid", slot_s)
    for kind in ("placement", "a_online", "announced"):
        found |= faults_of(whole, kind, slot_s)
    found |= faults_of(trained(plain, "gavel_simulation"), "measured", slot_s)
    assert found == {}


def trained_otherwise(name: str, folder: Path) -> tuple[Path, float]:
    """The usual jobs, the first of which trains in this way, and the length of a slot."""
    columns, slot_s = TRAINING[name]
    frame = read_frame(trained(stored(USUAL, folder / "w.parquet"), "common_training"))
    given = {
        column: pl.when(pl.col("job_id") == "J1").then(pl.lit(value)).otherwise(pl.col(column))
        for column, value in columns.items()
    }
    return written(frame.with_columns(**given), folder / "given.parquet"), slot_s


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINING)
def test_prices_are_found_at_the_ends_of_what_a_job_may_train(tmp_path: Path, name: str) -> None:
    path, slot_s = trained_otherwise(name, tmp_path)
    assert faults_of(path, "pd_ors", slot_s) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINING)
def test_no_other_policy_fails_at_the_ends_of_what_a_job_may_train(tmp_path: Path, name: str) -> None:
    path, slot_s = trained_otherwise(name, tmp_path)
    assert faults_of(path, "placement", slot_s) == {}


def test_every_built_in_policy_is_among_those_tried() -> None:
    assert set(BUILT_IN) == {policy for policies in KINDS.values() for policy in policies}


BESIDE = [Job(0.0, 2, 50.0), Job(3.0, 4, 20.0), Job(10.0, 1, 5.0)]


@pytest.mark.parametrize("policy", RIGID)
@pytest.mark.parametrize(
    ("job", "finish_s"),
    [
        (Job(4.0, 1, US), 4.000001),
        (Job(4.0, 1, 0.0), 4.0),
        (Job(4.0, 1, 4e-7), 4.0),
        (Job(4.0, 0, US), 4.000001),
        (Job(4.0, 0.001, 7.0), 11.0),
        (Job(4.0, 1, LONGEST_S), LONGEST_S + 4),
        (Job(4.0, 17, 1.0), None),
    ],
    ids=["microsecond", "no_length", "rounds_to_nothing", "no_gpu", "shred", "longest", "never_fits"],
)
def test_an_extreme_job_on_free_gpus_leaves_the_others_as_without_it(
    policy: str, job: Job, finish_s: float | None
) -> None:
    """All four jobs fit at once on 16 GPUs, so each runs from its submission."""
    others = times_of(replay(world_of(BESIDE, [8, 8]), policy))
    found = replay(world_of([*BESIDE, job], [8, 8]), policy)
    times = times_of(found)
    last = times.pop("J4")
    assert times == others == {"J1": (0, 50), "J2": (3, 23), "J3": (10, 15)}
    assert last == ((4.0, finish_s) if finish_s is not None else (None, None))
    reasons = dict(found.jobs.select("job_id", "reason").iter_rows())
    assert reasons == {"J1": None, "J2": None, "J3": None, "J4": None if finish_s else "never_fits"}


@pytest.mark.parametrize(
    ("policy", "times"),
    [
        # One GPU; J1 runs for 10 s, J2 comes at 5 s for a microsecond, J3 at 6 s for 1 s.
        ("fifo", {"J1": (0, 10), "J2": (10, 10.000001), "J3": (10.000001, 11.000001)}),
        ("sjf", {"J1": (0, 10), "J2": (10, 10.000001), "J3": (10.000001, 11.000001)}),
        ("srtf", {"J1": (0, 11.000001), "J2": (5, 5.000001), "J3": (6, 7)}),
    ],
)
def test_a_microsecond_on_a_full_server_costs_a_microsecond(
    policy: str, times: dict[str, tuple[float, float]]
) -> None:
    jobs = [Job(0.0, 1, 10.0), Job(5.0, 1, US), Job(6.0, 1, 1.0)]
    assert times_of(replay(world_of(jobs, [1]), policy)) == times


DECLARED = {
    "constants": "declared",
    "declared_utility": (1.0, 9.0),
    "declared_demand": (3.0,),
    "declared_work": (12.0, 12.0),
}
"""Prices that do not depend on which jobs come."""


@pytest.mark.parametrize("samples", [1e-3, 1e-6, 1e-12, 5e-324])
def test_a_tiny_job_where_nothing_is_free_leaves_plans_as_without_it(samples: float) -> None:
    """Example 1.A: A holds all 6 GPUs in slot 0, B in slot 1, C is rejected; the tiny job comes in slot 1."""
    tiny = pd_ors_job(epochs=1, samples=samples)
    utilities = [worth(5, 4), worth(9, 3), worth(2, 1), worth(2, 1)]
    result = _run([0.0] * 3 + [SLOT_S], [*[pd_ors_job()] * 3, tiny], utilities, "pd_ors", DECLARED)
    if result is None:
        return
    assert times_of(result) == {
        "J1": (0, SLOT_S),
        "J2": (SLOT_S, 2 * SLOT_S),
        "J3": (None, None),
        "J4": (None, None),
    }
    assert result.jobs["status"].to_list() == ["completed", "completed", "rejected", "rejected"]
    assert all(result.jobs["reason"].to_list()[2:])


@pytest.mark.parametrize("policy", BY_PRICE)
@pytest.mark.parametrize("samples", [1.0, 1e-6, 1e-12, 5e-324])
def test_a_tiny_job_alone_is_run_in_its_first_slot_or_rejected_with_a_reason(
    policy: str, samples: float
) -> None:
    tiny = pd_ors_job(epochs=1, samples=samples)
    result = _run([0.0], [tiny], [worth(5, 4)], policy, {})
    if result is None:
        assert samples < 1
        return
    assert _fault_of(result, 1) is None
    finish_s = result.jobs["finish_s"].item()
    assert finish_s is None or finish_s <= SLOT_S


def _run(
    submit_s: list[float],
    jobs: list[TrainingProfile],
    utilities: list[tuple[float, float, float]],
    policy: str,
    params: Mapping[str, object],
) -> RunResult | None:
    """The run on six GPUs, oasis on twice six, for two slots; None where the last job is refused by name."""
    servers = [6.0, 6.0] if policy == "oasis" else [6.0]
    try:
        world = utility_world(submit_s, jobs, utilities, servers, 2)
        return run_world(world, new_policy(policy, params))
    except InvalidInputError as refused:
        if f"J{len(jobs)}" not in str(refused):
            raise
        return None


@pytest.mark.parametrize("policy", BY_PRICE)
def test_a_job_of_a_microsecond_in_a_file_does_not_end_a_run_by_prices(tmp_path: Path, policy: str) -> None:
    path = trained(stored((*USUAL, (2 * HOUR, 1, US)), tmp_path / "w.parquet"))
    assert fault(path, "pd_ors", policy, HOUR) is None
