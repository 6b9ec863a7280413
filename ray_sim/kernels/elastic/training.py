"""State of elastic jobs beside their progress: workers, data that move, traffic between servers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64, WORKER, Books
from ray_sim.kernels.core.job_rows import Held, gather_rows, tasks_held
from ray_sim.kernels.core.progress import executed, work_left
from ray_sim.kernels.elastic.step_time import cross_mb_per_sample


class Training(NamedTuple):
    """Jobs of a run, (J,) each."""

    exchange: I64
    batch: F64
    gradient_mb: F64
    straggling: F64
    """Step time of the slowest worker over that of a sound one, >= 1."""
    workers: I64
    """At the last placement; 0 before the first."""
    mb_per_sample: F64
    """Megabytes between servers per sample, with what the job holds."""
    booked_left: F64
    """Samples that were left when traffic was booked last."""
    moved_mb: F64
    """Megabytes between servers as booked."""


@kernel
def book_traffic(now: int, books: Books, training: Training, jobs: I64) -> None:
    """Book what ``jobs`` have sent between servers since it was booked last."""
    for job in jobs:
        left = work_left(books.ledger, job, now)
        training.moved_mb[job] += training.mb_per_sample[job] * (training.booked_left[job] - left)
        training.booked_left[job] = left


@kernel
def move_us(before: int, workers: int, all_us: int) -> int:
    """Return the microseconds until each of ``workers`` > 0 has its equal share of the data.

    Of n workers that become m, the share 1 - min(n, m) / max(n, m) goes to another one; all data take
    ``all_us``.
    """
    if before == 0:
        return 0
    return int(np.ceil((1.0 - min(before, workers) / max(before, workers)) * all_us))


@kernel
def note_placements(held: Held, training: Training, jobs: I64, move_all_us: int, pauses: I64) -> None:
    """Note that ``jobs`` hold other workers, all of them sound, or nothing.

    Parameters
    ----------
    move_all_us : microseconds in which all data of a job move
    pauses : (n,) microseconds that each job pauses, to which those are added until its data are there
    """
    gather_rows(held, jobs)
    rows = held.rows
    for i in range(len(jobs)):
        job, workers = jobs[i], tasks_held(rows, i, WORKER)
        if workers > 0:
            pauses[i] += move_us(training.workers[job], workers, move_all_us)
            training.workers[job] = workers
        training.straggling[job] = 1.0
        training.mb_per_sample[job] = cross_mb_per_sample(
            training.exchange[job], training.batch[job], training.gradient_mb[job], rows, i
        )


class TimeWeights(NamedTuple):
    """Microseconds of training of each job, each times the job's weight in it, (J,) each."""

    weight: F64
    booked_us: I64
    """Microseconds of training that are booked."""
    weighted_us: F64


@kernel
def book_weighted(now: int, books: Books, time: TimeWeights, jobs: I64) -> None:
    """Book the time that ``jobs`` have trained since it was booked last, at their weights."""
    for job in jobs:
        ran = executed(books.ledger, job, now)
        time.weighted_us[job] += time.weight[job] * (ran - time.booked_us[job])
        time.booked_us[job] = ran
