"""Trial runs of new jobs: training speed with some pairs of workers and parameter servers."""

from __future__ import annotations

import numpy as np

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.optimus.placement import place_alone
from ray_sim.policies.optimus.speed_fit import MOST_TRIAL_TASKS
from ray_sim.policy_api import ElasticContext, Rows


class TrialRuns:
    """Runs on the empty servers of a job's partition, placed evenly on few servers as by the policy."""

    def __init__(self, world: ElasticContext) -> None:
        self._world = world
        capacity, partition = world.cluster.capacity, world.server_partition
        self._servers = {
            p: few_of_each_kind(capacity[partition == p]) for p in np.unique(partition).tolist() if p >= 0
        }
        """(S, R) quanta of the servers of each partition, at most as many per kind as one trial can use."""

    def samples_per_s(self, jobs: IntArray, workers: IntArray, ps: IntArray) -> FloatArray:
        """(n,) speeds of trial runs with these numbers of tasks, NaN where the partition has no room.

        Parameters
        ----------
        jobs : (n,), repeats allowed
        workers, ps : (n,), up to `MOST_TRIAL_TASKS` each
        """
        found = np.full(len(jobs), np.nan)
        partition = self._world.jobs.partition[jobs]
        tasks = np.stack([workers, ps], axis=1)
        for p in np.unique(partition).tolist():
            at = np.flatnonzero(partition == p)
            trial = place_alone(tasks[at], self._world.jobs.role_demand[jobs[at]], self._servers[p])
            placed = np.unique(trial.job)
            ptr = np.append(np.searchsorted(trial.job, placed), len(trial.job))
            at = at[placed]
            rows = Rows(ptr, trial.server, trial.role, trial.count)
            found[at] = self._world.trial_speed(jobs[at], rows)
        return found


def few_of_each_kind(capacity: IntArray) -> IntArray:
    """Rows of (S, R) capacities, at most the first `MOST_TRIAL_TASKS` of equal ones."""
    _, kind = np.unique(capacity, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    order = np.argsort(kind, kind="stable")
    first = np.searchsorted(kind[order], kind[order])
    earlier = np.empty(len(kind), dtype=np.int64)
    earlier[order] = np.arange(len(kind)) - first
    few: IntArray = capacity[earlier < MOST_TRIAL_TASKS]
    return few
