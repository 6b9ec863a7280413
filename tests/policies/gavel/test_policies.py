"""Whole runs of the policies, against job times of the authors' simulator and of an independent model."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ray_sim
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError
from ray_sim.model.measured_speeds import PairRow
from tests.measured_worlds import Steps, measured_world, speed_table
from tests.worlds import column_of, replay, times_of

WORLD: Mapping[str, bool | str] = {"truth": "measured", "consolidation": False}

POLICIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "fifo": ("gavel_fifo", {"aware": False, "published": True}),
    "fifo_perf": ("gavel_fifo", {}),
    "fifo_clean": ("gavel_fifo", {"aware": False}),
    "allox": ("allox", {}),
    "max_min_fairness": ("max_min", {"aware": False}),
    "max_min_fairness_perf": ("max_min", {}),
    "finish_time_fairness_perf": ("finish_time_fair", {}),
    "min_total_duration_perf": ("makespan", {}),
}
"""Policies by the names of files."""

ON_AN_EDGE = {
    "minimize_makespan_12-12-12_max_min_fairness",
    "max_min_fairness_4-4-4_max_min_fairness",
}
"""Runs in which shares lie on an edge of rounding, so that job times differ between solvers."""

QUICK = {
    "gavel/single60_4-4-4_fifo_perf",
    "gavel/single60_2-2-2_allox",
    "gavel/single60_4-4-4_fifo",
    "gavel_tie_rule/multi40_4-4-4_max_min_fairness_perf",
    "gavel_tie_rule/single60_4-4-4_finish_time_fairness_perf",
}


class Reference(NamedTuple):
    """A recorded run."""

    folder: str
    run: str

    @property
    def policy(self) -> tuple[str, dict[str, Any]] | None:
        """The policy with its parameters; None where only its recorded shares are to be repeated."""
        name = self.run.split("-")[-1].split("_", 1)[1]
        solved = self.folder == "gavel_tie_rule" or name in ("fifo", "fifo_perf", "allox")
        return POLICIES.get(name) if solved else None


def references(folder: Path) -> list[Reference]:
    """Recorded runs of policies whose whole runs are to be equal."""
    found = [
        Reference(kind, path.stem)
        for kind in ("gavel", "gavel_tie_rule")
        for path in sorted((folder / "reference" / kind).glob("*.csv"))
    ]
    return [each for each in found if each.policy is not None and each.run not in ON_AN_EDGE]


@cache
def workload(folder: Path, trace: str, into: Path) -> Path:
    """A trace as a workload."""
    path = into / f"{trace}.parquet"
    ray_sim.convert("gavel", folder / f"data/gavel/{trace}.trace.gz", path, progress=False)
    return path


def differing(folder: Path, reference: Reference, into: Path) -> int:
    """Jobs whose completion times differ by more than 0.1 ms."""
    trace, size = reference.run.split("-")[0].rsplit("_", 1)
    assert reference.policy is not None
    policy, params = reference.policy
    jobs, cluster = workload(folder, trace, into), f"gavel-{size}-{size}-{size}"
    result = ray_sim.simulate(jobs, cluster, policy=policy, params=params, world=WORLD)
    jct_s = dict(result.jobs.select("job_id", "jct_s").iter_rows())
    with (folder / f"reference/{reference.folder}/{reference.run}.csv").open() as lines:
        expected = {row["job_id"]: float(row["jct_s"]) for row in csv.DictReader(lines)}
    assert jct_s.keys() == expected.keys()
    return sum(abs(jct_s[job] - expected[job]) > 1e-4 for job in expected)


def test_job_times_are_those_of_other_simulators(shared_data: Path, tmp_path: Path) -> None:
    chosen = [each for each in references(shared_data) if "/".join(each) in QUICK]
    assert {each.run: differing(shared_data, each, tmp_path) for each in chosen} == dict.fromkeys(
        (each.run for each in chosen), 0
    )


@pytest.mark.long
def test_all_job_times_are_those_of_other_simulators(shared_data: Path, tmp_path: Path) -> None:
    chosen = references(shared_data)
    assert len(chosen) >= 27
    assert {each.run: differing(shared_data, each, tmp_path) for each in chosen} == dict.fromkeys(
        (each.run for each in chosen), 0
    )


SPEEDS = speed_table({("a", 1): {"K80": 1.0, "V100": 4.0}, ("a", 2): {"K80": (2.0, None), "V100": 8.0}})
SERVERS = [("K80", 1), ("V100", 1)]


def test_two_jobs_take_turns_on_the_fast_type() -> None:
    # Equal jobs, a K80 and a V100: max-min gives each half of both. In rounds of 360 s they change places;
    # J1 does 1,440 steps on V100, then 360 on K80, J2 the reverse, and so on to 3,600.
    world = measured_world([Steps(0, "a", 3600), Steps(0, "a", 3600)], SERVERS, SPEEDS)
    assert times_of(replay(world, "max_min")) == {"J1": (0.0, 1440.0), "J2": (0.0, 1440.0)}


def test_a_job_that_comes_after_a_computation_waits_for_the_next() -> None:
    # The second computation is 1,920 s after the first later than 0 s: at 360 s, then not before 2,280 s.
    jobs = [Steps(0, "a", 40_000), Steps(100, "a", 1440), Steps(500, "a", 1440), Steps(9000, "a", 4)]
    world = measured_world(jobs, [("V100", 4)], SPEEDS)
    starts = {job: start for job, (start, _) in times_of(replay(world, "max_min")).items()}
    assert (starts["J2"], starts["J3"]) == (360.0, 2520.0)
    at_once = times_of(replay(world, "max_min", reset_s=0))
    assert at_once["J3"][0] == 720.0


def test_jobs_that_no_type_can_run_are_rejected_with_the_reason() -> None:
    jobs = [Steps(0, "b", 10), Steps(0, "a", 10, gpus=2), Steps(0, "a", 10)]
    reasons = {"J1": "no_speed", "J2": "never_fits", "J3": None}
    assert column_of(replay(measured_world(jobs, SERVERS, SPEEDS), "max_min"), "reason") == reasons
    allox = replay(measured_world(jobs, [("V100", 2)], SPEEDS), "allox")
    assert column_of(allox, "reason") == {"J1": "no_speed", "J2": "several_gpus", "J3": None}


@pytest.mark.parametrize(
    ("policy", "params", "error", "text"),
    [
        ("max_min", {"packing": True}, InvalidScenarioError, "needs -w packing=true"),
        ("gavel_fifo", {"packing": True, "aware": False}, InvalidScenarioError, "needs aware=true"),
        ("throughput", {"by": "cost"}, InvalidScenarioError, "needs the prices of servers"),
        ("makespan", {"aware": False, "reference": "T4"}, UnknownNameError, "GPU type 'T4'"),
        ("hierarchical", {"fifo": "nobody"}, UnknownNameError, "virtual cluster 'nobody'"),
    ],
)
def test_parameters_that_the_world_lacks_are_refused(
    policy: str, params: dict[str, Any], error: type[Exception], text: str
) -> None:
    world = measured_world([Steps(0, "a", 10)], SERVERS, SPEEDS)
    with pytest.raises(error, match=text):
        replay(world, policy, **params)


def test_a_restart_takes_its_time_from_the_round() -> None:
    # Alone on one type, a job keeps its GPU from round to round and pauses never.
    world = measured_world([Steps(0, "a", 3600)], [("V100", 1)], SPEEDS, {"restart_cost_s": 60})
    assert times_of(replay(world, "max_min")) == {"J1": (0.0, 900.0)}
    # Two on one GPU: each resumes after a pause of 60 s, then does 300 x 4 steps.
    jobs = [Steps(0, "a", 2640), Steps(0, "a", 2640)]
    both = measured_world(jobs, [("V100", 1)], SPEEDS, {"restart_cost_s": 60})
    assert times_of(replay(both, "max_min")) == {"J1": (0.0, 1080.0), "J2": (360.0, 1440.0)}


@pytest.mark.parametrize("policy", ["max_min", "gavel_fifo"])
def test_packing_without_a_job_of_one_gpu_has_no_pairs(policy: str) -> None:
    table = speed_table({("a", 2): {"V100": 10.0}}, [PairRow("V100", "a", None, "a", None, 6.0, 6.0)])
    world = measured_world([Steps(0, "a", 1000, gpus=2)], [("V100", 2)], table, {"packing": True})
    assert times_of(replay(world, policy, packing=True)) == {"J1": (0.0, 100.0)}
