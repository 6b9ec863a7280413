"""Exact validation of a decision: all of it can be carried out, or none of it is; and of a policy's world.

`Simulation.apply` calls `check_decision` for every decision, then the check of the kind of job (`check` of
its run). Rules of one kind belong there. Messages are for the author of a policy: they name rule and job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Causes, Decision, QueueLevels, Wake
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.world import World
from ray_sim.kernels.core import feasibility
from ray_sim.kernels.core.arrays import RUNNING, WAITING, Changes, Ledger, devices
from ray_sim.kernels.core.devices import DEVICE, GPU
from ray_sim.model.errors import InfeasibleDecisionError, InvalidScenarioError
from ray_sim.model.text import shown
from ray_sim.model.units import IntArray

_MOST_LEVELS = 2**31
_INT64 = np.dtype(np.int64)


def refuse_world(policy: Policy, world: World, name: str) -> None:
    """Refuse a world that lacks what a policy needs, or has jobs that it does not respect.

    Raises
    ------
    InvalidScenarioError : it says what to set
    """
    if (policy.slotted or Wake.SLOT in policy.wake_on) and world.slot_us is None:
        raise InvalidScenarioError(f"policy {name} decides on slots: give their length, e.g. -w slot_s=3600")
    if policy.bounded and not world.bounded:
        raise InvalidScenarioError(f"policy {name} plans up to a horizon: give it, e.g. -w horizon_s=72000")
    if not policy.respects_types and len(world.arrays.pool_ptr) > len(world.arrays.part_class_ptr):
        raise InvalidScenarioError(
            f"policy {name} plans on all servers of a partition, but some jobs accept certain GPU "
            "types only; set gpu_types=ignore, or take another policy"
        )
    if not policy.respects_shares and devices(world.arrays):
        raise InvalidScenarioError(
            f"policy {name} does not know the devices of a server, but some jobs ask for a share of "
            "a GPU; set gpu_shares=pooled, or take another policy"
        )


def check_decision(where: str, now_us: int, core: RunCore, decision: Decision, of: type) -> None:
    """Refuse a decision that breaks a rule for all kinds of jobs.

    Parameters
    ----------
    where : begins the message, e.g. ``3 s: policy fifo``
    of : class of the policy, named where its answer is no decision

    Raises
    ------
    InfeasibleDecisionError : it names the first fault
    """
    world, ledger = core.world, core.ledger
    _check_types(where, decision, of)
    if decision.review_us <= now_us:
        raise InfeasibleDecisionError(f"at {where} asks for a review at or before now")
    _check_ends(where, world, ledger, decision)
    if decision.levels is not None:
        _check_levels(where, world, decision.levels)
    if decision.causes is not None:
        _check_causes(where, world, decision.causes)
    if decision.changes is not None:
        after = core.after
        facts = world.facts
        fault, job, server = feasibility.check_changes(
            core.books,
            decision.changes,
            decision.evict,
            facts.partial,
            facts.least_tasks,
            after,
            core.row_device,
        )
        if fault != feasibility.OK:
            reject_decision(where, world, fault, job, server, after)


def _check_types(where: str, decision: object, of: type) -> None:
    """A policy is a user's code, so nothing else says that it answers with what is declared."""
    if not isinstance(decision, Decision):
        raise InfeasibleDecisionError(
            f"at {where} answers {type(decision).__name__}: decide must return a Decision, Decision() to "
            f"change nothing (class {of.__module__}:{of.__qualname__})"
        )
    for name, given, kind in decision.records():
        if given is not None and not isinstance(given, kind):
            mend = "; Decision.of({job: [(server, role, count)]}) makes them" if kind is Changes else ""
            raise _wrong_type(where, name, given, f"{kind.__name__} or None{mend}")
    if decision.changes is not None and np.shape(decision.changes.size) != (1,):
        raise _wrong_type(where, "changes.size", decision.changes.size, "an array of one number")
    for name, array, dimensions in decision.columns():
        if not (isinstance(array, np.ndarray) and array.dtype == _INT64 and array.ndim == dimensions):
            raise _wrong_type(where, name, array, f"an array of int64 with {dimensions} dimensions")
    levels = decision.levels
    if levels is not None and len(levels.job) != len(levels.level):
        raise _wrong_type(where, "levels.level", levels.level, f"one for each of {len(levels.job)} jobs")
    if isinstance(decision.review_us, bool) or not isinstance(decision.review_us, (int, np.integer)):
        raise _wrong_type(where, "review_us", decision.review_us, "a whole number of microseconds")
    reasons = decision.reject_reason
    if not isinstance(reasons, str) and not all(isinstance(reason, str) for reason in _items(reasons)):
        raise _wrong_type(where, "reject_reason", reasons, "a text, or a tuple of one for each job")


def _items(value: object) -> Iterable[object]:
    return value if isinstance(value, tuple) else (value,)


def _wrong_type(where: str, name: str, given: object, expected: str) -> InfeasibleDecisionError:
    found = type(given).__name__
    if isinstance(given, np.ndarray):
        found = f"an array of {given.dtype} with {given.ndim} dimensions"
    return InfeasibleDecisionError(
        f"at {where} answers a Decision whose {name} is {found}; expected {expected}"
    )


