"""Rules that give whole GPUs of one type to each job: FIFO and AlloX."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
from scipy.optimize import linear_sum_assignment

from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policy_api import State, Stateless

_NO_TYPE = -1
_PACKING_GAIN = 1.5
"""Two jobs share GPUs if their speeds, each over that alone, have a larger sum."""
_NO_SPEED = 1e-10
"""Steps per second that stand for 0 in AlloX."""


class FifoAware(Stateless):
    """By arrival, jobs get the type on which they are fastest; queued jobs may join them in pairs."""

    def shares(self, now: JobsNow) -> FloatArray:
        gpu_type = np.full(len(now.job), _NO_TYPE)
        left, queue = now.capacity.copy(), range(0)
        for job, gpus in enumerate(now.gpus):
            if left.max() < gpus:
                queue = range(job, len(now.job))
                break
            if (fits := _fits(job, now, left)).any():
                gpu_type[job] = (now.speed[job] * fits).argmax()
                left[gpu_type[job]] -= gpus
        shares = _whole(now, gpu_type)
        for job in queue:
            if not _joins(job, now, shares):
                break
        return shares


def _joins(job: int, now: JobsNow, shares: FloatArray) -> bool:
    """Let a queued job share the GPUs of the job with which it does best, of those that run alone, if any."""
    pair = np.flatnonzero((now.pairs == job).any(axis=1))
    pair = pair[shares[now.pairs[pair].sum(axis=1) - job].any(axis=1)]
    other = now.pairs[pair].sum(axis=1) - job
    gpu_type = shares[other].argmax(axis=1)
    alone = now.speed[now.pairs[pair], gpu_type[:, None]]
    together = now.pair_speed[pair[:, None], [0, 1], gpu_type[:, None]]
    gain = np.divide(together, alone, where=alone > 0, out=np.zeros_like(alone)).sum(axis=1)
    if gain.max(initial=0) <= _PACKING_GAIN:
        return False
    best = gain.argmax()
    shares[other[best]] = 0
    shares[len(now.job) + pair[best], gpu_type[best]] = 1
    return True


def _whole(now: JobsNow, gpu_type: IntArray) -> FloatArray:
    """(J + P, T) shares: 1 on the type of each job that has one."""
    shares = np.zeros((len(now.job) + len(now.pairs), len(now.capacity)))
    held = np.flatnonzero(gpu_type != _NO_TYPE)
    shares[held, gpu_type[held]] = 1
    return shares


class _KeepingTypes:
    """Base of rules whose jobs keep their type to their end: rows in the workload, and types."""

    def __init__(self) -> None:
        self._job = self._type = np.zeros(0, dtype=np.int64)

    def kept(self, now: JobsNow) -> tuple[IntArray, IntArray]:
        """(J,) type of each job or `_NO_TYPE`; (T,) GPUs that they leave, < 0 where some have been lost."""
        gpu_type, left = np.full(len(now.job), _NO_TYPE), now.capacity.copy()
        _, old, new = np.intersect1d(self._job, now.job, assume_unique=True, return_indices=True)
        gpu_type[new] = self._type[old]
        np.subtract.at(left, gpu_type[new], now.gpus[new])
        return gpu_type, left

    def keep(self, now: JobsNow, gpu_type: IntArray) -> FloatArray:
        """Remember the types, (J,); returns the shares."""
        held = gpu_type != _NO_TYPE
        self._job, self._type = now.job[held], gpu_type[held]
        return _whole(now, gpu_type)

    def state(self) -> State:
        return {"job": self._job, "type": self._type}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._job, self._type = state["job"], state["type"]


class FifoAgnostic(_KeepingTypes):
    """By arrival, waiting jobs take a random type with room on which they run."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def shares(self, now: JobsNow) -> FloatArray:
        gpu_type, left = self.kept(now)
        for job in np.flatnonzero(gpu_type == _NO_TYPE).tolist():
            types = np.flatnonzero(_fits(job, now, left))
            if not len(types):
                break
            gpu_type[job] = types[self._random.randrange(len(types))]
            left[gpu_type[job]] -= now.gpus[job]
        return self.keep(now, gpu_type)

    def state(self) -> State:
        return {**super().state(), "random": np.array(self._random.getstate()[1])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        super().restore(state)
        self._random.setstate((self._random.VERSION, tuple(state["random"].tolist()), None))


class FifoPublished(FifoAgnostic):
    """`FifoAgnostic` as its authors' simulator has it: jobs do not get the type that is drawn for them."""

    def shares(self, now: JobsNow) -> FloatArray:
        gpu_type, left = self.kept(now)[0], now.capacity.copy()
        queue, rows = np.flatnonzero(gpu_type == _NO_TYPE).tolist(), now.job.tolist()
        for row, held in zip(self._job.tolist(), self._type, strict=True):
            if row in rows:
                left[held] -= now.gpus[rows.index(row)]
            elif queue and _fits(queue[0], now, left)[held]:
                gpu_type[queue[0]] = held
                left[held] -= now.gpus[queue.pop(0)]
        types = np.flatnonzero(left > 0)
        for job in queue:
            fitting = types[_fits(job, now, left)[types]]
            if not len(fitting):
                break
            drawn = fitting[self._random.randrange(len(fitting))]
            gpu_type[job] = last = types[-1]
            left[last] -= now.gpus[job]
            if left[last] == 0:
                types = types[types != drawn]
        return self.keep(now, gpu_type)


def _fits(job: int, now: JobsNow, left: IntArray) -> BoolArray:
    """(T,) whether a type has room for a job, and the job runs on it."""
    fits: BoolArray = (left >= now.gpus[job]) & (now.speed[job] > 0)
    return fits


class Allox(_KeepingTypes):
    """Jobs of one GPU: the least total time to the end of those that wait.

    Source: Le et al., AlloX: Compute Allocation in Hybrid Clusters, EuroSys 2020.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        """alpha: part of the waiting jobs, oldest first, that are looked at; in (0, 1]."""
        super().__init__()
        self.alpha = alpha

    def shares(self, now: JobsNow) -> FloatArray:
        gpu_type, left = self.kept(now)
        waiting = np.flatnonzero(gpu_type == _NO_TYPE)
        free = np.repeat(np.arange(len(left)), np.maximum(left, 0))
        looked_at = max(int(self.alpha * len(waiting)), len(free))
        jobs = waiting[np.argsort(-now.age_s[waiting], kind="stable")][:looked_at]
        if len(jobs) and len(free):
            run_s = now.steps_left[jobs, None] / np.maximum(now.speed[jobs][:, free], _NO_SPEED)
            # Columns: all GPUs' last places, then the last but one. The age decides ties, not the optimum.
            wait_s = np.hstack([place * run_s for place in range(1, len(jobs) + 1)])
            row, column = linear_sum_assignment(wait_s + now.age_s[jobs, None])
            order = np.argsort(column)
            first_in_line = dict(zip(column[order] % len(free), jobs[row[order]], strict=True))
            gpu_type[list(first_in_line.values())] = free[list(first_in_line)]
        return self.keep(now, gpu_type)
