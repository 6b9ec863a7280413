"""Exact validation of a decision: all of it can be carried out, or none of it is."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.chunk_ledger import ChunkLedger
from ray_sim.engine.chunk_validation import check_chunks
from ray_sim.engine.decision import Decision, Estimates
from ray_sim.engine.faults import job_name, reject_decision
from ray_sim.engine.world import World
from ray_sim.kernels.arrays import RUNNING, WAITING, Ledger, Pool
from ray_sim.kernels.check import OK, check_changes
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.units import BoolArray, IntArray

_MOST_LEVELS = 2**31


def check_decision(
    where: str,
    now_us: int,
    world: World,
    ledger: Ledger,
    pool: Pool,
    chunked: ChunkLedger | None,
    decision: Decision,
    available: BoolArray,
    after: IntArray,
) -> None:
    """Refuse a decision that breaks a rule of the world.

    ``available`` is (S,), the servers that are there; ``after`` is working space, (S, R); ``where``
    begins the message, e.g. ``3 s: policy fifo``.

    Raises
    ------
    InfeasibleDecisionError : it names the first fault
    """
    if decision.review_us <= now_us:
        raise InfeasibleDecisionError(f"at {where} asks for a review at or before now")
    _check_ends(where, world, ledger, decision)
    _check_levels(where, world, decision.levels)
    if decision.estimates is not None:
        _check_estimates(where, world, ledger, decision, decision.estimates)
    if decision.changes is not None:
        fault, job, server = check_changes(
            world.shop, ledger, pool, decision.changes, decision.evict, world.elastic, after
        )
        if fault != OK:
            reject_decision(where, world, fault, job, server, available, after)
    if chunked is not None:
        check_chunks(where, now_us, world, ledger, chunked, decision, available)
    elif decision.dispatch is not None or decision.keys is not None:
        raise InfeasibleDecisionError(
            f"at {where} dispatches chunks or gives them keys, but jobs of this world are not chunked"
        )


def _check_ends(where: str, world: World, ledger: Ledger, decision: Decision) -> None:
    """Jobs that end are in the system, end once, and are given nothing."""
    ends = [*decision.reject.tolist(), *decision.evict.tolist()]
    for job in ends:
        if not 0 <= job < len(world.table) or ledger.status[job] not in (WAITING, RUNNING):
            raise InfeasibleDecisionError(
                f"at {where} ends {job_name(world, job)}, which is not in the system now"
            )
    if len(decision.reject_reasons) != len(ends) - len(decision.evict):
        raise InfeasibleDecisionError(
            f"at {where} rejects {len(decision.reject)} jobs for {len(decision.reject_reasons)} reasons; "
            f"give one for all, or one for each"
        )
    for job in decision.reject.tolist():
        if ledger.status[job] == RUNNING:
            raise InfeasibleDecisionError(
                f"at {where} rejects {job_name(world, job)}, which runs; evict it instead"
            )
    twice = sorted(job for job in set(ends) if ends.count(job) > 1) if len(set(ends)) < len(ends) else []
    if twice:
        raise InfeasibleDecisionError(f"at {where} ends {job_name(world, twice[0])} twice")
    both = sorted(set(ends) & _served(decision)) if ends else []
    if both:
        raise InfeasibleDecisionError(f"at {where} both ends and places {job_name(world, both[0])}")


def _served(decision: Decision) -> set[int]:
    """Jobs that are given servers or workers."""
    changes, dispatch = decision.changes, decision.dispatch
    jobs = set() if changes is None else set(changes.job[: changes.size[0]].tolist())
    return jobs if dispatch is None else jobs | set(dispatch.job.tolist())


def _check_levels(where: str, world: World, levels: IntArray) -> None:
    """Each job at most once, so that the record has room for them."""
    if len(levels) == 0:
        return
    job, level = levels[:, 0], levels[:, 1]
    faults = (
        ((job < 0) | (job >= len(world.table)), "of a job that does not exist"),
        ((level < 0) | (level >= _MOST_LEVELS), "that is not 0 or more"),
        (np.diff(job, prepend=-1) <= 0, "twice or out of order"),
    )
    for wrong, text in faults:
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InfeasibleDecisionError(
                f"at {where} sets level {level[first]} of {job_name(world, int(job[first]))} {text}"
            )


def _check_estimates(
    where: str, world: World, ledger: Ledger, decision: Decision, estimates: Estimates
) -> None:
    """Of elastic jobs that stay in the system, each at most once."""
    if world.training is None:
        raise InfeasibleDecisionError(f"at {where} tells estimates, but jobs of this world are not elastic")
    jobs = estimates.job
    shapes = [np.shape(column) for column in (jobs, estimates.speed, estimates.work_left)]
    if len(shapes[0]) != 1 or len(set(shapes)) != 1:
        raise InfeasibleDecisionError(
            f"at {where} tells estimates job, speed and work_left of shapes "
            f"{', '.join(map(str, shapes))}; give one number of each for every job told of"
        )
    there = (jobs >= 0) & (jobs < len(world.table))
    here = np.isin(ledger.status[np.where(there, jobs, 0)], (WAITING, RUNNING))
    ended = np.isin(jobs, np.concatenate([decision.reject, decision.evict]))
    for wrong, text in (
        (~(there & here) | ended, "which is not in the system then"),
        (np.diff(jobs, prepend=-1) <= 0, "twice or out of order"),
    ):
        if wrong.any():
            job = int(jobs[np.argmax(wrong)])
            raise InfeasibleDecisionError(f"at {where} tells an estimate of {job_name(world, job)} {text}")
    for name, told in (("speed", estimates.speed), ("work_left", estimates.work_left)):
        wrong = np.isinf(told) | (told < 0)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InfeasibleDecisionError(
                f"at {where} tells {name} {told[first]:g} of {job_name(world, int(jobs[first]))}; "
                f"tell a number >= 0, or NaN for none"
            )
