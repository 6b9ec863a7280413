"""GPUs that announced jobs held in each round of a finished run, read from its result, and what was booked.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022), Lemma
4.3. The prefactor of the lemma is garbled in our copy of the paper; its power of 2 is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.result import RunResult
from ray_sim.model.statement import NANO
from ray_sim.model.units import FloatArray, IntArray, seconds_to_us

NEVER = 2**62
"""Instant of what did not happen."""

_PLACED = ("start", "move")
_ENDED = ("finish", "evict", "reject")


@dataclass(frozen=True, slots=True)
class RunIntervals:
    """When the J jobs of a result ran, read from its events, in microseconds; `NEVER` where they did not."""

    submit: IntArray
    """(J,) births."""
    start: IntArray
    """(J,) first placement."""
    end: IntArray
    """(J,) completion, eviction or rejection."""
    held: IntArray
    """(J,) GPUs held from the first placement on; 0 without one."""
    placements: IntArray
    """(J,) instants at which the job was placed or moved."""

    @classmethod
    def of(cls, result: RunResult, origin_us: int) -> RunIntervals:
        """Read a result whose times begin at ``origin_us``."""
        jobs, n = result.jobs, len(result.jobs)
        names = jobs.select("job_id", number=pl.int_range(n))
        events = result.events.select("time_s", "job_id", "count", event=pl.col("event").cast(pl.String))
        events = events.join(names, on="job_id", maintain_order="left")
        at_us = seconds_to_us(events["time_s"].to_numpy()) - origin_us
        events = events.with_columns(at_us=pl.Series(at_us, dtype=pl.Int64))
        start, end = np.full((2, n), NEVER)
        placed = events.filter(pl.col("event").is_in(_PLACED)).group_by(
            "number", "at_us", maintain_order=True
        )
        rows = placed.agg(pl.col("count").sum()).sort("number", "at_us")
        number, first = np.unique(rows["number"].to_numpy(), return_index=True)
        held = np.zeros(n, dtype=np.int64)
        start[number], held[number] = rows["at_us"].to_numpy()[first], rows["count"].to_numpy()[first]
        ended = events.filter(pl.col("event").is_in(_ENDED))
        end[ended["number"].to_numpy()] = ended["at_us"].to_numpy()
        return cls(
            submit=seconds_to_us(jobs["submit_s"].to_numpy()) - origin_us,
            start=start,
            end=end,
            held=held,
            placements=np.bincount(rows["number"].to_numpy(), minlength=n),
        )

    def load(self, slot_us: int, rounds: int) -> IntArray:
        """(rounds,) GPUs held in each round."""
        ran = np.flatnonzero(self.start < NEVER)
        change = np.zeros(rounds + 1, dtype=np.int64)
        np.add.at(change, np.minimum(self.start[ran] // slot_us, rounds), self.held[ran])
        np.subtract.at(change, np.minimum(-(-self.end[ran] // slot_us), rounds), self.held[ran])
        return np.cumsum(change)[:-1]


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """Loads over the rounds up to the last in which GPUs are held or booked; fields as of `WelfareAudit`."""

    load_max: float
    load_mean: float
    booked_max: float | None = None
    booked_mean: float | None = None
    load_excess: float | None = None


def load_figures(held: IntArray, nodes: int, booked: IntArray | None, relaxed: int) -> LoadFigures:
    """Compare the GPUs held in each round with those booked.

    Parameters
    ----------
    held : (R,) GPUs
    nodes : C, GPUs of all servers
    booked : (R,) expected load in 1e-9 GPUs; None for policies that book nothing
    relaxed : C', in 1e-9 GPUs; without effect if nothing is booked
    """
    used = held > 0 if booked is None else (held > 0) | (booked > 0)
    rounds = int(np.flatnonzero(used).max(initial=-1)) + 1
    if rounds == 0:
        return LoadFigures(0.0, 0.0, *((None,) * 3 if booked is None else (0.0, 0.0, 0.0)))
    load: FloatArray = held[:rounds] / nodes
    of_held = float(load.max()), float(load.mean())
    if booked is None:
        return LoadFigures(*of_held)
    share: FloatArray = booked[:rounds] / relaxed
    excess = float((held[:rounds] - booked[:rounds] / NANO).max())
    return LoadFigures(*of_held, float(share.max()), float(share.mean()), excess)


def eviction_line(
    nodes: int, relaxed: float, concurrency: int, duration: int, delay: int, least_failure: float
) -> float | None:
    """Bound of Lemma 4.3 on the probability that a failure estimate exceeds ``least_failure``.

    With C' <= (1 - delta) (C - C_m) it is (D_m + S_m)^2 / lambda exp(-(C / C_m - 1) delta^2 / (1 + delta)).

    Parameters
    ----------
    nodes : C
    relaxed : C'
    concurrency, duration, delay : C_m, D_m and S_m
    least_failure : lambda = eps / 10

    Returns
    -------
    in (0, 1); None where the lemma says nothing
    """
    if least_failure <= 0 or relaxed >= nodes - concurrency:
        return None
    delta = 1 - relaxed / (nodes - concurrency)
    exponent = (nodes / concurrency - 1) * delta**2 / (1 + delta)
    bound = (duration + delay) ** 2 / least_failure * math.exp(-exponent)
    return bound if bound < 1 else None
