"""The rules of Tiresias's own simulator (`dlas-gpu` on a pool of GPUs), job after job in plain lists.

Whole units of time; it shares nothing with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

NEVER = 2**62


class Submission(NamedTuple):
    """A job: when it comes, how long it runs, and its GPUs."""

    submit: int
    length: int
    gpus: int


@dataclass(slots=True, eq=False)
class Training:
    """One job from its submission to its end."""

    index: int
    job: Submission
    executed: int = 0
    queue: int = 0
    running: bool = False
    start: int = -1
    finish: int = -1
    preemptions: int = 0


NextCrossing = Callable[[int, int, int], int]
"""Time until a job reaches a limit, of (limit, executed time, GPUs)."""


def crossing_of_service(limit: int, executed: int, gpus: int) -> int:
    """Time until executed time x GPUs is the limit, rounded up."""
    return -((executed * gpus - limit) // gpus)


def crossing_of_mixed_units(limit: int, executed: int, gpus: int) -> int:
    """The time that the simulator takes: it subtracts seconds from GPU-seconds."""
    return (limit - executed) // gpus


def replay_tiresias(
    jobs: Sequence[Submission], gpus: int, limits: Sequence[int], next_crossing: NextCrossing
) -> list[Training]:
    """All jobs, in the order given, which is that of their submission."""
    everyone = [Training(index, job) for index, job in enumerate(jobs)]
    coming, active = everyone[::-1], list[Training]()
    queues: list[list[Training]] = [[] for _ in range(len(limits) + 1)]
    now, running = 0, list[Training]()
    while coming or active:
        time = min(
            coming[-1].job.submit if coming else NEVER,
            min((now + t.job.length - t.executed for t in running), default=NEVER),
            min((now + crossing for crossing in _crossings(running, limits, next_crossing)), default=NEVER),
        )
        for t in running:
            t.executed += time - now
        now = time
        for t in [t for t in running if t.executed == t.job.length]:
            t.finish, t.running = now, False
            active.remove(t)
            queues[t.queue].remove(t)
        for t in running:
            if t.running and t.queue < len(limits) and t.executed * t.job.gpus >= limits[t.queue]:
                queues[t.queue].remove(t)
                t.queue += 1
                queues[t.queue].append(t)
        while coming and coming[-1].job.submit == now:
            active.append(coming.pop())
            queues[0].append(active[-1])
        _serve(queues, gpus, now)
        running = [t for t in active if t.running]
    return everyone


def _crossings(running: Sequence[Training], limits: Sequence[int], next_crossing: NextCrossing) -> list[int]:
    return [next_crossing(limits[t.queue], t.executed, t.job.gpus) for t in running if t.queue < len(limits)]


def _serve(queues: list[list[Training]], gpus: int, now: int) -> None:
    """Run all jobs that fit, in list order; then those that run stand before those that wait."""
    for queue in queues:
        for t in queue:
            runs = t.job.gpus <= gpus
            gpus -= t.job.gpus * runs
            t.preemptions += t.running and not runs
            if runs and t.start < 0:
                t.start = now
            t.running = runs
        queue.sort(key=attrgetter("running"), reverse=True)
