"""Failure probabilities estimated from sample paths, which are kept from round to round."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ray_sim.kernels.core.arrays import I32
from ray_sim.kernels.handle import handle
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray, tolerant_ceil
from ray_sim.policies.posted_price.failure import FailureOracle, OracleState, ring_size, widened
from ray_sim.policies.posted_price.failure_kernels import SamplePaths, find_peaks, redraw, sampled_failures

OracleError = Literal["pointwise", "uniform"]


def sample_count(oracle_error: OracleError, mu: float, triples: int, budget: float) -> int:
    """Number N of sample paths for an error ``mu`` of failure estimates (Hoeffding).

    Parameters
    ----------
    oracle_error : ``pointwise``: the expected error of each estimate is at most mu, N = 1 / (4 mu^2);
        ``uniform``: with probability 1 - budget no estimate of a job errs by mu,
        N = ln(2 triples / budget) / (2 mu^2)
    mu : in (0, 1)
    triples : number of (start, concurrency, duration) of a job, >= 1; unused if pointwise
    budget : in (0, 1); unused if pointwise

    Raises
    ------
    UnknownNameError : ``oracle_error`` is neither of the two
    InvalidScenarioError : a number is out of its range
    """
    for name, value in (("mu", mu), ("oracle_failure", budget)):
        if not 0 < value < 1:
            raise InvalidScenarioError(f"{name}: must be above 0 and below 1, got {value!r}")
    if oracle_error == "pointwise":
        return tolerant_ceil(1 / (4 * mu**2))
    if oracle_error == "uniform":
        return tolerant_ceil(math.log(2 * triples / budget) / (2 * mu**2))
    raise UnknownNameError("value of oracle_error", oracle_error, ("pointwise", "uniform"))


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

    def __init__(
        self,
        capacity: int,
        longest: int,
        paths: int,
        streams: Streams,
    ) -> None:
        super().__init__(capacity, longest)
        self._stream = streams.states("failure", np.zeros(1, dtype=np.int64))[0]
        self._set(
            SamplePaths(
                chosen=np.full((len(self._jobs.jobs.job), paths), -1, dtype=np.int32),
                load=np.zeros((ring_size(1), paths), dtype=np.int32),
                peak=np.zeros(paths, dtype=np.int32),
                cumulative=np.zeros(len(self._jobs.points.start)),
                runs=np.zeros((4, paths), dtype=np.int32),
                column=np.zeros(ring_size(1), dtype=np.int64),
            )
        )

    def certain(self, concurrency: int) -> bool:
        """Whether no path comes so near to the capacity that the job could fail in it."""
        return int(self._paths.peak.max()) + concurrency <= self._capacity

    def state(self) -> OracleState:
        """Arrays of a snapshot; see `FailureOracle.state`."""
        paths = self._paths
        chosen = paths.chosen[: self._jobs.count].copy()
        return {**super().state(), "chosen": chosen, "load": paths.load.copy(), "peak": paths.peak.copy()}

    def restore(self, state: OracleState) -> None:
        """Continue from a snapshot; see `FailureOracle.restore`."""
        super().restore(state)
        self._set_load(state["load"].copy())
        self._paths.peak[:] = state["peak"]
        self._take_rows(state["chosen"])

    def _pass_rounds(self, until: int) -> None:
        load = self._paths.load
        load[np.arange(self._round, min(until, self._round + len(load))) % len(load)] = 0

    def _reach(self, end: int) -> None:
        width = ring_size(end - self._round)
        if width > len(self._paths.load):
            self._set_load(widened(self._paths.load, self._round, width))

    def _set_load(self, load: I32) -> None:
        self._set(self._paths._replace(load=load, column=np.zeros(len(load), dtype=np.int64)))

    def _set(self, paths: SamplePaths) -> None:
        self._paths, self._paths_handle = paths, handle(paths)

    def _moved(self, kept: IntArray) -> None:
        self._take_rows(self._paths.chosen[kept])

    def _take_rows(self, chosen: I32) -> None:
        rows = np.full((len(self._jobs.jobs.job), chosen.shape[1]), -1, dtype=np.int32)
        rows[: len(chosen)] = chosen
        self._set(self._paths._replace(chosen=rows, cumulative=np.zeros(len(self._jobs.points.start))))

    def _added(self, row: int) -> None:
        self._redraw(np.array([row]))

    def _changed(self, rows: IntArray) -> None:
        self._redraw(rows)
        find_peaks(self._paths_handle)

    def _redraw(self, rows: IntArray) -> None:
        redraw(
            self._jobs.jobs_handle,
            self._jobs.points_handle,
            self._paths_handle,
            rows,
            self._round,
            self._stream,
        )

    def _estimate(self, birth: int, concurrency: int, failures: FloatArray) -> None:
        sampled_failures(self._paths_handle, birth, concurrency, self._capacity, failures)
