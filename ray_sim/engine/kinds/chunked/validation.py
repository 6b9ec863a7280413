"""Exact validation of what a decision does to chunked jobs."""

from __future__ import annotations

import numpy as np

from ray_sim.engine.decision import Decision
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision, Dispatch, NewKeys
from ray_sim.engine.kinds.chunked.ledger import ChunkLedger
from ray_sim.engine.validation import job_name
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, RUNNING, WAITING, Changes, Ledger
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.units import US_PER_S, BoolArray, IntArray


def check_chunks(
    where: str,
    now_us: int,
    world: World,
    ledger: Ledger,
    chunked: ChunkLedger,
    decision: Decision,
    available: BoolArray,
) -> None:
    """Refuse a decision that breaks a rule of chunked jobs; capacity and partitions are checked before.

    ``available`` is (S,), the servers that are there.

    Raises
    ------
    InfeasibleDecisionError : it names the first fault
    """
    _check_ends(where, now_us, world, chunked, decision)
    if decision.changes is not None:
        _check_ps(where, now_us, world, chunked, decision.changes)
    if not isinstance(decision, ChunkedDecision):
        return
    if decision.dispatch is not None:
        _check_dispatch(where, world, ledger, chunked, decision.dispatch, available)
    if decision.keys is not None:
        _check_keys(where, now_us, chunked, world, ledger, decision.keys, decision.evict)


def _check_ends(where: str, now_us: int, world: World, chunked: ChunkLedger, decision: Decision) -> None:
    """Jobs with chunks on workers or a parameter server are evicted, not rejected.

    With whole slots they are evicted between slots.
    """
    facts = chunked.facts
    for jobs, verb in ((decision.reject, "rejects"), (decision.evict, "evicts")):
        there = jobs[(chunked.on_workers(jobs) > 0) | chunked.jobs.holds_ps[jobs]]
        if len(there) == 0:
            continue
        name = f"{job_name(world, int(there[0]))}, which has chunks on workers or a parameter server"
        if verb == "rejects":
            raise InfeasibleDecisionError(f"at {where} rejects {name}; evict it instead")
        if facts.whole_slots and now_us % facts.times.grid_us:
            raise InfeasibleDecisionError(
                f"at {where} evicts {name}, within a slot of {facts.times.grid_us / US_PER_S:g} s; with "
                f"slot_fill=whole such jobs are evicted between slots only"
            )


def _check_ps(where: str, now_us: int, world: World, chunked: ChunkLedger, changes: Changes) -> None:
    """A job holds one parameter server or none, and in whole slots it changes between slots."""
    facts = chunked.facts
    for i in range(int(changes.size[0])):
        job, begin, end = int(changes.job[i]), int(changes.ptr[i]), int(changes.ptr[i + 1])
        if begin == end:
            continue
        server = int(changes.server[begin])
        fault = None
        if (changes.role[begin:end] != PARAMETER_SERVER).any():
            fault = "the role of a worker; workers get chunks by dispatch"
        elif end - begin > 1 or changes.tasks[begin] != 1:
            fault = "more than one parameter server"
        elif not facts.eligible.may_serve(np.array(job), np.array(server)):
            name = world.cluster.server_names[server]
            fault = f"a parameter server on {name}, which has less memory than the job's ps_memory_gib"
        elif (
            chunked.jobs.in_cloud[job]
            and chunked.on_workers(changes.job[i : i + 1])[0] > 0
            and not facts.in_cloud[server]
        ):
            name = world.cluster.server_names[server]
            fault = f"a parameter server on {name}, but all its workers are in the cloud; give it one there"
        if fault is not None:
            raise InfeasibleDecisionError(f"at {where} gives {job_name(world, job)} {fault}")
    if facts.whole_slots and changes.size[0] > 0 and now_us % facts.times.grid_us:
        raise InfeasibleDecisionError(
            f"at {where} gives or takes parameter servers within a slot of "
            f"{facts.times.grid_us / US_PER_S:g} s; with slot_fill=whole they change between slots only"
        )


