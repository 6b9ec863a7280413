"""State of the compiled outer loop (`ray_sim.kernels.core.replay`)."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.core.arrays import I64, Books, Bool, Calendar
from ray_sim.kernels.core.queue_arrays import RunningList, Serving

STATIC, REMAINING, SERVICE = range(3)

# Places in `Engine.clock`.
NOW, NEXT_ARRIVAL, DONE, NEXT_OUTAGE = range(4)


class Order(NamedTuple):
    """Order rule of a policy, resolved for one workload."""

    kind: int
    """STATIC, REMAINING or SERVICE."""
    placement: int
    backfill: bool
    preemptive: bool
    static_key: I64
    """(J,), for STATIC."""
    limits: I64
    """Limits of attained service, in the unit of ``rate`` times microseconds, increasing; for SERVICE."""
    running_first: bool
    """Order within a queue of SERVICE: running jobs before waiting ones; else by first start."""
    knob: float
    """Promote a job that has waited this many times its executed time; 0 = never."""
    rate: I64
    """(J,) attained service of a running gang per microsecond: milli-GPU or milli-cores, at least 1."""
    uniform: bool
    """Whether all running jobs progress at one rate: equal speeds, no restart pauses."""
    reject: bool
    """Whether a job that finds no room when it comes is rejected; else it waits."""
    never_fits: I64
    """(C,) 1 if the gang exceeds the partition's capacity, 2 if the rule can never place it, else 0."""


class Engine(NamedTuple):
    """State that the loop changes."""

    clock: I64
    books: Books
    """Its verdicts are those of the order rule."""
    serving: Serving
    level: I64
    """(J,) queue of a job under SERVICE."""
    place: I64
    """(J,) place within the queue, under SERVICE with ``running_first``."""
    turn: I64
    """(1,) counter from which places are made; it never falls."""
    forgiven: I64
    """(J,) microseconds of progress that no longer count because of a promotion."""
    crossing: I64
    """(J,) time at which a running job reaches the limit of its queue."""
    crossings: Calendar
    """Running jobs by (crossing, job), under SERVICE."""
    promotion: I64
    """(P,) time at which the next waiting job is to be promoted."""
    to_dispatch: Bool
    """(P,) whether the partition is to be dispatched at this instant."""
    freed: Bool
    """(P,) whether capacity was freed there, or waiting jobs moved ahead, since the last dispatch."""
    run_ptr: I64
    """(P + 1,) start of each partition's list of running jobs."""
    running: RunningList
    run_size: I64
    moved: I64
    """Jobs whose queue changed at this instant."""
    n_moved: I64
    pause: I64
