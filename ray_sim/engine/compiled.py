"""Driving the compiled loop, and saying when it may be taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.engine.job_queue import NO_ROOM
from ray_sim.engine.kinds.run import KindOutcome
from ray_sim.engine.policy_calls import order_of
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.recording import Recording
from ray_sim.engine.result import Outcome
from ray_sim.engine.scoring import placement_state, scoring_of
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import KEEP_ALL, NEVER, REJECTED, Books, new_calendar, new_ledger, new_pool
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.kernels.core.queue_arrays import new_running, new_serving
from ray_sim.kernels.core.replay import replay
from ray_sim.kernels.core.replay_state import DONE, NEXT_ARRIVAL, NOW, Engine, Order
from ray_sim.kernels.core.world_arrays import FITS
from ray_sim.model.errors import RunStoppedError
from ray_sim.model.streams import Streams

Progress = Callable[[int, int], None]
"""Called now and then with (jobs ended, jobs)."""

_INSTANTS_PER_CALL = 200_000


def why_general(world: World, policy: Policy) -> str | None:
    """Why a run must take the general loop; None if the compiled one does the same."""
    if not world.facts.compiled:
        return f"the compiled loop does not simulate these {world.kind.jobs} jobs"
    if world.injectors:
        return f"faults ({', '.join(each.name for each in world.injectors)}) are injected in the general loop"
    if world.preemption != KEEP_ALL or world.endings is not None:
        return "the compiled loop keeps all progress of suspended jobs, and no job fails there"
    order = order_of(policy, PolicyContext(world, policy.sees, policy.name))
    return "the policy decides in Python" if order is None else None


def run_compiled(
    world: World,
    order: Order,
    progress: Progress | None,
    stopping: Callable[[], bool] = lambda: False,
    streams: Streams | None = None,
) -> Outcome:
    """Replay a world of rigid jobs under an order rule.

    Raises
    ------
    RunStoppedError : ``stopping`` said so; there is no snapshot of this loop
    """
    n_jobs = len(world.table)
    engine = new_engine(world, order, streams)
    books, recording = engine.books, Recording(world)
    while not engine.clock[DONE]:
        replay(
            order,
            engine,
            recording.ensure_room(),
            world.outages,
            world.restart_us,
            world.horizon_us,
            _INSTANTS_PER_CALL,
            recording.bound,
        )
        ended = int(engine.clock[NEXT_ARRIVAL] - books.counts.sum())
        if progress is not None:
            progress(ended, n_jobs)
        if stopping():
            raise RunStoppedError(f"stopped with {ended:,} of {n_jobs:,} jobs ended; run it again")
    now_us = max(int(engine.clock[NOW]), 0)
    kind = KindOutcome(books.ledger, now_us)
    rejected = np.flatnonzero(books.ledger.status == REJECTED)
    no_room = rejected[order.never_fits[world.arrays.job_class[rejected]] == FITS]
    reasons = dict.fromkeys(no_room.tolist(), NO_ROOM)
    return Outcome(books.ledger, recording.joined(), now_us, reasons, "compiled", kind, order=order)


def new_engine(world: World, order: Order, streams: Streams | None = None) -> Engine:
    """The loop's state before the first instant."""
    scoring, state = scoring_of(world, QUEUE_RULES[order.placement]), placement_state(streams)
    arrays, n_jobs = world.arrays, len(world.table)
    n_parts = len(arrays.part_class_ptr) - 1
    jobs_in = np.bincount(arrays.job_part[arrays.job_part >= 0], minlength=n_parts)
    return Engine(
        clock=np.array([-1, 0, 0, 0]),
        books=Books(
            arrays=arrays,
            ledger=new_ledger(world.table.work_us, len(world.outages.time) > 0, world.checkpoint_us),
            pool=new_pool(n_jobs, world.row_bound, arrays, world.there),
            calendar=new_calendar(n_jobs),
            used=np.zeros(len(world.cluster.resources), dtype=np.int64),
            counts=np.zeros(2, dtype=np.int64),
            affected=np.empty(n_jobs, dtype=np.int64),
            verdict=order.never_fits,
        ),
        serving=new_serving(arrays, world.row_bound, scoring, state),
        level=np.zeros(n_jobs, dtype=np.int64),
        place=np.zeros(n_jobs, dtype=np.int64),
        turn=np.zeros(1, dtype=np.int64),
        forgiven=np.zeros(n_jobs, dtype=np.int64),
        crossing=np.full(n_jobs, NEVER),
        crossings=new_calendar(n_jobs),
        promotion=np.full(n_parts, NEVER),
        to_dispatch=np.zeros(n_parts, dtype=np.bool_),
        freed=np.zeros(n_parts, dtype=np.bool_),
        run_ptr=np.concatenate([[0], np.cumsum(jobs_in)]).astype(np.int64),
        running=new_running(n_jobs),
        run_size=np.zeros(n_parts, dtype=np.int64),
        moved=np.empty(n_jobs, dtype=np.int64),
        n_moved=np.zeros(1, dtype=np.int64),
        pause=np.empty(n_jobs, dtype=np.int64),
    )