def _check_dispatch(
    where: str,
    world: World,
    ledger: Ledger,
    chunked: ChunkLedger,
    dispatch: Dispatch,
    available: BoolArray,
) -> None:
    """Chunks that exist, of jobs in the system, to workers of their partition, each once."""
    job, unit, worker = dispatch.job, dispatch.unit, dispatch.worker
    sizes = [len(column) for column in (job, unit, worker, dispatch.key)]
    if len(set(sizes)) > 1:
        raise InfeasibleDecisionError(
            f"at {where} dispatches {sizes[0]}, {sizes[1]}, {sizes[2]} and {sizes[3]} values of job, unit, "
            f"worker and key; give one of each per chunk"
        )
    facts, arrays = chunked.facts, world.arrays
    # What is out of range is replaced by 0, after it has been noted, so that the other tests can be made.
    no_job = (job < 0) | (job >= len(world.table))
    j = np.where(no_job, 0, job)
    no_unit = (unit < 0) | (unit >= facts.chunks[j])
    no_worker = (worker < 0) | (worker >= len(facts.slots))
    server = facts.slots.server[np.where(no_worker, 0, worker)]
    chunk = chunked.number(j, np.where(no_unit, 0, unit))
    again = np.ones(len(chunk), dtype=np.bool_)
    again[np.unique(chunk, return_index=True)[1]] = False
    faults = (
        (no_job, "a job that does not exist"),
        (~np.isin(ledger.status[j], (WAITING, RUNNING)), "the job is not in the system now"),
        (no_unit, "the job does not have it"),
        (no_worker, f"there is no such worker, they are numbered 0 to {len(facts.slots) - 1}"),
        (arrays.server_part[server] != arrays.job_part[j], "the worker is outside the job's partition"),
        (
            ~facts.eligible.may_train(j, server),
            "workers of its server have less memory than the job's worker_memory_gib",
        ),
        (again | chunked.dispatched[chunk], "for the second time"),
        (~available[server], "the worker's server is not there now"),
        (
            chunked.jobs.in_cloud[j] & (chunked.on_workers(j) > 0) & ~facts.in_cloud[server],
            "its other chunks are trained in the cloud without communication; send it there too",
        ),
    )
    for wrong, text in faults:
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InfeasibleDecisionError(
                f"at {where} dispatches chunk {unit[first]} of {job_name(world, int(job[first]))} to worker "
                f"{worker[first]}: {text}"
            )


def _check_keys(
    where: str,
    now_us: int,
    chunked: ChunkLedger,
    world: World,
    ledger: Ledger,
    keys: NewKeys,
    evicted: IntArray,
) -> None:
    """Jobs in the system, each once and in order; in whole slots between slots."""
    job, arrays = keys.job, world.arrays
    if len(job) != len(keys.key):
        raise InfeasibleDecisionError(
            f"at {where} gives {len(job)} jobs {len(keys.key)} new keys; give one of each"
        )
    if (np.diff(job) <= 0).any():
        raise InfeasibleDecisionError(f"at {where} gives new keys to jobs that are not sorted, or twice")
    if len(job) == 0:
        return
    if job[0] < 0 or job[-1] >= len(arrays.submit):
        raise InfeasibleDecisionError(f"at {where} gives new keys to jobs that do not exist: {job.tolist()}")
    absent = ~np.isin(ledger.status[job], (WAITING, RUNNING)) | np.isin(job, evicted)
    if absent.any():
        name = job_name(world, int(job[np.argmax(absent)]))
        raise InfeasibleDecisionError(f"at {where} gives a new key to {name}, which is not in the system now")
    facts = chunked.facts
    if facts.whole_slots and now_us % facts.times.grid_us:
        raise InfeasibleDecisionError(
            f"at {where} gives new keys within a slot of {facts.times.grid_us / US_PER_S:g} s; with "
            f"slot_fill=whole they change between slots only"
        )
