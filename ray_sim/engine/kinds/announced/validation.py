"""Exact validation of what a decision does to announced jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ray_sim.engine.decision import Decision
from ray_sim.engine.infeasibility_text import job_name
from ray_sim.engine.kinds.announced.decision import AnnouncedDecision, Charges, Launches
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import COMPLETED, RUNNING, WAITING, Ledger
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.units import US_PER_S, BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Announced:
    """State of announced jobs that decisions must heed; (J,) each."""

    slot_us: int
    come: BoolArray
    """Jobs that have come."""
    due_us: IntArray
    """Starts that bind, negative where there is none."""
    charged: BoolArray
    """Jobs that have been charged."""


def check_announced(
    where: str, now_us: int, world: World, ledger: Ledger, jobs: Announced, decision: Decision
) -> None:
    """Refuse a decision that breaks a rule of announced jobs; capacity is checked before.

    Raises
    ------
    InfeasibleDecisionError : it names the first fault, after ``where``
    """
    for job, what in _faults(now_us, ledger, jobs, decision):
        name = job_name(world, job) if job >= 0 else ""
        raise InfeasibleDecisionError(f"at {where} {what.format(job=name)}")


def _faults(now_us: int, ledger: Ledger, jobs: Announced, decision: Decision) -> Iterator[tuple[int, str]]:
    """A job, or -1, and what is wrong with it, with ``{job}`` for its name."""
    launches = charges = None
    if isinstance(decision, AnnouncedDecision):
        launches, charges = decision.launches, decision.charges
    if launches is not None:
        yield from _of_launches(now_us, ledger, jobs, launches)
    if charges is not None:
        yield from _of_charges(ledger, jobs, charges)
    if decision.changes is not None:
        changed = decision.changes.job[: int(decision.changes.size[0])]
        yield from _of_starts(now_us, ledger, jobs, changed, launches)


def _of_starts(
    now_us: int, ledger: Ledger, state: Announced, jobs: IntArray, launches: Launches | None
) -> Iterator[tuple[int, str]]:
    yield from _first(jobs, ledger.status[jobs] == RUNNING, "moves or stops {job}, which runs: only evict it")
    yield from _first(jobs, ~state.come[jobs], "starts {job}, which has not come")
    if len(jobs) and now_us % state.slot_us:
        seconds = state.slot_us / US_PER_S
        yield int(jobs[0]), f"starts {{job}} within a round of {seconds:g} s: jobs start when a round begins"
    due_us = state.due_us[jobs].copy()
    if launches is not None:
        _, mine, given = np.intersect1d(jobs, launches.job, assume_unique=True, return_indices=True)
        due_us[mine] = launches.start_us[given]
    yield from _first(
        jobs, (due_us >= 0) & (due_us != now_us), "starts {job} at another time than its launch says"
    )


def _of_launches(
    now_us: int, ledger: Ledger, state: Announced, launches: Launches
) -> Iterator[tuple[int, str]]:
    jobs = launches.job
    yield from _unlike("launches", jobs, launches.start_us, len(state.come))
    waits = (ledger.status[jobs] == WAITING) & state.come[jobs]
    yield from _first(jobs, ~waits, "tells {job} its start, which does not wait or has not come")
    yield from _first(jobs, state.due_us[jobs] >= 0, "tells {job} its start a second time: the first binds")
    late = (launches.start_us < now_us) | (launches.start_us % state.slot_us != 0)
    yield from _first(jobs, late, "tells {job} a start that is past or within a round")


def _of_charges(ledger: Ledger, state: Announced, charges: Charges) -> Iterator[tuple[int, str]]:
    jobs = charges.job
    yield from _unlike("charges", jobs, charges.price, len(state.come))
    yield from _first(jobs, ledger.status[jobs] != COMPLETED, "charges {job}, which has not completed")
    yield from _first(jobs, state.charged[jobs], "charges {job} a second time")
    yield from _first(jobs, charges.price < 0, "charges {job} a negative price")


def _unlike(field: str, jobs: IntArray, values: IntArray, n: int) -> Iterator[tuple[int, str]]:
    if len(jobs) != len(values):
        yield -1, f"answers {field} of {len(jobs)} jobs and {len(values)} values: they must be equal"
    elif ((jobs < 0) | (jobs >= n)).any() or (np.diff(jobs) <= 0).any():
        yield -1, f"answers {field} whose jobs are not sorted numbers of jobs, each once"


def _first(jobs: IntArray, wrong: BoolArray, what: str) -> Iterator[tuple[int, str]]:
    if wrong.any():
        yield int(jobs[int(wrong.argmax())]), what
