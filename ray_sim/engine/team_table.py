"""What became of each team of a cluster: the rows of teams.parquet, computed at the end of a run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ray_sim.engine.gpu_time import Holdings, holdings_of, wasted_gpu_h
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import NEVER
from ray_sim.kernels.core.devices import GPU
from ray_sim.model.result import TEAM_SCHEMA, JobStatus
from ray_sim.model.teams import Team, teams_of
from ray_sim.model.units import QUANTA_PER_UNIT, US_PER_S, BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.result import Outcome


_US_PER_H = 3600 * US_PER_S


def team_table(world: World, outcome: Outcome, jobs: pl.DataFrame) -> pl.DataFrame | None:
    """A row per team with the columns of `TEAM_SCHEMA`; None where the cluster has no teams."""
    teams = world.cluster.teams
    if not teams:
        return None
    end_us = world.end_us(outcome.now_us)
    spells = None
    if not outcome.kind.lost_by_worker:  # jobs hold the GPUs of their tasks
        held = holdings_of(world, outcome.record, end_us)
        spells = held, _waiting(world, outcome, held, end_us)
    of = teams_of(world.cluster, world.table.vc, world.table.vc_names)
    rows = [_row(team, of == number, jobs, outcome, spells, end_us) for number, team in enumerate(teams)]
    return pl.DataFrame(rows, schema=TEAM_SCHEMA, orient="row")


def _where(spells: Holdings, chosen: BoolArray) -> Holdings:
    """The spells that a mask, (n,), chooses."""
    return Holdings._make(column[chosen] for column in spells)


def _waiting(world: World, outcome: Outcome, held: Holdings, end_us: int) -> Holdings:
    """Spells in which jobs held nothing, with the GPUs that they asked for."""
    submit, ends = world.table.submit_us, outcome.ledger.end
    until = np.where(ends < NEVER, ends, np.maximum(end_us, submit))
    first = np.minimum(outcome.ledger.first_start, until)
    ask = (world.arrays.gang * world.arrays.demand[:, :, GPU]).sum(axis=1) / QUANTA_PER_UNIT["gpu"]
    job, begin, close, _ = _where(held, held.gpus == 0)
    close = np.maximum(np.minimum(close, until[job]), begin)
    jobs = np.append(np.arange(len(submit)), job)
    return Holdings(jobs, np.append(submit, begin), np.append(first, close), ask[jobs])


def _row(
    team: Team,
    mine: BoolArray,
    all_jobs: pl.DataFrame,
    outcome: Outcome,
    spells: tuple[Holdings, Holdings] | None,
    end_us: int,
) -> tuple[object, ...]:
    jobs = all_jobs.filter(mine)
    wait_s, rho = (jobs["start_s"] - jobs["submit_s"]).drop_nulls(), jobs["rho"].drop_nulls()
    in_time = None if team.slo_wait_s is None else int((wait_s <= team.slo_wait_s).sum())
    nominal = [quota.nominal / QUANTA_PER_UNIT["gpu"] for quota in team.quotas if quota.resource == "gpu"]
    held_h, quota_h, borrowed_h, unmet_h = None, None, None, None
    if spells is not None:
        held, waiting = (_where(each, mine[each.job]) for each in spells)
        held_h = float((held.gpus * (held.until_us - held.from_us)).sum()) / _US_PER_H
        if nominal:
            quota_h, borrowed_h, unmet_h = _beside_quota(held, waiting, nominal[0], end_us)
    wasted = wasted_gpu_h(all_jobs, outcome, mine)
    return (
        *(team.name, len(jobs), *(int((jobs["status"] == status).sum()) for status in JobStatus)),
        *(wait_s.mean(), wait_s.median(), wait_s.quantile(0.95, "linear")),
        None if in_time is None or not len(jobs) else in_time / len(jobs),
        *(held_h, quota_h, held_h / quota_h if held_h is not None and quota_h else None, borrowed_h, unmet_h),
        *_preemptions(outcome, mine),
        None if wasted is None else sum(wasted.values()),
        None if wasted is None else json.dumps(wasted),
        *(rho.mean(), rho.quantile(0.95, "linear")),
    )


def _beside_quota(held: Holdings, waiting: Holdings, quota: float, end_us: int) -> tuple[float, float, float]:
    """GPU-hours of a quota until the end; held beyond it; and free below it while jobs waited for them."""
    at = np.unique(np.concatenate([held.from_us, held.until_us, waiting.from_us, waiting.until_us]))
    used, asked = _over_time(held, at), _over_time(waiting, at)
    span = np.diff(at, append=at[-1:])
    borrowed = float((np.maximum(used - quota, 0.0) * span).sum())
    unmet = float((np.minimum(np.maximum(quota - used, 0.0), asked) * span).sum())
    return quota * end_us / _US_PER_H, borrowed / _US_PER_H, unmet / _US_PER_H


def _over_time(spells: Holdings, at: IntArray) -> FloatArray:
    """GPUs of all spells from each of these instants on."""
    change = np.zeros(len(at))
    np.add.at(change, np.searchsorted(at, spells.from_us), spells.gpus)
    np.subtract.at(change, np.searchsorted(at, spells.until_us), spells.gpus)
    return np.cumsum(change)


def _preemptions(outcome: Outcome, mine: BoolArray) -> tuple[int | None, int | None]:
    """Stops of the team's jobs to make room for others, and stops for jobs of the team."""
    if outcome.loop != "general":
        return None, None
    rows = outcome.stops.rows
    caused = rows["by"] >= 0
    return int(mine[rows["job"][caused]].sum()), int(mine[rows["by"][caused]].sum())
