"""Progress rules of elastic jobs: training speed on given workers and parameter servers.

`PlacementProgress` is the general form, for comparisons: training time, and the bottleneck transfer of the
actual placement. `PdOrsProgress` is the form of one paper, for its figures. Both give samples; a job has
`TrainingProfile.work` of them to train.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import ClassVar, Literal, Protocol

import numpy as np

from ray_sim.kernels.core.arrays import PARAMETER_SERVER
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.kernels.elastic.step_time import (
    PER_LINK,
    PER_SERVER,
    PER_TASK,
    StepCoefficients,
    even_rates,
    even_rates_held,
    pd_ors_rates,
    pd_ors_rates_held,
    placement_rates,
)
from ray_sim.kernels.handle import handle
from ray_sim.model.dealt_loads import DealtLoads
from ray_sim.model.errors import InvalidInputError, problems_text
from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.progress_rule import NO_JOBS, PlacementRows, ProgressRule, rows_of, tasks_of
from ray_sim.model.speed_bound import PLAN_MARGIN, apart, together
from ray_sim.model.step_time import pd_ors_sample_s, transfer_s
from ray_sim.model.units import US_PER_S, FloatArray, IntArray

Form = Literal["placement", "pd_ors"]
"""Names of the progress rules of elastic jobs."""

_ON_TIME = 1.0 + 1e-12
"""Factor on rates: work that exactly fills its slots must not end a rounding error, and so a slot, later."""


class Nic(IntEnum):
    """Owner of the bandwidth: each task or each server."""

    PER_LINK = PER_LINK
    """Each pair of a worker and a parameter server."""
    PER_TASK = PER_TASK
    """Each worker and each parameter server, which exchanges with its peers one after the other."""
    PER_SERVER = PER_SERVER
    """All tasks of the job on a server together."""


@dataclass(frozen=True, slots=True)
class PlacementProgress:
    """A step takes its training time, the bottleneck transfer there and back, and overheads.

    Construct it by `placement_progress`; docs/training.md has the formulas.
    """

    profile: TrainingProfile
    steps: StepCoefficients
    """A handle of them."""
    speed: FloatArray
    """(S,) speed of each server; divides the training time."""
    links: FloatArray
    """(S,) >= 1; multiplies the time of transfers over the interface of each server."""
    nic: Nic
    loads: DealtLoads | None
    """Load of the parameter servers; None means equal slices."""
    request_s: float
    """Seconds per request for parameters, one way."""
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Samples per microsecond of each of ``jobs``; 0 without a worker or a required parameter server."""
        if self.loads is not None:
            return self.samples_per_s(jobs, rows_of(placements, jobs)) / US_PER_S
        rates = np.empty(len(jobs))
        even_rates_held(self.steps, jobs, placements.held, *self._costs, rates)
        rates /= US_PER_S
        return rates

    def samples_per_s(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(N,) samples per second of N jobs with these placements."""
        rates = np.empty(len(jobs))
        if self.loads is None:
            even_rates(self.steps, jobs, rows, *self._costs, rates)
        else:
            loads = self.loads.of(jobs, tasks_of(rows, PARAMETER_SERVER))
            placement_rates(self.steps, jobs, rows, *self._costs, loads, rates)
        return rates

    def longest_sample_s(
        self, jobs: IntArray, workers: IntArray, ps: IntArray, speed: FloatArray, *, on_one_server: bool
    ) -> FloatArray:
        """See `SpeedBound`; a `PLAN_MARGIN` longer."""
        pairs = replace(self, speed=np.repeat(speed, 2), links=np.ones(2 * len(jobs)))
        slowest = pairs.samples_per_s(jobs, together(workers, ps))
        if not on_one_server:
            rows = apart(workers, ps, self.profile.exchange[jobs])
            slowest = np.minimum(slowest, pairs.samples_per_s(jobs, rows))
        longest: FloatArray = workers / slowest * (1.0 + PLAN_MARGIN)
        return longest

    @property
    def _costs(self) -> tuple[int, FloatArray, FloatArray, float]:
        return int(self.nic), self.speed, self.links, self.request_s

    def on_reference_servers(self, servers: int) -> PlacementProgress:
        """The same rule on so many servers of speed 1 with nominal links."""
        ones = np.ones(servers)
        return replace(self, speed=ones, links=ones)

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        """No jobs: none heeds what others hold."""
        return NO_JOBS


@dataclass(frozen=True, slots=True)
class PdOrsProgress:
    """Each worker takes `pd_ors_sample_s` per sample; construct it by `pd_ors_progress`.

    A job with more than gamma workers per parameter server, or more workers than batch samples, has rate 0.

    Source: Yu et al., Toward Efficient Online Scheduling for Distributed Machine Learning Systems, 2021;
    docs/models/pd_ors.md#problem.
    """

    profile: TrainingProfile
    steps: StepCoefficients
    """A handle of them."""
    speed: FloatArray
    """(S,) speed of each server; the slowest server held divides tau."""
    links: FloatArray
    """(S,) >= 1; the slowest interface of a job on several servers multiplies its transfer."""
    disturbing: ClassVar[bool] = False

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Samples per microsecond of each of ``jobs``."""
        rates = np.empty(len(jobs))
        pd_ors_rates_held(self.steps, jobs, placements.held, self.speed, self.links, rates)
        rates *= _ON_TIME / US_PER_S
        return rates

    def samples_per_s(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(N,) samples per second of N jobs with these placements."""
        rates = np.empty(len(jobs))
        pd_ors_rates(self.steps, jobs, rows, self.speed, self.links, rates)
        return rates

    def longest_sample_s(
        self, jobs: IntArray, workers: IntArray, ps: IntArray, speed: FloatArray, *, on_one_server: bool
    ) -> FloatArray:
        """See `SpeedBound`; without a margin, since `rates` has one."""
        longest = pd_ors_sample_s(self.profile, jobs, True, speed)
        if not on_one_server:
            longest = np.maximum(longest, pd_ors_sample_s(self.profile, jobs, False, speed))
        counted = np.minimum(self.profile.workers_per_ps[jobs] * ps, self.profile.batch[jobs])
        share = np.maximum(workers / counted, 1.0)  # workers that do not count take no part
        return np.where(share <= 1.0 + PLAN_MARGIN, longest, longest * share)

    def on_reference_servers(self, servers: int) -> PdOrsProgress:
        """The same rule on so many servers of speed 1 with nominal links."""
        ones = np.ones(servers)
        return replace(self, speed=ones, links=ones)

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        """No jobs: none heeds what others hold."""
        return NO_JOBS


def placement_progress(
    profile: TrainingProfile,
    speed: FloatArray,
    nic: Nic = Nic.PER_TASK,
    straggling: FloatArray | None = None,
    loads: DealtLoads | None = None,
    request_s: float = 0.0,
    links: FloatArray | None = None,
) -> PlacementProgress:
    """Construct the general progress rule for these jobs on these servers.

    Parameters
    ----------
    speed : (S,), > 0
    straggling : (J,) factor >= 1 on the training time of one worker, on the slowest server held; 1 without it
    loads : load of the parameter servers; equal slices without it
    request_s : seconds per request for parameters, one way, >= 0
    links : (S,) factor >= 1 on transfers over the interface of each server; 1 without it

    Raises
    ------
    InvalidInputError : a step would take no time, or a number is not finite
    """
    steps, nominal = handle(steps_of(profile, speed, straggling)), np.ones_like(speed)
    return PlacementProgress(
        profile, steps, speed, nominal if links is None else links, nic, loads, request_s
    )


def pd_ors_progress(
    profile: TrainingProfile,
    speed: FloatArray,
    straggling: FloatArray | None = None,
    links: FloatArray | None = None,
) -> PdOrsProgress:
    """Construct the progress rule of PD-ORS for these jobs on these servers; see `placement_progress`.

    Raises
    ------
    InvalidInputError : as `placement_progress`, or a job is all-reduce
    """
    ring = np.flatnonzero(profile.exchange == Exchange.ALL_REDUCE)
    if len(ring):
        raise InvalidInputError(
            f"exchange: {len(ring)} jobs, the first in row {ring[0]}, are all_reduce; truth=pd_ors "
            "has no form for jobs without parameter servers, use truth=placement"
        )
    steps, nominal = handle(steps_of(profile, speed, straggling)), np.ones_like(speed)
    return PdOrsProgress(profile, steps, speed, nominal if links is None else links)


class SpeedProgress(ProgressRule, Protocol):
    """Progress rule of jobs that train; it also rates placements that no job holds."""

    def on_reference_servers(self, servers: int) -> SpeedProgress:
        """The same rule on so many servers of speed 1 with nominal links."""

    def samples_per_s(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(N,) samples per second of each of N jobs with these placements."""


def trial_speeds(progress: SpeedProgress, jobs: IntArray, rows: Rows) -> FloatArray:
    """(n,) samples per second of jobs with these placements on servers of speed 1 with nominal links.

    Parameters
    ----------
    jobs : (n,), repeats allowed
    rows : placements, sorted by server; server numbers only say which tasks share a server
    """
    servers = int(rows.server.max(initial=0)) + 1
    return progress.on_reference_servers(servers).samples_per_s(jobs, rows)


def steps_of(profile: TrainingProfile, speed: FloatArray, straggling: FloatArray | None) -> StepCoefficients:
    """The steps of jobs, for kernels.

    Raises
    ------
    InvalidInputError : a column, the speed of a server or a factor of a straggler is out of range
    """
    n = len(profile.samples)
    late = np.ones(n) if straggling is None else straggling
    if problems := [*_profile_problems(profile), *_number_problems("straggling", late, 1.0, "at least 1")]:
        raise InvalidInputError(problems_text("training profile", problems))
    if problems := list(_number_problems("speed", speed, 0.0, "above 0", exclusive=True)):
        raise InvalidInputError(problems_text("servers", problems))
    return StepCoefficients(
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
    asks = np.where(profile.exchange == Exchange.ALL_REDUCE, 1.0, profile.num_ps)
    yield from _number_problems("num_ps", asks, 1, "at least 1, as exchange is not all_reduce")


def _number_problems(
    name: str, values: FloatArray, minimum: float, wanted: str, *, exclusive: bool = False
) -> Iterator[str]:
    fine = np.isfinite(values) & (values > minimum if exclusive else values >= minimum)
    if not fine.all():
        row = int(np.argmin(fine))
        others = f" ({len(values) - fine.sum()} such rows)" if fine.sum() < len(values) - 1 else ""
        yield f"{name}: row {row} must be {wanted}, is {values[row]:g}{others}"
