"""Jobs of a run in slots, at the speeds by which plans are made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ray_sim.kernels.core.arrays import MOST_TASKS
from ray_sim.model.job import Exchange, TrainingProfile, UtilityProfile
from ray_sim.model.units import US_PER_S, BoolArray, IntArray, tolerant_ceils
from ray_sim.model.utility import arrival_slot
from ray_sim.policies.shared.sold_plans import BookedPlans
from ray_sim.policy_api import ElasticContext, JobColumns
from ray_sim.solvers.planning.market import SlotPlan
from ray_sim.solvers.planning.slot_job import SampleTimes, SlotJob, slot_job


class JobsInSlots:
    """Jobs of a run in slots, at the speeds by which plans are made: of the world, or the published form."""

    def __init__(self, world: ElasticContext, slot_us: int, slots: int, *, by_world: bool) -> None:
        self._world = world
        self._slot_us = slot_us
        self.slots = slots
        self._by_world = by_world
        self.training, self._utility = _profiles(world.jobs)

    def in_slots(self, job: int) -> SlotJob | None:
        """Convert a job of the run to slots; None if no slot begins between its arrival and the horizon."""
        arrival = int(arrival_slot(self._world.jobs.submit_us[job : job + 1], self._slot_us)[0])
        if arrival >= self.slots:
            return None
        slot_s = self._slot_us / US_PER_S
        times = self._sample_times(job)
        planned = slot_job(job, arrival, self.slots, slot_s, self.training, self._utility, times)
        # A job without work has to start in order to end: plan it as if it had one sample.
        return planned if planned.samples > 0 else replace(planned, samples=1.0)

    def _sample_times(self, job: int) -> SampleTimes | None:
        """Time of a sample by number of workers, in the world; None for the published form.

        There are as many workers as the job may have and the servers hold when empty, and their share of
        parameter servers.
        """
        if not self._by_world or self.training.exchange[job] == Exchange.ALL_REDUCE:
            return None
        servers = self.worker_servers(self.partition_of(job))
        demand = self.training.worker_demand[job]
        some = demand > 0
        most = int(min(self.training.batch[job], MOST_TASKS))
        room = np.min(self.offered(job)[servers][:, some] // demand[some], axis=1, initial=most)
        servers = servers[room > 0]
        workers = np.arange(1, max(1, min(most, int(room.sum()))) + 1)
        ps = tolerant_ceils(workers / self.training.workers_per_ps[job])
        jobs = np.full(len(workers), job)
        return SampleTimes(
            *(
                self._world.longest_sample_s(jobs, workers, ps, servers, on_one_server=on_one_server)
                for on_one_server in (True, False)
            )
        )

    def worker_servers(self, partition: int) -> IntArray:
        """Servers of a partition on which workers may stand."""
        return np.flatnonzero(self._world.server_partition == partition)

    def offered(self, job: int) -> IntArray:
        """(S, R) quanta of empty servers that a job may take: no GPUs of types that it does not accept."""
        offered = self._world.cluster.capacity.copy()
        offered[~self.may_hold_bundles(job), self._world.cluster.resources.index("gpu")] = 0
        return offered

    def may_hold_bundles(self, job: int) -> BoolArray:
        """(S,) servers on which workers and parameter servers of a job may stand together."""
        both: BoolArray = self._world.may_use(np.array([job]))[0].all(axis=0)
        return both

    def partition_of(self, job: int) -> int:
        """Index of the market of the servers that the job may use."""
        return int(self._world.jobs.partition[job])

    def promising(self, partition: int) -> list[SlotJob]:
        """Jobs of a partition that have utility if servers are unbounded."""
        mine = np.flatnonzero(self._world.jobs.partition == partition)
        jobs = [job for job in map(self.in_slots, mine.tolist()) if job is not None]
        return [job for job in jobs if job.can_end and job.most_worth > 0]

    def speed(self, job: SlotJob, plan: SlotPlan) -> float:
        """Speed of a job with the tasks of a plan of one slot, in samples per second or per slot."""
        if not self._by_world:
            workers, servers = int(plan.workers.sum()), len(plan.server)
            return job.samples_trained(workers, on_one_server=servers == 1)
        jobs = np.array([job.number])
        rows = BookedPlans.nothing().having(job.number, plan).placements(jobs)
        return float(self._world.speed_alone(jobs, rows)[0])


def _profiles(jobs: JobColumns) -> tuple[TrainingProfile, UtilityProfile]:
    """Training and utility columns as the profiles that planners take."""
    training = {name: getattr(jobs, name) for name in TrainingProfile.__slots__ if name != "model_names"}
    utility = {name: getattr(jobs, name) for name in UtilityProfile.__slots__}
    return TrainingProfile(**training, model_names=()), UtilityProfile(**utility)
