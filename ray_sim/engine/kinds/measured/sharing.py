"""Which jobs share a GPU: the rules for guests, and what becomes of one whose host leaves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.decision import NO_JOBS, Decision
from ray_sim.engine.kinds.measured.decision import Guests, MeasuredDecision
from ray_sim.engine.kinds.measured.facts import MeasuredFacts
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.states import State, within
from ray_sim.engine.validation import job_name
from ray_sim.kernels.core.arrays import MOVE, RUNNING, WORKER, Changes
from ray_sim.kernels.core.devices import GPU
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.kernels.core.record import add_holding
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.progress_rule import rows_of
from ray_sim.model.units import IntArray

NO_GUESTS = Guests(NO_JOBS, NO_JOBS)


class SharedGpus:
    """Pairs of a host, which holds a GPU, and its guest, which holds nothing of its own."""

    def __init__(self, core: RunCore, facts: MeasuredFacts, partner: IntArray) -> None:
        """``partner`` is (J,), see `MeasuredRates`."""
        self._core = core
        self._facts = facts
        self._partner = partner
        self._guest = np.zeros(len(partner), dtype=np.bool_)
        self.coming = NO_GUESTS
        """Guests of the decision that is carried out."""
        self._left = NO_JOBS
        """Guests, sorted, whose host has left since `take_over`."""
        self._taken = np.zeros(len(partner), dtype=np.bool_)
        """Guests that have taken over the GPU in this instant, without an event so far."""

    def check(self, where: str, decision: Decision, rows: Rows, jobs: IntArray) -> None:
        """Refuse guests and gangs that a decision places in part.

        Parameters
        ----------
        rows, jobs : the decision's changes

        Raises
        ------
        InfeasibleDecisionError : it names the first fault, after ``where``
        """
        guests = guests_of(decision)
        tasks = np.diff(np.concatenate([[0], np.cumsum(rows.tasks)])[rows.ptr])
        placed = np.diff(rows.ptr) > 0
        server = dict(zip(jobs[placed].tolist(), rows.server[rows.ptr[:-1][placed]].tolist(), strict=True))
        of_guest = np.isin(jobs, guests.job)
        whole = self._core.world.arrays.gang[jobs, WORKER]
        wrong = placed & (tasks != np.where(of_guest, 0, whole))
        if wrong.any():
            i = int(np.argmax(wrong))
            what = "guests hold no task" if of_guest[i] else f"all {whole[i]} or, as a guest, none"
            self._refuse(where, f"gives {tasks[i]} tasks to {{}}: {what}", int(jobs[i]))
        leaving, hosts = {*jobs.tolist(), *decision.evict.tolist()}, set[int]()
        for job, host in zip(guests.job.tolist(), guests.host.tolist(), strict=True):
            self._check_pair(where, job, host, server, leaving)
            if host in hosts:
                self._refuse(where, "places two guests beside {}", host)
            hosts.add(host)
        self._check_room(where, decision, jobs)

    def _check_pair(self, where: str, job: int, host: int, server: dict[int, int], changed: set[int]) -> None:
        """A guest stands beside a running job of one GPU that is none, has none, and fits on the GPU."""
        ledger, rates, known = self._core.ledger, self._facts.rates, len(self._partner)
        if not (0 <= job < known and 0 <= host < known) or job == host:
            self._refuse(where, f"makes {job_name(self._core.world, job)} the guest of {{}}", host)
        stays = host not in changed and ledger.status[host] == RUNNING
        if stays and (self._guest[host] or (self._partner[host] >= 0 and self._partner[host] not in changed)):
            self._refuse(where, "places a guest beside {}, which shares its GPU already", host)
        there = server.get(host)
        if stays:
            there = int(rows_of(self._core.placements, np.array([host])).server[0])
        if job not in server or server[job] != there:
            self._refuse(where, "places {}, a guest, where its host holds no GPU", job)
        kind = self._facts.speeds.of_server[server[job]]
        keys = rates.key[[job, host]]
        if (keys < 0).any() or min(rates.shared[keys, keys[::-1], kind]) <= 0:
            self._refuse(where, f"places {{}} beside {job_name(self._core.world, host)} without speed", job)

    def _check_room(self, where: str, decision: Decision, changed: IntArray) -> None:
        """A guest whose host leaves takes the GPU, so that no other job can."""
        leaving = np.union1d(changed, decision.evict)
        left = [int(self._partner[job]) for job in leaving.tolist() if self._partner[job] >= 0]
        left = [job for job in left if self._guest[job] and job not in leaving]
        if not left:
            return
        demand, free = self._core.world.arrays.demand[:, WORKER], self._core.after.copy()
        servers = rows_of(self._core.placements, np.array(left)).server
        for job, server in zip(left, servers.tolist(), strict=True):
            free[server, : demand.shape[1]] -= demand[job]
            if free[server, GPU] < 0:
                self._refuse(where, "takes the GPU of {}, a guest whose host leaves", job)

    def _refuse(self, where: str, text: str, job: int) -> None:
        raise InfeasibleDecisionError(f"at {where} {text.format(job_name(self._core.world, job))}")

    def change(self, jobs: IntArray) -> IntArray:
        """Undo the pairs of jobs that hold something else now, and make those that come; the others."""
        others = self._partner[jobs]
        others = others[others >= 0]
        self._partner[jobs] = self._partner[others] = -1
        self._guest[jobs] = self._taken[jobs] = False
        self._left = np.union1d(self._left, others[self._guest[others]])
        guests, self.coming = self.coming, NO_GUESTS
        self._partner[guests.job], self._partner[guests.host] = guests.host, guests.job
        self._guest[guests.job] = True
        return np.setdiff1d(np.concatenate([others, guests.host]), jobs)

    def take_over(self, now_us: int) -> None:
        """Let guests whose host has left hold the GPU, once the sites know that it has; they just run on."""
        core, left, self._left = self._core, self._left, NO_JOBS
        left = left[self._guest[left] & (self._partner[left] < 0)]
        self._guest[left], self._taken[left] = False, True
        if not len(left):
            return
        n = len(left)
        changes = Changes(
            job=left,
            ptr=np.arange(n + 1),
            server=rows_of(core.placements, left).server,
            role=np.full(n, WORKER),
            tasks=np.ones(n, dtype=np.int64),
            order=np.arange(n),
            size=np.array([n]),
        )
        core.placements.change(changes)
        core.tell_placed(now_us, changes)

    def close_instant(self, now_us: int) -> None:
        """Record what guests hold that took over, unless the policy has placed them elsewhere since.

        An event at once would stand beside that of the policy, and both would read as one holding.
        """
        for job in np.flatnonzero(self._taken).tolist():
            add_holding(self._core.recording.writer, now_us, MOVE, job, self._core.placements.pool)
        self._taken[:] = False

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {"partner": self._partner.copy(), "guest": self._guest.copy(), "taken": self._taken.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._partner[:] = within(state, "partner", -1, len(self._partner) - 1)
        self._guest[:] = state["guest"]
        self._taken[:] = state["taken"]


def guests_of(decision: Decision) -> Guests:
    """Guests of a decision; none of one of another class."""
    given = decision.guests if isinstance(decision, MeasuredDecision) else None
    return NO_GUESTS if given is None else given
