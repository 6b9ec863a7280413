"""What the compiled outer loop works on."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.arrays import I64, Bool, Calendar, Ledger, Queue, Running, Scratch

STATIC, REMAINING, SERVICE = range(3)

# Places in `Engine.clock`.
NOW, NEXT_ARRIVAL, DONE, NEXT_OUTAGE = range(4)


class Order(NamedTuple):
    """An order rule, resolved for one workload."""

    kind: int
    """STATIC, REMAINING or SERVICE."""
    placement: int
    backfill: bool
    preemptive: bool
    static_key: I64
    """(J,), for STATIC."""
    limits: I64
    """Service limits in milli-GPU microseconds, for SERVICE."""
    knob: float
    """Promotion after this many times the executed time; 0 = never."""
    gpus: I64
    """(J,) milli-GPU of the gang, at least 1."""
    uniform: bool
    """Whether all running jobs progress alike: one speed, no restart pauses."""
    never_fits: I64
    """(C,) 1 if the partition's capacity, 2 if the placement rule can never hold the gang."""


class Engine(NamedTuple):
    """All other state of the loop."""

    clock: I64
    counts: I64
    """(waiting, running)."""
    used: I64
    """(R,) quanta held."""
    ledger: Ledger
    calendar: Calendar
    queue: Queue
    level: I64
    """(J,) queue of a job under SERVICE."""
    offset: I64
    """(J,) service forgiven by promotions."""
    crossing: I64
    """(J,) when a running job reaches the limit of its queue."""
    crossings: Calendar
    """Running jobs by (crossing, job), under SERVICE."""
    promotion: I64
    """(P,) when a waiting job is next to be promoted."""
    dirty: Bool
    """(P,) partitions to be served at this instant."""
    freed: Bool
    """(P,) and those of them in which capacity was freed, or waiting jobs moved ahead."""
    run_ptr: I64
    """(P + 1,) where a partition's list of running jobs lies."""
    running: Running
    run_size: I64
    moved: I64
    """Jobs whose level changed at this instant."""
    n_moved: I64
    finished: I64
    pause: I64
    idle: I64
    claimable: I64
    scratch: Scratch
