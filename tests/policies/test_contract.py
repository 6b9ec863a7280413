"""The contract suite, on the built-in policies and on policies that break it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ray_sim.policies.contract_suite import CLAUSES, check_policy
from ray_sim.policies.registry import policy_classes

CARELESS = '''
import numpy as np
from ray_sim import Decision, Dispatch, Policy, Wake

class InTurn(Policy):
    """Chunks of each job to the workers there of its partition in turn; servers to whoever is active."""

    chunked = True
    wake_on = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION | Wake.SERVER_CHANGE

    def start(self, world, streams):
        self.world = world

    def decide(self, view):
        rows = []
        for job, u in view.undispatched(np.union1d(view.waiting, view.running)).tolist():
            workers = self.world.workers
            mine = np.flatnonzero(self.world.server_partition[workers.server] == view.jobs.partition[job])
            edge = mine[~workers.on_demand[mine]]
            mine = edge if len(edge) else mine
            mine = mine[view.available[workers.server[mine]]]
            if len(mine):
                rows.append((job, u, mine[(job + u) % len(mine)], self.key(job)))
        columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return Decision.of(self.servers(view), dispatch=Dispatch(*columns))

    def servers(self, view):
        idle = view.free[:, 1].copy()
        given = {job: [] for job in self.leaving(view)}
        workers = self.world.workers
        is_cloud = np.isin(np.arange(len(idle)), workers.server[workers.on_demand])
        slots = workers.server[~workers.on_demand]
        for _, server, _, _ in view.holdings.rows(np.array(list(given), dtype=np.int64)).tolist():
            idle[server] += 1
        for job in view.stalled.tolist():
            p = view.jobs.partition[job]
            here = self.world.server_partition == p
            free = np.flatnonzero((idle > 0) & here & (is_cloud != here[slots].any()))
            if len(free):
                idle[free[0]] -= 1
                given[job] = [(int(free[0]), 1, 1)]
        return given

    def key(self, job):
        return 0

    def leaving(self, view):
        return view.idle_holders.tolist()

class Peeks(InTurn):
    """Looks at how long chunks take."""

    def decide(self, view):
        self.world.chunk_us(view.arrived, np.zeros(1, dtype=np.int64))
        return super().decide(view)

class Hoards(InTurn):
    """Serves the newest job first, and never takes a parameter server from one that is not active."""

    def key(self, job):
        return -job

    def leaving(self, view):
        return []
'''

ONE_EACH = '''
import numpy as np
from ray_sim import Decision, Policy, Wake

class OneEach(Policy):
    """A worker and a parameter server for each job, wherever there is room, first come first served."""

    elastic = True

    def start(self, world, streams):
        self.world = world

    def decide(self, view):
        free, given = view.free.copy(), {}
        for job in self.queue(view):
            rows = self.place(view, job, free)
            if rows:
                given[job] = rows
        return Decision.of(given)

    def queue(self, view):
        return view.waiting.tolist()

    def place(self, view, job, free):
        mine = self.world.server_partition == view.jobs.partition[job]
        demand, rows, left = view.jobs.role_demand[job], [], free.copy()
        roles = (0, 1) if view.jobs.gang[job, 1] > 0 else (0,)
        for first in np.flatnonzero(mine):
            left, rows = free.copy(), []
            for role in roles:
                order = [first, *np.flatnonzero(mine)]
                fits = [server for server in order if (left[server] >= demand[role]).all()]
                if not fits:
                    break
                left[fits[0]] -= demand[role]
                rows.append((int(fits[0]), role, 1))
            if len(rows) == len(roles):
                free[:] = left
                return rows
        return []

class Peeks(OneEach):
    """Looks at how much work is left."""

    def queue(self, view):
        view.work_left(view.waiting)
        return super().queue(view)

class Forgets(OneEach):
    """Serves each job only when it comes."""

    def queue(self, view):
        return view.arrived.tolist()
'''


SLOW = {"dorm"}
"""Solves a mixed-integer programme at every decision."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in policy_classes()],
)
def test_every_policy_holds_its_contract(name: str) -> None:
    assert [outcome.detail for outcome in check_policy(name) if not outcome.passed] == []


@pytest.mark.slow
def test_a_policy_for_chunks_of_ones_own_is_checked_on_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "careless_chunks.py").write_text(CARELESS)
    outcomes = {outcome.name: outcome for outcome in check_policy("careless_chunks:InTurn")}
    assert [outcome.detail for outcome in outcomes.values() if not outcome.passed] == []
    assert len(outcomes) == len(CLAUSES)
    assert outcomes["blind to run times"].detail.startswith("other run times change nothing")

    peeks = {outcome.name: outcome for outcome in check_policy("careless_chunks:Peeks")}
    assert "`sees` lacks chunk_profile" in peeks["feasible"].detail
    # A job keeps its server while another, which has overtaken it, needs one: both stand still.
    hoards = {outcome.name: outcome for outcome in check_policy("careless_chunks:Hoards")}
    assert "jobs were never finished" in hoards["feasible"].detail


def test_a_policy_for_elastic_jobs_of_ones_own_is_checked_on_elastic_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "careless_elastic.py").write_text(ONE_EACH)
    outcomes = {outcome.name: outcome for outcome in check_policy("careless_elastic:OneEach")}
    assert [outcome.detail for outcome in outcomes.values() if not outcome.passed] == []
    assert outcomes["blind to run times"].detail.startswith("other run times change nothing")

    def detail(policy: str, clause: str) -> str:
        found = {outcome.name: outcome for outcome in check_policy(f"careless_elastic:{policy}")}
        assert not found[clause].passed
        return found[clause].detail

    assert "`sees` does not declare" in detail("Peeks", "feasible")
    assert "jobs were never finished" in detail("Forgets", "feasible")
