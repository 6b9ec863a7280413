"""Level 2, a queue: jobs of the team that uses the fewest GPUs for its weight start first."""

import numpy as np

from ray_sim.policy_api import Parameter, Policy


class WeightedTeams(Policy):
    """Order waiting jobs by the GPUs that their team uses, divided by its weight; ties by submission."""

    sees = frozenset({"vc"})
    parameters = (Parameter("weights", "text", None, "weights by team, as vision=2,speech=0.5; else 1"),)
    unchanging = frozenset({"weights"})  # no part of snapshots

    def __init__(self, weights):
        self.weights = dict(entry.split("=") for entry in (weights or "").split(",") if entry)

    def start(self, world, streams):
        self.gpus = world.gang_gpus()  # thousandths
        self.queue = world.service("consolidate", backfill=True)

    def decide(self, view):
        names = [None, *view.jobs.vc_names]  # the first stands for no team
        team, running = view.jobs.vc + 1, view.running
        used = np.bincount(team[running], self.gpus[running], minlength=len(names))
        weight = np.array([float(self.weights.get(name, 1)) for name in names])
        share = np.rint(used / weight).astype(np.int64)  # keys are whole numbers
        self.queue.push(view.arrived, share[team[view.arrived]])
        for job in np.setdiff1d(view.waiting, view.arrived).tolist():
            self.queue.rekey(job, int(share[team[job]]))
        return self.queue.serve(view)
