"""Rules of announced jobs and of the mechanism, checked in the recorded result of a run.

The checks read events and the table of jobs, and what an audit recorded; they share no code with policies.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022),
Algorithms 1 and 2; docs/models/posted_price.md#properties-to-check lists the invariants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.certificates.announced_loads import NEVER, RunIntervals
from ray_sim.model.statement import NANO, NEVER_ROUND, Statements
from ray_sim.model.units import US_PER_S, BoolArray, IntArray
from ray_sim.model.welfare_audit import MechanismRecord


@dataclass(frozen=True, slots=True)
class AnnouncedRules:
    """Facts of the world by which a run of announced jobs is judged."""

    reported: Statements
    """J statements as they were reported."""
    arrival: IntArray
    """(J,) rounds."""
    signal: IntArray
    """(J,) signal of the duration at the arrival."""
    nodes: int
    slot_us: int


def violations(
    rules: AnnouncedRules, runs: RunIntervals, jobs: pl.DataFrame, record: MechanismRecord | None
) -> list[str]:
    """One sentence for each rule that the run breaks, with the first job or round and the number of them.

    Parameters
    ----------
    jobs : of the result, in order of birth
    record : of a policy with prices; None for others, for which only capacity and payments are checked
    """
    found = [*_of_capacity(rules, runs, jobs), *_of_payments(jobs)]
    if record is not None:
        found += [*_of_bookings(record), *_of_prices(record, jobs), *_of_plans(rules, runs, jobs, record)]
        found += _of_evictions(runs, jobs)
    return found


def _of_capacity(rules: AnnouncedRules, runs: RunIntervals, jobs: pl.DataFrame) -> Iterator[str]:
    started = runs.start < NEVER
    wrong = started & (runs.held != rules.reported.concurrency)
    yield from _of_jobs(jobs, wrong, "holds another number of GPUs than it reported")
    yield from _of_jobs(jobs, runs.placements > 1, "was started or moved more than once")
    ends = np.where(runs.end < NEVER, runs.end, runs.start[started].max(initial=0) + rules.slot_us)
    last = int(np.where(started, ends, 0).max(initial=0)) // rules.slot_us + 1
    load = runs.load(rules.slot_us, last)
    over = np.flatnonzero(load > rules.nodes)
    if len(over):
        held = f"{load[over[0]]:,} GPUs are held, of {rules.nodes:,}"
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


def _of_plans(
    rules: AnnouncedRules, runs: RunIntervals, jobs: pl.DataFrame, record: MechanismRecord
) -> Iterator[str]:
    planned = np.where(record.start < NEVER_ROUND, record.start, 0) * rules.slot_us
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
    at = {job: f" at {runs.end[job] / US_PER_S:g} s" for job in np.flatnonzero(wrong)[:1].tolist()}
    when = next(iter(at.values()), "")
    yield from _of_jobs(jobs, wrong, f"is evicted{when}, and a job that was born later stays")


def _of_jobs(jobs: pl.DataFrame, wrong: BoolArray, what: str) -> Iterator[str]:
    if wrong.any():
        yield f"job {jobs['job_id'][int(wrong.argmax())]} {what} ({int(wrong.sum()):,} such jobs)"
