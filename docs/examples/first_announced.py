"""Level 3 for announced jobs: those that have come start in order of birth, and pay per GPU and round."""

import numpy as np

from ray_sim.policy_api import AnnouncedDecision, AnnouncedPolicy, Charges

PRICE = 100_000_000
"""Price of one GPU for one round, in 1e-9 of a unit of value."""


class FirstAnnounced(AnnouncedPolicy):
    """First born, first served; a job of no value to the platform pays all the same."""

    def start(self, world, streams):
        self.gpus, self.nodes, self.round_us = world.statements.concurrency, world.nodes, world.round_us
        self.started = np.zeros(len(self.gpus), dtype=np.int64)

    def decide(self, view):
        free = self.nodes - self.gpus[view.running].sum()
        waiting = view.present  # those that have come; view.waiting has all that are announced
        starting = waiting[np.cumsum(self.gpus[waiting]) <= free]
        self.started[starting] = view.round
        done = view.completed
        prices = PRICE * self.gpus[done] * (view.round - self.started[done])
        return AnnouncedDecision(changes=view.starts(starting), charges=Charges(done, prices))
