"""The queue that policies in Python serve: what is pushed is served once, or rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim import Decision, Policy, PolicyContext, View
from ray_sim.engine.run import run_world
from ray_sim.model.errors import InvalidScenarioError, RunFailedError
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy
from tests.elastic_worlds import elastic_world
from tests.proofs import instances
from tests.required import HISTORY
from tests.training import profile
from tests.worlds import Job, replay, times_of, world_of


class OneByOne(Policy):
    """Pushes each arrival by itself; a later job goes first."""

    def start(self, world: PolicyContext, streams: Streams) -> None:
        self.queue = world.service("consolidate")

    def decide(self, view: View) -> Decision:
        for i in range(len(view.arrived)):
            job = view.arrived[i : i + 1]
            self.queue.push(job, -job)
        return self.queue.serve(view)


def test_jobs_pushed_one_by_one_are_served_by_key() -> None:
    jobs = [Job(0, 1, 5), Job(0, 1, 3), Job(0, 1, 2)]
    result = run_world(world_of(jobs, [1, 1]), OneByOne())
    assert times_of(result) == {"J3": (0, 2), "J2": (0, 3), "J1": (2, 7)}


def test_every_job_that_never_fits_is_rejected_however_they_are_pushed() -> None:
    # Four workers and a parameter server ask for five GPUs of four.
    world = elastic_world([0, 0, 0], [profile(num_workers=n) for n in (4, 1, 4)], [4])
    result = run_world(world, OneByOne())
    assert result.jobs["reason"].to_list() == ["never_fits", None, "never_fits"]


class Beyond(OneByOne):
    """Pushes a job that does not exist."""

    def decide(self, view: View) -> Decision:
        self.queue.push(view.arrived + 1, view.arrived)
        return self.queue.serve(view)


def test_a_job_that_does_not_exist_is_refused_by_its_number() -> None:
    with pytest.raises(RunFailedError, match="push: job 1 is none of the 1 jobs 0 to 0"):
        run_world(world_of([Job(0, 1, 5)], [1]), Beyond())


class Fractions(OneByOne):
    """Gives keys that are no integers: when jobs begin to wait, later, or of running jobs."""

    sees = frozenset({"duration_s"})

    def __init__(self, way: str) -> None:
        self._way = way

    def start(self, world: PolicyContext, streams: Streams) -> None:
        self.keys: Any = world.jobs.work_us / 1e14
        self.queue = world.service("consolidate", preemptive=self._way == "serve")

    def decide(self, view: View) -> Decision:
        if self._way == "push":
            self.queue.push(view.arrived, self.keys[view.arrived])
        self.queue.push(view.arrived, view.arrived)
        if self._way == "rekey":
            self.queue.rekey(int(view.arrived[0]), self.keys[view.arrived[0]])
        return self.queue.serve(view, (view.running, self.keys[view.running]))


@pytest.mark.parametrize(
    ("way", "error"),
    [
        (
            "push",
            r"push: keys must be one whole number for each of the 1 jobs, found float64 of shape \(1,\)",
        ),
        ("rekey", "rekey: the key of job 0 must be a whole number, found .*; round with np.rint"),
        (
            "serve",
            "serve: keys of running jobs must be one whole number for each of the 1 jobs, found float64",
        ),
    ],
)
def test_keys_with_fractions_are_refused(way: str, error: str) -> None:
    with pytest.raises(RunFailedError, match=error):
        run_world(world_of([Job(0, 1, 5), Job(1, 1, 3)], [1, 1]), Fractions(way))


def test_a_key_must_be_given_for_each_job() -> None:
    class OneKey(OneByOne):
        def decide(self, view: View) -> Decision:
            self.queue.push(view.arrived, np.zeros(1, dtype=np.int64))
            return self.queue.serve(view)

    with pytest.raises(RunFailedError, match=r"each of the 2 jobs, found int64 of shape \(1,\)"):
        run_world(world_of([Job(0, 1, 5), Job(0, 1, 3)], [1, 1]), OneKey())


def srtf_without_room(jobs: list[Job], gpus: int) -> tuple[dict[str, int], set[str]]:
    """Seconds at which jobs end, and the jobs that are rejected, second by second."""
    left: dict[int, int] = {}
    ends: dict[str, int] = {}
    rejected: set[str] = set()
    for now in range(20 + sum(int(job.duration_s) for job in jobs) + 1):
        ends |= {f"J{j + 1}": now for j, work in left.items() if work == 0}
        came = {j for j, job in enumerate(jobs) if job.submit_s == now}
        left = {j: work for j, work in left.items() if work} | {j: int(jobs[j].duration_s) for j in came}
        free, runs = gpus, set()
        for j in sorted(left, key=lambda j: (left[j], j)):
            if jobs[j].gpus <= free:
                free -= int(jobs[j].gpus)
                runs.add(j)
        rejected |= {f"J{j + 1}" for j in came - runs}
        left = {j: work - (j in runs) for j, work in left.items() if j in runs or j not in came}
    return ends, rejected


def test_a_suspended_job_waits_where_one_that_comes_is_rejected() -> None:
    for seed in range(instances(200)):
        draw = np.random.default_rng(seed)
        jobs = sorted(Job(*draw.integers((0, 1, 1), (20, 4, 9)).tolist()) for _ in range(12))
        result = replay(world_of(jobs, [3]), "srtf", placement="pooled", no_room="reject")
        ends = {job: end for job, (_, end) in times_of(result).items() if end is not None}
        refused = result.jobs.filter(pl.col("reason") == "no_room")["job_id"]
        assert (ends, set(refused)) == srtf_without_room(jobs, 3), seed


@pytest.mark.parametrize("policy", ["las", "gittins"])
def test_jobs_start_when_they_come_or_never(policy: str) -> None:
    # 2 GPUs: J1 has both for 3 s. J2 asks for one: las suspends J1, which waits; J3 finds no room.
    needs: dict[str, Any] = {"history": str(HISTORY)} if policy == "gittins" else {}
    jobs = [Job(0, 2, 9000), Job(4000, 1, 60), Job(4010, 2, 60)]
    result = replay(world_of(jobs, [2]), policy, no_room="reject", **needs)
    assert result.jobs["reason"].to_list() == [None, None, "no_room"]
    assert times_of(result)["J1"] == (0, 9060)


def test_srtf_rejects_no_job_behind_one_that_does_not_fit() -> None:
    with pytest.raises(InvalidScenarioError, match="no_room=reject needs backfill=true"):
        create_policy("srtf", {"no_room": "reject", "backfill": False})
