"""Whole gangs of workers and parameter servers, each task on the server of the best score.

The policies load_balance and tetris_packing; those of `least_interference` predict slowdowns.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ray_sim.model.parameter_blocks import AS_WORLD
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.shared.elastic_options import PARAMETER_BLOCKS
from ray_sim.policies.task_placement.placement_kernels import (
    LEAST_LEFT,
    LEAST_LOADED,
    Gangs,
    Servers,
    fit_alone,
    place_gangs,
)
from ray_sim.policy_api import (
    Decision,
    ElasticContext,
    ElasticPolicy,
    ElasticView,
    Parameter,
    Rows,
    Streams,
    allocation_changes,
)

NEVER_FIT = "tasks_never_fit"
"""Reject reason of a job that the rule cannot place even on the empty servers of its partition."""


class TaskPlacement(ElasticPolicy):
    """Place the tasks that each waiting job asks for, in the order of submission, workers first.

    Each task goes to the server of the best score among those of its pool where it fits; ties: the lowest. A
    job that does not fit whole holds nothing and waits, and later jobs are tried. What is placed stays; a job
    that lost a server is placed anew.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (PARAMETER_BLOCKS,)
    slotted: ClassVar[bool] = True
    rule: int
    """Score of servers, a rule of `placement_kernels`."""

    def __init__(self, parameter_blocks: str = AS_WORLD) -> None:
        self.parameter_blocks = parameter_blocks

    def start(self, world: ElasticContext, streams: Streams) -> None:
        """Keep the facts of servers and jobs."""
        self._world = world

    def decide(self, view: ElasticView) -> Decision:
        """Place waiting jobs that fit; reject those that have come and can never be placed."""
        jobs = view.waiting
        if len(jobs) == 0:
            return Decision()
        target, placed = self._placed(view, jobs)
        failed = np.intersect1d(jobs[~placed], view.arrived, assume_unique=True)
        return Decision(
            changes=allocation_changes(view.placements, jobs, target),
            reject=failed[~self._fit_alone(failed)],
            reject_reason=NEVER_FIT,
        )

    def job_types(self, jobs: IntArray) -> IntArray:
        """(n,) type of each of ``jobs``; empty, as here, if the rule needs none."""
        return np.empty(0, dtype=np.int64)

    def beside(self, view: ElasticView) -> IntArray:
        """(S, L) tasks on each server by type of job; L is 0, as here, if the rule needs none."""
        return np.zeros((len(view.available), 0), dtype=np.int64)

    def coefficients(self) -> FloatArray:
        """(powers, L, L) of the prediction of slowdowns; empty, as here, if the rule needs none."""
        return np.empty((0, 0, 0))

    def _placed(self, view: ElasticView, jobs: IntArray) -> tuple[Rows, BoolArray]:
        """Rows of each job, (n,), none where it has to wait; which jobs have a place."""
        gangs = self._gangs(jobs)
        most = np.minimum(gangs.tasks.sum(axis=1), len(view.available) * gangs.tasks.shape[1])
        room = int(most.sum())
        rows = Rows(
            np.zeros(len(jobs) + 1, dtype=np.int64), *(np.empty(room, dtype=np.int64) for _ in range(3))
        )
        placed = np.zeros(len(jobs), dtype=np.bool_)
        servers = self._servers(view.free.copy(), view.available.copy(), self.beside(view))
        n = place_gangs(servers, gangs, self.rule, self.coefficients(), rows, placed)
        return Rows(rows.ptr, rows.server[:n], rows.role[:n], rows.tasks[:n]), placed

    def _fit_alone(self, jobs: IntArray) -> BoolArray:
        """(n,) whether the rule places each job if no other job and every server is there."""
        fits = np.ones(len(jobs), dtype=np.bool_)
        if len(jobs):
            capacity = self._world.cluster.capacity
            nothing = np.zeros((len(capacity), 0), dtype=np.int64)
            servers = self._servers(capacity.copy(), np.ones(len(capacity), dtype=np.bool_), nothing)
            fit_alone(servers, self._gangs(jobs), self.rule, fits)
        return fits

    def _servers(self, free: IntArray, available: BoolArray, beside: IntArray) -> Servers:
        capacity = self._world.cluster.capacity.copy()
        return Servers(
            capacity=capacity,
            free=free,
            pools=self._world.pools.copy(),
            available=available,
            beside=beside,
            load=np.empty(len(capacity)),
            left=np.empty(len(capacity)),
            slowdown=np.ones(len(capacity)),
            given=np.zeros((len(capacity), self._world.jobs.gang.shape[1]), dtype=np.int64),
        )

    def _gangs(self, jobs: IntArray) -> Gangs:
        of_job = self._world.jobs
        return Gangs(
            of_job.gang[jobs], of_job.role_demand[jobs], self._world.pool_of(jobs), self.job_types(jobs)
        )


class LoadBalance(TaskPlacement):
    """Place each task of a gang on the server with the least sum over resources of used / capacity.

    Source: a baseline of Bao et al., Deep Learning-based Job Placement in Distributed Machine Learning
    Clusters, INFOCOM 2019.
    """

    name: ClassVar[str] = "load_balance"
    section: ClassVar[str] = "docs/models/baselines.md#gangs-placed-task-by-task (Bao et al., INFOCOM 2019)"
    summary: ClassVar[str] = "fixed gangs, each task on the least loaded server"
    rule: int = LEAST_LOADED


class TetrisPacking(TaskPlacement):
    """Place each task of a gang on the server with the least sum over resources of free / capacity.

    Source: a baseline of Bao et al., Deep Learning-based Job Placement in Distributed Machine Learning
    Clusters, INFOCOM 2019.
    """

    name: ClassVar[str] = "tetris_packing"
    section: ClassVar[str] = "docs/models/baselines.md#gangs-placed-task-by-task (Bao et al., INFOCOM 2019)"
    summary: ClassVar[str] = "fixed gangs, each task on the fullest server where it fits (Tetris in Harmony)"
    rule: int = LEAST_LEFT
