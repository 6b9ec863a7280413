"""Level 3, a full decision: a job that has run for its time slice gives way to jobs that wait."""

import numpy as np

from ray_sim.policy_api import Decision, Parameter, Policy


class TimeSlices(Policy):
    """Jobs that have waited longest start first, in place of jobs past their slice if there is no room."""

    respects_shares = False  # it counts free GPUs of a server, not of its devices
    parameters = (Parameter("slice_s", "float", 7200.0, "run time after which a job gives way", minimum=1.0),)

    def __init__(self, slice_s):
        self.slice_us = round(slice_s * 1e6)

    def start(self, world, streams):
        self.world = world

    def decide(self, view):
        never = self.never_fit(view)
        waiting = np.setdiff1d(view.waiting, never)
        waiting = waiting[np.argsort(-view.waited_us(waiting), kind="stable")].tolist()
        starts = view.last_start_us(view.running)
        past = starts + self.slice_us <= view.now_us
        give_way = view.running[past][np.argsort(starts[past], kind="stable")].tolist()  # the longest first
        placed, free = {}, view.free.copy()
        for job in waiting:
            trial = free.copy()
            rows, stops = self.place(view, job, trial), 0
            while not rows and stops < len(give_way):
                held = view.placements.of(np.array([give_way[stops]]))
                for server, role, count in zip(held.server, held.role, held.count, strict=True):
                    trial[server] += count * view.jobs.role_demand[give_way[stops], role]
                rows, stops = self.place(view, job, trial), stops + 1
            if rows:  # an empty list suspends: such a job is in view.waiting at the next decision
                placed |= {job: rows} | {stopped: [] for stopped in give_way[:stops]}
                free, give_way = trial, give_way[stops:]
        begun = starts[~past].tolist() + [view.now_us] * any(placed.values())
        review = {"review_us": min(begun) + self.slice_us} if begun else {}  # when the next slice is over
        return Decision.of(placed, reject=never, reject_reason="never_fits", **review)

    def place(self, view, job, free, there=None):
        """Rows (server, role, tasks) on the servers with the most room, taken from `free`; none without."""
        jobs, left, rows = view.jobs, free.copy(), []
        there = view.available if there is None else there
        may_use = self.world.may_use(np.array([job]))[0]  # by role: partition and GPU types
        for role, gang in enumerate(jobs.gang[job].tolist()):
            need, missing = jobs.role_demand[job, role], gang  # quanta by resource; tasks
            room = (there & may_use[role]) * (left[:, need > 0] // need[need > 0]).min(axis=1, initial=gang)
            for server in np.argsort(-room, kind="stable").tolist():
                if count := min(missing, int(room[server])):
                    rows.append((server, role, count))
                    left[server] -= count * need
                    missing -= count
            if missing:
                return []
        free[:] = left
        return rows

    def never_fit(self, view):
        """Jobs that began to wait and do not fit on the empty cluster."""
        capacity = self.world.cluster.capacity
        every = np.ones(len(capacity), dtype=bool)
        fits = [bool(self.place(view, job, capacity.copy(), every)) for job in view.arrived.tolist()]
        return view.arrived[~np.array(fits, dtype=bool)]
