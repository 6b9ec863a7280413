"""Rules of announced jobs, checked in the recorded result of a run, for its audit.

The checks read events and the table of jobs, and what an audit recorded; they share no code with policies.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
Algorithms 1 and 2, and Lemma 4.3, whose prefactor is garbled in our copy; its power of 2 is ours.
docs/models/posted_price.md#properties-to-check lists the invariants.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.result import RunResult
from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import US_PER_S, BoolArray, IntArray, seconds_to_us
from ray_sim.model.welfare_audit import MechanismRecord

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


def violations(
    runs: RunIntervals,
    jobs: pl.DataFrame,
    gpus: IntArray,
    nodes: int,
    slot_us: int,
    record: MechanismRecord | None = None,
) -> list[str]:
    """One sentence for each rule that the run breaks, with the first job or round and the number of them.

    Parameters
    ----------
    jobs : of the result, in order of birth
    gpus : (J,) GPUs that are reported
    record : of a policy with prices; None for others, for which only capacity and payments are checked
    """
    found = [*_of_capacity(runs, jobs, gpus, nodes, slot_us), *_of_payments(jobs)]
    if record is not None:
        found += [*_of_bookings(record), *_of_prices(record, jobs), *_of_plans(runs, jobs, slot_us, record)]
        found += _of_evictions(runs, jobs)
    return found


def _of_capacity(
    runs: RunIntervals, jobs: pl.DataFrame, gpus: IntArray, nodes: int, slot_us: int
) -> Iterator[str]:
    started = runs.start < NEVER
    wrong = started & (runs.held != gpus)
    yield from _of_jobs(jobs, wrong, "holds another number of GPUs than it reported")
    yield from _of_jobs(jobs, runs.placements > 1, "was started or moved more than once")
    ends = np.where(runs.end < NEVER, runs.end, runs.start[started].max(initial=0) + slot_us)
    last = int(np.where(started, ends, 0).max(initial=0)) // slot_us + 1
    load = runs.load(slot_us, last)
    over = np.flatnonzero(load > nodes)
    if len(over):
        held = f"{load[over[0]]:,} GPUs are held, of {nodes:,}"
        yield f"round {over[0]}: {held} ({len(over):,} such rounds)"


def _of_payments(jobs: pl.DataFrame) -> Iterator[str]:
    unfinished = (jobs["status"] != "completed").to_numpy()
    yield from _of_jobs(jobs, unfinished & (jobs["payment"].to_numpy() != 0), "pays and has not completed")
    yield from _of_jobs(jobs, unfinished & (jobs["value"].to_numpy() != 0), "earns and has not completed")


def _of_bookings(record: MechanismRecord) -> Iterator[str]:
    most = record.relaxed + (record.points + 1) // 2
    over = np.flatnonzero(record.booked > most)
    if len(over):
        yield (
            f"round {over[0]}: {record.booked[over[0]] / NANO:g} GPUs are booked, above "
            f"C' = {record.relaxed / NANO:g} ({len(over):,} such rounds)"
        )


def _of_prices(record: MechanismRecord, jobs: pl.DataFrame) -> Iterator[str]:
    if record.fallen:
        job, round_ = record.fallen[0]
        yield (
            f"job {jobs['job_id'][job]}: at its birth the price of round {round_} is lower than at an "
            f"earlier birth ({len(record.fallen):,} such jobs)"
        )
    payment = np.rint(jobs["payment"].to_numpy() * NANO)
    # Payments are floats of units, of which 1e-9 is lost above 4 million.
    slack = 1 + 1e-12 * record.price
    yield from _of_jobs(jobs, payment > record.price + slack, "pays more than the menu of its birth said")


def _of_plans(runs: RunIntervals, jobs: pl.DataFrame, slot_us: int, record: MechanismRecord) -> Iterator[str]:
    planned = np.where(record.start < NEVER_ROUND, record.start, 0) * slot_us
    wrong = (runs.start < NEVER) & ((record.start == NEVER_ROUND) | (runs.start != planned))
    yield from _of_jobs(jobs, wrong, "starts otherwise than its plan says")


def _of_evictions(runs: RunIntervals, jobs: pl.DataFrame) -> Iterator[str]:
    """Whoever is evicted is born after all that stay active."""
    evicted = (jobs["status"] == "evicted").to_numpy()
    wrong = np.zeros(len(jobs), dtype=np.bool_)
    numbers = np.flatnonzero(evicted)
    active: list[int] = []
    submitted = 0
    for job in numbers[np.argsort(runs.end[numbers], kind="stable")].tolist():
        now = runs.end[job]
        while submitted < len(jobs) and runs.submit[submitted] <= now:
            active.append(submitted)
            submitted += 1
        while active and runs.end[active[-1]] <= now:
            active.pop()
        wrong[job] = bool(active) and active[-1] > job
    when = f"{runs.end[int(wrong.argmax())] / US_PER_S:g} s" if wrong.any() else ""
    yield from _of_jobs(jobs, wrong, f"is evicted at {when}, and a job that was born later stays")


def _of_jobs(jobs: pl.DataFrame, wrong: BoolArray, what: str) -> Iterator[str]:
    if wrong.any():
        yield f"job {jobs['job_id'][int(wrong.argmax())]} {what} ({int(wrong.sum()):,} such jobs)"


def eviction_line(
    nodes: int, relaxed: float, concurrency: int, duration: int, delay: int, least_failure: float
) -> float | None:
    """Bound of Lemma 4.3 on the probability that a failure estimate exceeds ``least_failure``.

    With C' <= (1 - delta) (C - C_m) and lambda = eps / 10 it is (D_m + S_m)^2 / lambda
    exp(-(C / C_m - 1) delta^2 / (1 + delta)); None where that is 1 or more.

    Parameters
    ----------
    nodes, relaxed : C and C'
    concurrency, duration, delay : C_m, D_m and S_m
    """
    if least_failure <= 0 or relaxed >= nodes - concurrency:
        return None
    delta = 1 - relaxed / (nodes - concurrency)
    exponent = (nodes / concurrency - 1) * delta**2 / (1 + delta)
    bound = (duration + delay) ** 2 / least_failure * math.exp(-exponent)
    return bound if bound < 1 else None
