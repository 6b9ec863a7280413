"""Largest Gittins index first: queues by attained service, in an order learned from a history of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import ClassVar

import numpy as np

from ray_sim.kernels.core.attained_service import MOST_SERVICE
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.units import IntArray, seconds_to_us
from ray_sim.policies.las import Las
from ray_sim.policy_api import NO_ROOM, PLACEMENT, Parameter, PolicyContext, Streams
from workloads.store import read_frame

_SECTION = "docs/models/baselines.md#gittins"

BUNDLED = {name: Path(__file__).parent / "histories" / f"{name}.parquet" for name in ("philly", "google")}

HISTORY = Parameter(
    "history",
    "text",
    None,
    "required: workload file (.parquet) of earlier jobs, whose GPUs x run times are the samples; philly or "
    "google: 1,000 bundled jobs, drawn by synth with seed 1000",
    source=_SECTION,
)


class Gittins(Las):
    """Queues by attained service, those with the largest Gittins index first; then as `las`.

    The index is that of the service at which a queue begins. Queues of equal index are one queue.

    Source: Gittins, Bandit processes and dynamic allocation indices, JRSS B 1979; Gu et al., Tiresias,
    NSDI 2019 (2D-Gittins).
    """

    name: ClassVar[str] = "gittins"
    section: ClassVar[str] = f"{_SECTION} (Gittins 1979; Gu et al., NSDI 2019)"
    summary: ClassVar[str] = "most likely to complete soon first, by a history of jobs, preemptive"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        PLACEMENT,
        HISTORY,
        Parameter(
            "limits_gpu_s",
            "floats",
            None,
            "limits of attained service between queues, increasing; none = distinct deciles of the samples",
            unit="GPU-s",
            source=_SECTION,
            minimum=0.0,
            exclusive=True,
        ),
        NO_ROOM,
    )
    needs: ClassVar[frozenset[str]] = frozenset({HISTORY.name})
    unchanging: ClassVar[frozenset[str]] = Las.unchanging | {"_history", "_samples"}

    def __init__(
        self,
        placement: str = "consolidate",
        history: str | None = None,
        limits_gpu_s: tuple[float, ...] | None = None,
        no_room: str = "wait",
    ) -> None:
        if history is None:
            raise InvalidScenarioError(
                "gittins: history is missing; name a workload file of earlier jobs by "
                "-p history=FILE.parquet, or philly or google"
            )
        super().__init__(placement, no_room=no_room)
        self._history = BUNDLED.get(history, Path(history))
        self._given = limits_gpu_s is not None
        if limits_gpu_s is not None:
            self._gpu_limits = self._service_limits("limits_gpu_s", limits_gpu_s)

    def input_files(self) -> Mapping[str, Path]:
        """The history."""
        return {HISTORY.name: self._history}

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """Read the history.

        Raises
        ------
        InvalidInputError : it is no workload, or no job of it has GPUs and a run time
        """
        self._samples = service_samples(self._history)
        super().start(world, streams)
        if world.counts_cores:
            self._rate = np.ones_like(self._rate)  # samples are of GPUs: as beside jobs with GPUs

    def _limits_in(self, world: PolicyContext) -> IntArray:
        return self._gpu_limits if self._given else distinct_deciles(self._samples)

    def _ranks(self) -> IntArray:
        indices = [gittins_index(self._samples, begin) for begin in (0, *self._limits.tolist())]
        largest_first = sorted(set(indices), reverse=True)
        return np.array([largest_first.index(index) for index in indices])

    def order(self, world: PolicyContext) -> None:
        """None: the compiled loop knows no order of queues but that of service."""


def service_samples(history: Path) -> IntArray:
    """(N,) GPUs x run time of each job of a workload file that has both, milli-GPU microseconds, sorted.

    Raises
    ------
    InvalidInputError : no workload file, or no such job
    """
    jobs = read_frame(history)
    rate = np.rint(jobs["num_gpus"].to_numpy() * 1000).astype(np.int64)
    span_us = seconds_to_us(jobs["duration_s"].to_numpy())
    usable = (rate > 0) & (span_us > 0)
    if not usable.any():
        raise InvalidInputError(
            f"history={history}: of {jobs.height:,} jobs none has both GPUs and a run time; name a workload "
            "file with num_gpus and duration_s above 0"
        )
    rate, span_us = rate[usable], span_us[usable]
    return np.sort(rate * np.minimum(span_us, MOST_SERVICE // rate))  # capped as attained service is


def distinct_deciles(samples: IntArray) -> IntArray:
    """(L,) the distinct ones of nine: the least samples that 10, 20, ... 90 % of them do not exceed.

    Parameters
    ----------
    samples : (N,) sorted
    """
    places = -(-np.arange(1, 10) * len(samples) // 10) - 1
    return np.unique(samples[places])


def gittins_index(samples: IntArray, attained: int) -> Fraction:
    """Most completions per unit of further service that a job of this attained service promises.

    Over every end x above it, (jobs that complete by x) / (service until each completes or reaches x), of
    the samples above it. Exact; 0 where no sample is above it.

    Parameters
    ----------
    samples : (N,) > 0, in any unit; ``attained`` is in the same
    """
    left, jobs = np.unique(samples[samples > attained] - attained, return_counts=True)
    if len(left) == 0:
        return Fraction(0)
    completed, whole = np.cumsum(jobs), left.astype(object)  # sums exceed 64 bits
    service = np.cumsum(whole * jobs) + (completed[-1] - completed) * whole
    rate = completed / service.astype(np.float64)
    near = rate > rate.max() * (1 - 1e-12)  # doubles are off by less
    return max(map(Fraction, completed[near].tolist(), service[near].tolist()))
