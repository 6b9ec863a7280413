"""Level 2, a queue: jobs of the team that uses the fewest GPUs now start first."""

import numpy as np

from ray_sim.policy_api import Policy


class SmallTeamsFirst(Policy):
    """Order waiting jobs by the GPUs that their team uses; ties by submission."""

    sees = frozenset({"vc"})

    def start(self, world, streams):
        self.queue = world.service("consolidate", backfill=True)

    def decide(self, view):
        team = view.jobs.vc + 1  # -1 is no team
        running, teams = view.running, len(view.jobs.vc_names) + 1
        used = np.bincount(team[running], view.jobs.tasks[running], minlength=teams)
        self.queue.push(view.arrived, used[team[view.arrived]].astype(np.int64))
        for job in np.setdiff1d(view.waiting, view.arrived).tolist():
            self.queue.rekey(job, int(used[team[job]]))
        return self.queue.serve(view)
