"""Fragmentation over time: free capacity in pieces that are too small for the job that waits longest."""

from __future__ import annotations

import numpy as np
import polars as pl

from ray_sim.model.units import US_PER_S, IntArray
from ray_sim.reports.history.free_capacity import FreeCapacity
from ray_sim.reports.history.run_facts import RunFacts
from ray_sim.reports.history.waits import Waits

MOST_INSTANTS = 500
"""Instants at which fragmentation is computed."""


def fragmentation(facts: RunFacts, free: FreeCapacity, waits: Waits, times_us: IntArray) -> pl.DataFrame:
    """Share of free capacity that the job that waits longest cannot use, at some instants.

    At an instant, take the waiting job with the earliest submission and the servers of its partition. What is
    free on one server is a piece; it is too small if it holds neither the whole gang nor, where the gang is
    larger, the largest server's worth of it. Fragmentation is the share of free capacity in pieces that are
    too small, of the resource with the largest share: 0 if no job waits or nothing is free.

    Parameters
    ----------
    times_us : instants to choose from, increasing; at most `MOST_INSTANTS` are taken, evenly

    Returns
    -------
    columns ``time_s`` and ``fragmentation``
    """
    evenly = np.linspace(0, len(times_us) - 1, min(len(times_us), MOST_INSTANTS)).round()
    instants = times_us[np.unique(evenly.astype(np.int64))]
    by_time = np.argsort(free.time_us, kind="stable")
    state = np.zeros_like(facts.arrays.capacity)
    ends = np.searchsorted(free.time_us[by_time], instants, side="right")
    shares, begin = [], 0
    for time_us, end in zip(instants.tolist(), ends.tolist(), strict=True):
        rows = by_time[begin:end]
        state[free.server[rows]] = free.free[rows]
        begin = end
        shares.append(_share(facts, state, _longest_waiting(waits, time_us)))
    return pl.DataFrame({"time_s": instants / US_PER_S, "fragmentation": np.array(shares)})


def _longest_waiting(waits: Waits, time_us: int) -> int | None:
    """The lowest index of the jobs that wait at an instant; jobs are numbered by submission."""
    now = (waits.begin_us <= time_us) & (time_us < waits.end_us)
    return int(waits.job[now].min()) if now.any() else None


def _share(facts: RunFacts, free: IntArray, job: int | None) -> float:
    if job is None:
        return 0.0
    mine = facts.eligible(job)
    whole = facts.whole_demand(job)
    needed = whole > 0
    pieces = np.maximum(free[mine][:, needed], 0)
    total = pieces.sum(axis=0)
    if not needed.any() or not (total > 0).any():
        return 0.0
    wanted = np.minimum(whole, facts.arrays.capacity[mine].max(axis=0))[needed]
    useful = np.all(pieces >= wanted, axis=1)
    lost = pieces[~useful].sum(axis=0)
    return float(np.max(lost[total > 0] / total[total > 0]))
