"""Level 2, a preemptive queue: the users who have waited most go first, and jobs give way after a time."""

import numpy as np

from ray_sim.policy_api import Parameter, Policy

FIRST, LAST = -(2**62), 2**62  # keys before and after those of all waiting jobs


class MostWaitingUsers(Policy):
    """Serve users by the time that their waiting jobs have waited; a job gives way after `slice_s`."""

    sees = frozenset({"user"})
    parameters = (Parameter("slice_s", "float", 7200.0, "run time after which a job gives way", minimum=1.0),)

    def __init__(self, slice_s):
        self.slice_us = round(slice_s * 1e6)

    def start(self, world, streams):
        users = world.jobs.user  # names; None if the workload has no users
        names = ["all"] * len(world.jobs.submit_us) if users is None else users.fill_null("none").to_list()
        self.user = np.unique(names, return_inverse=True)[1]  # a number for each user
        self.queue = world.service("consolidate", backfill=True, preemptive=True)

    def decide(self, view):
        waiting, running = view.waiting, view.running
        waited_us = np.zeros(len(self.user), dtype=np.int64)
        np.add.at(waited_us, self.user[waiting], view.waited_us(waiting))
        keys = -waited_us[self.user]  # smaller first
        self.queue.push(view.arrived, keys[view.arrived])
        for job in np.setdiff1d(waiting, view.arrived).tolist():  # suspended jobs are among them
            self.queue.rekey(job, int(keys[job]))
        starts = view.last_start_us(running)
        past = starts + self.slice_us <= view.now_us
        running_keys = np.where(past, LAST, FIRST)  # past their slice: after all who wait
        begun = starts[~past].tolist() + [view.now_us] * len(waiting)
        review = {"review_us": min(begun) + self.slice_us} if begun else {}  # when the next slice is over
        return self.queue.serve(view, (running, running_keys), **review)
