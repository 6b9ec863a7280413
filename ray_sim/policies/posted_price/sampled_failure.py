"""Failure probabilities estimated from sample paths, which are kept from round to round."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ray_sim.kernels.core.arrays import I32
from ray_sim.kernels.handle import handle
from ray_sim.model.statement import NEVER_ROUND
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray, tolerant_ceil
from ray_sim.policies.posted_price.failure import FailureOracle
from ray_sim.policies.posted_price.failure_kernels import (
    SamplePaths,
    find_peaks,
    redraw,
    ring_size,
    sampled_failures,
)
from ray_sim.policies.posted_price.planner import PlannedJob
from ray_sim.policy_api import State, within

UNIFORM_FAILURE = 0.01
"""Probability with which an error that is bounded for all estimates of a job may be larger."""


def sample_count(oracle_error: str, mu: float, triples: int) -> int:
    """Number N of sample paths for an error ``mu`` of failure estimates (Hoeffding).

    Parameters
    ----------
    oracle_error : ``pointwise``: the expected error of each estimate is at most mu, N = 1 / (4 mu^2);
        ``uniform``: with probability 1 - `UNIFORM_FAILURE` no estimate of a job errs by mu,
        N = ln(2 triples / `UNIFORM_FAILURE`) / (2 mu^2)
    triples : number of (start, concurrency, duration) of a job, >= 1
    """
    if oracle_error == "pointwise":
        return tolerant_ceil(1 / (4 * mu**2))
    return tolerant_ceil(math.log(2 * triples / UNIFORM_FAILURE) / (2 * mu**2))


class SampledFailure(FailureOracle):
    """Share of N sample paths in which a job fails; each path has a point of every active job.

    A new job is drawn once in each path. An observation of a job redraws it in the paths that it contradicts;
    the others keep their points, so that every path stays a draw from the posterior. The paths of one round
    are N independent samples; estimates of different rounds depend on each other.

    Parameters
    ----------
    capacity, longest : as of `FailureOracle`
    paths : N >= 1, see `sample_count`
    streams : of the run
    """

    def __init__(self, capacity: int, longest: int, paths: int, streams: Streams) -> None:
        super().__init__(capacity, longest)
        self._stream = streams.states("failure", np.zeros(1, dtype=np.int64))[0]
        chosen, load = np.full((0, paths), -1, dtype=np.int32), np.zeros((ring_size(1), paths), np.int32)
        self._set_paths(chosen, load, np.zeros(paths, dtype=np.int32))

    def certain(self, concurrency: int) -> bool:
        """Whether no path comes so near to the capacity that the job could fail in it."""
        return int(self._paths.peak.max()) + concurrency <= self._capacity

    def add(self, job: int, report: PlannedJob, start: IntArray) -> IntArray:
        """Add a job, and draw it in each path; see `FailureOracle.add`."""
        self._reach(int((start + report.duration)[start < NEVER_ROUND].max(initial=0)))
        row = super().add(job, report, start)
        self._redraw(row)
        return row

    def observe(
        self, round_: int, arrived: IntArray, signals: IntArray, completed: IntArray, removed: IntArray
    ) -> IntArray:
        """Take observations, and draw anew what they contradict; see `FailureOracle.observe`."""
        rows = super().observe(round_, arrived, signals, completed, removed)
        last = self._jobs.high[rows] - 1
        overrun = last[(self._jobs.low[rows] == last) & (last == self._jobs.last[rows] - 1)]
        self._reach(int((self._points.start + self._points.duration)[overrun].max(initial=0)))
        self._redraw(rows)
        find_peaks(self._paths_handle)
        return rows

    def state(self) -> State:
        """Arrays of a snapshot; see `FailureOracle.state`."""
        chosen, load, peak = (each.copy() for each in self._paths[:3])
        return {**super().state(), "chosen": chosen, "load": load, "peak": peak}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a snapshot; see `FailureOracle.restore`."""
        super().restore(state)
        rows, paths, starts = len(self._jobs.job), len(self._paths.peak), self._points.start
        within(state, "load", 0, np.iinfo(np.int32).max)
        within(state, "chosen", -1, (self._jobs.last - self._jobs.first - 1)[:, None])
        within(state, "peak", 0, np.iinfo(np.int32).max)
        width = ring_size(len(state["load"]))
        shapes = {"load": (width, paths), "chosen": (rows, paths), "peak": (paths,)}
        for name, shape in shapes.items():
            within({name: np.array(state[name].shape)}, name, np.array(shape), np.array(shape))
        ends = np.where(starts < NEVER_ROUND, starts + self._points.duration, 0)
        within({"point_start": ends}, "point_start", 0, self._round + width)
        self._set_paths(*(state[name].copy() for name in ("chosen", "load", "peak")))

    def _go_to(self, round_: int) -> None:
        load = self._paths.load
        load[np.arange(self._round, min(round_, self._round + len(load))) % len(load)] = 0
        super()._go_to(round_)

    def _make_room(self, points: int) -> IntArray:
        kept = super()._make_room(points)
        self._set_paths(self._paths.chosen[kept], self._paths.load, self._paths.peak)
        return kept

    def _reach(self, end: int) -> None:
        """Take memory for loads of rounds before ``end``."""
        old, width = self._paths.load, ring_size(end - self._round)
        if width > len(old):
            rounds = np.arange(self._round, self._round + len(old))
            load = np.zeros((width, old.shape[1]), np.int32)
            load[rounds % width] = old[rounds % len(old)]
            self._set_paths(self._paths.chosen, load, self._paths.peak)

    def _set_paths(self, chosen: I32, load: I32, peak: I32) -> None:
        """Use these arrays; ``chosen`` gets a row for each of the jobs for which there is memory."""
        rows = np.full((len(self._jobs.job), len(peak)), -1, dtype=np.int32)
        rows[: len(chosen)] = chosen
        self._paths = SamplePaths(
            chosen=rows,
            load=load,
            peak=peak,
            cumulative=np.zeros(len(self._points.start)),
            runs=np.zeros((4, len(peak)), dtype=np.int32),
            column=np.zeros(len(load), dtype=np.int64),
        )
        self._paths_handle = handle(self._paths)

    def _redraw(self, rows: IntArray) -> None:
        paths, stream = self._paths_handle, self._stream
        redraw(self._jobs_handle, self._points_handle, paths, rows, self._round, stream)

    def _estimate(self, birth: int, concurrency: int, failures: FloatArray) -> None:
        self._reach(birth + sum(failures.shape) - 2)
        sampled_failures(self._paths_handle, birth, concurrency, self._capacity, failures)
