"""Training speed of a job on its workers and parameter servers: two progress rules.

`PlacementTruth` is the general form, for comparisons: training, and the bottleneck transfer of the actual
placement. `PdOrsTruth` is the form of one paper, for its figures. Both give samples, of which a job has
`TrainingProfile.work` to train.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER
from ray_sim.kernels.elastic.step_time import (
    PER_LINK,
    PER_SERVER,
    PER_TASK,
    PsLoads,
    Rows,
    Steps,
    copy_rows,
    count_rows,
    count_tasks,
    pd_ors_rates,
    placement_rates,
)
from ray_sim.model.errors import InvalidInputError, problems_text
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.parameter_blocks import DealtLoads, even_loads
from ray_sim.model.step_time import transfer_s
from ray_sim.model.truth import NOBODY, PlacementRows, Truth
from ray_sim.model.units import US_PER_S, FloatArray, IntArray

Form = Literal["placement", "pd_ors"]
"""The truths of elastic jobs by their names."""

_ON_TIME = 1.0 + 1e-12
"""Work that fills its slots ends with the last of them, and not one rounding error and so a slot later."""


class Nic(IntEnum):
    """Owner of the bandwidth: each task or each server."""

    PER_LINK = PER_LINK
    """Each pair of a worker and a parameter server."""
    PER_TASK = PER_TASK
    """Each worker and each parameter server: it serves its peers one after the other."""
    PER_SERVER = PER_SERVER
    """All tasks of the job on a server together."""


@dataclass(frozen=True, slots=True)
class PlacementTruth:
    """A step takes its training, the bottleneck transfer of the placement there and back, and overheads.

    Make it by `placement_truth`; see docs/training.md for the formulas.
    """

    steps: Steps
    speed: FloatArray
    """(S,) of each server; divides the training."""
    nic: Nic
    loads: DealtLoads | None
    """Load of parameter servers; equal slices without it."""
    request_s: float
    """Seconds of each request for parameters, one way."""
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Samples per microsecond of each of ``jobs``; 0 without a worker, or without a server it needs."""
        return self.samples_per_s(jobs, rows_of(placements, jobs)) / US_PER_S

    def samples_per_s(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(N,) samples per second of each of N jobs with these placements."""
        ps = tasks_of(rows, PARAMETER_SERVER)
        loads = even_loads(ps) if self.loads is None else self.loads.of(jobs, ps)
        ps_loads = PsLoads(loads.skew, loads.most_requests * self.request_s, loads.requests * self.request_s)
        rates = np.empty(len(jobs))
        placement_rates(self.steps, jobs, rows, int(self.nic), self.speed, ps_loads, rates)
        return rates

    def touched(self, servers: IntArray) -> IntArray:
        """Nobody: the bandwidth of a job is its own."""
        return NOBODY


@dataclass(frozen=True, slots=True)
class PdOrsTruth:
    """Every worker takes `pd_ors_sample_s` for a sample; make it by `pd_ors_truth`.

    More workers than gamma for each parameter server, or than the batch has samples, train nothing.

    Source: Yu et al., Toward Efficient Online Scheduling for Distributed Machine Learning Systems, 2021;
    docs/models/pd_ors.md#problem.
    """

    steps: Steps
    speed: FloatArray
    """(S,) of each server; the slowest one held divides tau."""
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Samples per microsecond of each of ``jobs``."""
        return self.samples_per_s(jobs, rows_of(placements, jobs)) * (_ON_TIME / US_PER_S)

    def samples_per_s(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(N,) samples per second of each of N jobs with these placements."""
        rates = np.empty(len(jobs))
        pd_ors_rates(self.steps, jobs, rows, self.speed, rates)
        return rates

    def touched(self, servers: IntArray) -> IntArray:
        """Nobody: the bandwidth of a job is its own."""
        return NOBODY


def placement_truth(
    profile: TrainingProfile,
    speed: FloatArray,
    nic: Nic = Nic.PER_TASK,
    straggling: FloatArray | None = None,
    loads: DealtLoads | None = None,
    request_s: float = 0.0,
) -> PlacementTruth:
    """The placement truth of these jobs on these servers.

    Parameters
    ----------
    speed : (S,), > 0
    straggling : (J,) how many times as long the training of one worker takes, on the slowest server held;
        >= 1, which all are without it
    loads : what parameter servers bear; equal slices without it
    request_s : seconds of each request for parameters, one way, >= 0

    Raises
    ------
    InvalidInputError : a number with which a step takes no time, or no number at all
    """
    return PlacementTruth(_steps(profile, speed, straggling), speed, nic, loads, request_s)


def pd_ors_truth(
    profile: TrainingProfile, speed: FloatArray, straggling: FloatArray | None = None
) -> PdOrsTruth:
    """The truth of PD-ORS for these jobs on these servers; see `placement_truth`.

    Raises
    ------
    InvalidInputError : as `placement_truth`, and where a job has no parameter servers by its nature
    """
    ring = np.flatnonzero(profile.exchange == Exchange.ALL_REDUCE)
    if len(ring):
        raise InvalidInputError(
            f"exchange: {len(ring)} jobs, the first in row {ring[0]}, are all_reduce; the truth of PD-ORS "
            "has no form for jobs without parameter servers, use the placement truth"
        )
    return PdOrsTruth(_steps(profile, speed, straggling), speed)


class SpeedTruth(Truth, Protocol):
    """Progress rule of jobs that train, a dataclass that also answers for placements no job holds."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def speed(self) -> FloatArray:
        """(S,) of each server."""

    def samples_per_s(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(N,) samples per second of each of N jobs with these placements."""


def trial_speeds(truth: SpeedTruth, jobs: IntArray, rows: Rows) -> FloatArray:
    """(n,) samples per second of jobs with these placements on servers of speed 1.

    Parameters
    ----------
    jobs : (n,), a job may come more than once
    rows : what each holds, sorted by server; the numbers of servers only say which tasks stand together
    """
    alike = replace(truth, speed=np.ones(int(rows.server.max(initial=0)) + 1))
    return alike.samples_per_s(jobs, rows)


def rows_of(placements: PlacementRows, jobs: IntArray) -> Rows:
    """Placements of jobs as rows, in the order of ``jobs``."""
    pool = placements.pool
    ptr = np.empty(len(jobs) + 1, dtype=np.int64)
    count_rows(pool, jobs, ptr)
    rows = Rows(ptr, *(np.empty(int(ptr[-1]), dtype=np.int64) for _ in range(3)))
    copy_rows(pool, jobs, rows)
    return rows


def tasks_of(rows: Rows, role: int) -> IntArray:
    """(N,) tasks of a role of each job."""
    tasks = np.empty(len(rows.ptr) - 1, dtype=np.int64)
    count_tasks(rows, role, tasks)
    return tasks


def _steps(profile: TrainingProfile, speed: FloatArray, straggling: FloatArray | None) -> Steps:
    n = len(profile.samples)
    late = np.ones(n) if straggling is None else straggling
    if problems := [*_profile_problems(profile), *_number_problems("straggling", late, 1.0, "at least 1")]:
        raise InvalidInputError(problems_text("how jobs train", problems))
    if problems := list(_number_problems("speed", speed, 0.0, "above 0", exclusive=True)):
        raise InvalidInputError(problems_text("servers", problems))
    return Steps(
        exchange=profile.exchange,
        batch=profile.batch,
        sample_s=profile.sample_s,
        external_s=transfer_s(profile.gradient_mb, profile.bandwidth_mbps),
        internal_s=transfer_s(profile.gradient_mb, profile.internal_bandwidth_mbps),
        step_s=profile.step_s,
        step_s_per_worker=profile.step_s_per_worker,
        step_s_per_ps=profile.step_s_per_ps,
        workers_per_ps=profile.workers_per_ps,
        straggling=late,
    )


def _profile_problems(profile: TrainingProfile) -> Iterator[str]:
    for name in ("sample_s", "bandwidth_mbps", "internal_bandwidth_mbps"):
        yield from _number_problems(name, getattr(profile, name), 0.0, "above 0", exclusive=True)
    for name in ("batch", "workers_per_ps"):
        yield from _number_problems(name, getattr(profile, name), 1.0, "at least 1")
    for name in ("gradient_mb", "step_s", "step_s_per_worker", "step_s_per_ps"):
        yield from _number_problems(name, getattr(profile, name), 0.0, "at least 0")


def _number_problems(
    name: str, values: FloatArray, minimum: float, wanted: str, *, exclusive: bool = False
) -> Iterator[str]:
    fine = np.isfinite(values) & (values > minimum if exclusive else values >= minimum)
    if not fine.all():
        row = int(np.argmin(fine))
        others = f" ({len(values) - fine.sum()} such rows)" if fine.sum() < len(values) - 1 else ""
        yield f"{name}: row {row} must be {wanted}, is {values[row]:g}{others}"
