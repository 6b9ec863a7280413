"""An inner loop in machine code: each job starts on the fullest server that holds all of it."""

import numpy as np

from ray_sim.policy_api import Decision, Policy, kernel


@kernel
def holds(free, need, s, job):
    """Whether server s has room for all of a job."""
    fits = True
    for r in range(free.shape[1]):
        fits = fits and free[s, r] >= need[job, r]
    return fits


@kernel
def best_fit(free, need, allowed, server):
    """Write into `server` the fullest allowed server that holds each job, else -1; take from `free`."""
    for job in range(len(need)):
        server[job] = -1
        for s in range(len(free)):
            fuller = server[job] < 0 or free[s, 0] < free[server[job], 0]
            if allowed[job, s] and fuller and holds(free, need, s, job):
                server[job] = s
        if server[job] >= 0:
            for r in range(free.shape[1]):
                free[server[job], r] -= need[job, r]


class BestFit(Policy):
    """Start each waiting job on the fullest server that holds all of it, by free GPUs."""

    respects_shares = False  # it counts free GPUs of a server, not of its devices

    def start(self, world, streams):
        self.world = world

    def decide(self, view):
        jobs = np.setdiff1d(view.waiting, self.too_large(view))
        gangs = view.jobs.gang[jobs]
        server = np.empty(len(jobs), dtype=np.int64)
        there = self.allowed(view, jobs) & view.available
        best_fit(view.free.copy(), self.needs(view, jobs), there, server)
        placed = zip(jobs.tolist(), server.tolist(), gangs.tolist(), strict=True)
        started = {
            job: [(s, role, n) for role, n in enumerate(gang) if n] for job, s, gang in placed if s >= 0
        }
        return Decision.of(started, reject=self.too_large(view), reject_reason="never_fits")

    def needs(self, view, jobs):
        """(n, R) quanta of all tasks of each job; roles are workers and parameter servers."""
        return (view.jobs.gang[jobs, :, None] * view.jobs.role_demand[jobs]).sum(axis=1)

    def allowed(self, view, jobs):
        """(n, S) servers that all tasks of each job may be on: of its partition and GPU types."""
        return self.world.may_use(jobs).all(axis=1)

    def too_large(self, view):
        """Jobs that began to wait and fit on no server, even an empty one."""
        jobs = view.arrived
        fits = (self.world.cluster.capacity >= self.needs(view, jobs)[:, None]).all(axis=2)
        return jobs[~(fits & self.allowed(view, jobs)).any(axis=1)]
