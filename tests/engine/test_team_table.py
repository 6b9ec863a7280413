"""Rows of teams: the worked example, and integrals against sums over seconds."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Causes, Decision
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.model.result import RunResult
from ray_sim.model.teams import Quota, Team
from ray_sim.policies.srtf import Srtf
from tests.proofs import instances
from tests.worlds import HOUR, Job, cluster_of, job_table, replay

GPU = 1000


def teamed(jobs: list[Job], gpus: list[float], quotas: dict[str, int], **params: object) -> World:
    teams = tuple(
        Team(name, (Quota("gpu", quota * GPU, None, quota * GPU),), slo_wait_s=600)
        for name, quota in quotas.items()
    )
    return build_world(job_table(jobs), replace(cluster_of(gpus), teams=teams), params=params)


class Telling(Srtf):
    """SRTF that tells for which job it suspends."""

    name = "telling"

    def decide(self, view: View) -> Decision:
        decision = super().decide(view)
        changes = decision.changes
        if changes is None:
            return decision
        jobs = changes.job[: changes.size[0]]
        holds = np.diff(changes.ptr[: changes.size[0] + 1]) > 0
        if holds.all() or not holds.any():
            return decision
        suspended = np.sort(jobs[~holds])  # changes are in the order of service
        by = np.full(len(suspended), jobs[holds][0])
        return replace(decision, causes=Causes(suspended, by, ("shorter",) * len(suspended)))


def rows_of(result: RunResult) -> dict[str, dict[str, object]]:
    assert result.teams is not None
    return {str(row["team"]): row for row in result.teams.to_dicts()}


def test_a_team_borrows_and_gives_back() -> None:
    # V holds 8 GPUs 0-2 and 5-13, S holds 4 from 2 to 5, of quotas 4 and 4.
    jobs = [Job(0, 8, 10 * HOUR, "vision"), Job(2 * HOUR, 4, 3 * HOUR, "speech")]
    teams = rows_of(replay(teamed(jobs, [8], {"vision": 4, "speech": 4}), Telling(), loop="general"))
    vision, speech = teams["vision"], teams["speech"]
    names = ("held_gpu_h", "quota_gpu_h", "borrowed_gpu_h", "unmet_gpu_h", "suffered", "caused")
    assert [vision[name] for name in names] == [80, 52, 40, 12, 1, 0]
    assert [speech[name] for name in names] == [12, 52, 0, 0, 0, 1]
    assert (vision["use"], speech["use"]) == (pytest.approx(1.538, abs=5e-4), pytest.approx(0.231, abs=5e-4))
    assert (vision["rho_mean"], speech["rho_mean"]) == (pytest.approx(1.05625), 1)
    # With checkpoints each 3 h V loses its first 2 h and ends at 15 h.
    params = {"preemption": "checkpoint", "checkpoint_s": 3 * HOUR}
    lost = rows_of(
        replay(teamed(jobs, [8], {"vision": 4, "speech": 4}, **params), Telling(), loop="general")
    )["vision"]
    assert (lost["wasted_gpu_h"], lost["quota_gpu_h"]) == (16, 60)
    assert json.loads(str(lost["wasted_by_reason"])) == {"shorter": 16}


def test_teams_of_chunked_jobs_have_waits_and_no_gpu_hours() -> None:
    world = busy_chunks()
    teams = (Team("a", (Quota("gpu", 4 * GPU, None, 4 * GPU),)), Team("b", ()))
    result = replay(replace(world, cluster=replace(world.cluster, teams=teams)), "a_online")
    jobs = result.jobs.with_columns(wait_s=pl.col("start_s") - pl.col("submit_s"))
    for name, row in rows_of(result).items():
        mine = jobs.filter(pl.col("vc") == name)
        assert (row["jobs"], row["wait_s_mean"]) == (len(mine), mine["wait_s"].mean())
        assert {row[each] for each in ("held_gpu_h", "use", "borrowed_gpu_h", "unmet_gpu_h")} == {None}


@settings(max_examples=instances(200))
@given(
    jobs=st.lists(
        st.builds(Job, st.integers(0, 9), st.integers(1, 3), st.integers(1, 9), st.sampled_from("ab")),
        min_size=1,
        max_size=8,
    )
)
def test_integrals_are_sums_over_seconds(jobs: list[Job]) -> None:
    jobs = sorted(jobs, key=lambda job: job.submit_s)
    jobs = [job._replace(submit_s=job.submit_s - jobs[0].submit_s) for job in jobs]
    result = replay(teamed(jobs, [3], {"a": 1, "b": 2}), Telling(), loop="general")
    spells: dict[str, list[tuple[int, int]]] = {}
    begun: dict[str, int] = {}
    for time, event, job in result.events.select("time_s", "event", "job_id").rows():
        if event == "start":
            begun.setdefault(job, int(time))
        elif event in ("stop", "finish"):
            spells.setdefault(job, []).append((begun.pop(job), int(time)))
    end = int(result.events["time_s"].to_numpy().max())
    teams = rows_of(result)
    for team, quota in (("a", 1), ("b", 2)):
        held = borrowed = unmet = 0.0
        mine = [(f"J{i + 1}", job) for i, job in enumerate(jobs) if job.vc == team]
        ends = {job: spells[job][-1][1] for job, _ in mine}
        for second in range(end):
            on = {job for job, _ in mine if any(a <= second < b for a, b in spells[job])}
            used = sum(job.gpus for name, job in mine if name in on)
            asked = sum(
                job.gpus for name, job in mine if name not in on and job.submit_s <= second < ends[name]
            )
            held, borrowed = held + used, borrowed + max(used - quota, 0)
            unmet += min(max(quota - used, 0), asked)
        found = [teams[team][f"{what}_gpu_h"] for what in ("held", "borrowed", "unmet")]
        assert found == pytest.approx([held / HOUR, borrowed / HOUR, unmet / HOUR])
    suffered, caused = (sum(int(str(row[name])) for row in teams.values()) for name in ("suffered", "caused"))
    assert suffered == caused
