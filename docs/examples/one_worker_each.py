"""Level 3, a full decision: elastic jobs get one worker and one parameter server, wherever there is room."""

import numpy as np

from ray_sim.policy_api import PARAMETER_SERVER, WORKER, Decision, ElasticPolicy


class OneWorkerEach(ElasticPolicy):
    """Place waiting jobs in the order of submission, each with the fewest tasks that train."""

    def start(self, world, streams):
        self.world = world

    def decide(self, view):
        free = view.free.copy()  # quanta by server and resource
        placed = {}
        for job in view.waiting.tolist():
            rows = self.least(view, job, free)
            if rows:
                placed[job] = rows
                for server, role, count in rows:
                    free[server] -= count * view.jobs.role_demand[job, role]
        return Decision.of(placed)

    def least(self, view, job, free):
        """Rows server, role, tasks of the smallest allocation; none if there is no room for it."""
        jobs, left, rows = view.jobs, free.copy(), []
        may_use = self.world.may_use(np.array([job]))[0]  # by role: partition and GPU types
        for role in (WORKER, PARAMETER_SERVER):
            if jobs.gang[job, role] == 0:  # all-reduce needs no parameter server
                continue
            need = jobs.role_demand[job, role]
            fits = np.flatnonzero(view.available & may_use[role] & (left >= need).all(axis=1))
            if not len(fits):
                return []
            left[fits[0]] -= need
            rows.append((int(fits[0]), role, 1))
        return rows