def _check_ends(where: str, world: World, ledger: Ledger, decision: Decision) -> None:
    """Jobs that end are in the system, end once, and are given nothing."""
    ends = [*decision.reject.tolist(), *decision.evict.tolist()]
    if not ends and isinstance(decision.reject_reason, str):
        return
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
    both = sorted(set(ends) & decision.served) if ends else []
    if both:
        raise InfeasibleDecisionError(f"at {where} both ends and places {job_name(world, both[0])}")


def _check_levels(where: str, world: World, levels: QueueLevels) -> None:
    """Each job at most once, so that the record has room for them."""
    job, level = levels.job, levels.level
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


def _check_causes(where: str, world: World, causes: Causes) -> None:
    """Existing jobs, each at most once, and a text for each."""
    job, by, count = causes.job, causes.by, len(world.table)
    if not len(job) == len(by) == len(causes.reason):
        raise _wrong_type(
            where, "causes", causes.reason, f"one `by` and one reason for each of {len(job)} jobs"
        )
    faults = (
        ((job < 0) | (job >= count) | (np.diff(job, prepend=-1) <= 0), "of {} twice, or of no job"),
        ((by < -1) | (by >= count), "of {} by a job that does not exist"),
    )
    for wrong, text in faults:
        if wrong.any():
            name = job_name(world, int(job[int(np.argmax(wrong))]))
            raise InfeasibleDecisionError(f"at {where} names the cause {text.format(name)}")


def job_name(world: World, job: int) -> str:
    """Name of a job in messages, also of one that does not exist."""
    known = 0 <= job < len(world.table)
    return f"job {world.table.name(int(job))}" if known else f"job number {job}"


def reject_decision(where: str, world: World, fault: int, job: int, server: int, after: IntArray) -> NoReturn:
    """Raise the error of `ray_sim.kernels.core.feasibility.check_changes`'s verdict.

    ``after`` is (S, R + D) what would have been left free, negative where the decision exceeds it.
    """
    name = job_name(world, job)
    on = f" on server {world.cluster.server_names[server]}" if 0 <= server < len(world.cluster) else ""
    texts = {
        feasibility.NOT_SORTED: f"lists {name}{on} twice or out of order; jobs and rows must increase",
        feasibility.NO_SUCH_JOB: f"names {name}, but jobs are numbered 0 to {len(world.table) - 1}",
        feasibility.NOT_ACTIVE: f"places {name}, which is not in the system now",
        feasibility.NO_SUCH_SERVER: f"places {name} on server number {server}, of {len(world.cluster)}",
        feasibility.WRONG_PARTITION: f"places {name}{on}, which is outside the job's partition",
        feasibility.NOT_THERE: f"places {name}{on}, which is not there now",
        feasibility.BAD_COUNT: f"gives {name}{on} a number of tasks that is not 1 to the gang's",
        feasibility.BAD_ROLE: f"gives {name}{on} a role this world does not have",
        feasibility.BROKEN: "gives changes whose size, ptr or order do not fit the rest; see Decision.of",
        feasibility.NOTHING_HELD: f"suspends {name}, which holds nothing",
        feasibility.OTHER_DEVICES: f"gives {name}{on} devices that do not add up to its tasks' GPUs",
    }
    if fault == feasibility.NOT_A_GANG:
        texts[fault] = f"does not place all {world.arrays.gang[job, 0]} tasks of {name}; gangs run whole"
    if fault == feasibility.WRONG_TYPE:
        texts[fault] = f"places {name}{on} of {_types_refused(world, job, server)}"
    if fault == feasibility.OVER_CAPACITY:
        texts[fault] = f"exceeds capacity for {name}{on}: {_excess(world, server, after)}"
    if fault == feasibility.NO_DEVICE:
        texts[fault] = f"places {name}{on}: {_devices(world, job, server, after)}"
    raise InfeasibleDecisionError(f"at {where} {texts[fault]}")


def _devices(world: World, job: int, server: int, after: IntArray) -> str:
    """Free GPU on each device of a server, and the GPU that a task of the job needs, as text."""
    arrays, resources = world.arrays, world.arrays.capacity.shape[1]
    here = arrays.empty[server, resources:] > 0
    free = after[server, resources:][here] / DEVICE
    ask = arrays.demand[job, 0, GPU] / DEVICE
    each = " and ".join(f"{part:g}" for part in free)
    return f"{free.sum():g} GPU free, on devices {each}; a task needs {ask:g}"


def _types_refused(world: World, job: int, server: int) -> str:
    assert world.table.gpu_types is not None
    found, accepted = world.cluster.gpu_type[server], world.table.gpu_types[int(job)]
    return f"{f'type {found}' if found else 'no type'}; it accepts {shown(accepted)}"


def _excess(world: World, server: int, after: IntArray) -> str:
    short = [
        f"{-after[server, r] / quanta:g} {name} too many of {world.arrays.capacity[server, r] / quanta:g}"
        for r, (name, quanta) in enumerate(world.facts.resources.items())
        if after[server, r] < 0
    ]
    return ", ".join(short)
