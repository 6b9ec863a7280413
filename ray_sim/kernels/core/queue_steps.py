"""Steps of a queue of waiting jobs that a policy in Python serves, with all its arrays as one handle."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import I64, Bool, Pool
from ray_sim.kernels.core.queue_arrays import Serving
from ray_sim.kernels.core.queue_dispatch import (
    copy_matrix,
    enqueue,
    order_changes,
    serve_waiting,
    sort_prefix,
)
from ray_sim.kernels.core.scored_placement import begin_scores


class QueueBooks(NamedTuple):
    """Arrays of a queue."""

    serving: Serving
    to_serve: Bool
    """(P,) partitions in which something has happened since they were served."""
    verdict: I64
    """(C,) why no job of a class ever fits, 0 where it does."""
    refused: I64
    """(J,) jobs that `push_jobs` refuses."""


@kernel
def push_jobs(books: QueueBooks, jobs: I64, keys: I64) -> tuple[int, int]:
    """Add waiting jobs; O(log n) for each.

    Returns the position of the first job that does not exist, in which case nothing is added, or -1; and how
    many can never fit: ``refused`` has them, in order.
    """
    arrays = books.serving.arrays
    for i in range(len(jobs)):
        if jobs[i] < 0 or jobs[i] >= len(arrays.job_class):
            return i, 0
    n = 0
    for i in range(len(jobs)):
        job = jobs[i]
        if books.verdict[arrays.job_class[job]] == 0:
            enqueue(arrays, books.serving.queue, job, keys[i])
            books.to_serve[arrays.job_part[job]] = True
        else:
            books.refused[n] = job
            n += 1
    return -1, n


@kernel
def serve_queue(
    books: QueueBooks, rule: int, now: int, backfill: bool, reject: bool, pool: Pool, running: I64
) -> int:
    """Start waiting jobs of every partition in which something has happened, see `serve_waiting`.

    ``now`` and ``running``, the jobs that run, are for rules that score servers. Returns how many jobs found
    no room; `Serving.refused` has them, sorted.
    """
    serving = books.serving
    serving.changes.size[0] = 0
    serving.n_refused[0] = 0
    for p in range(len(books.to_serve)):
        if books.to_serve[p]:
            copy_matrix(pool.free, serving.idle)
            begin_scores(rule, now, serving.arrays, pool, running, len(running), serving.scratch.scores)
            serve_waiting(p, rule, backfill, reject, True, serving, serving.idle, pool.there)
            books.to_serve[p] = False
    order_changes(serving.changes)
    sort_prefix(serving.refused, serving.n_refused[0])
    return int(serving.n_refused[0])
