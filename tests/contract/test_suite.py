"""The contract suite, on the built-in policies and on policies that break it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from ray_sim.contract import suite
from ray_sim.contract.elastic_worlds import busy_elastic
from ray_sim.contract.job_tables import ALWAYS_SEEN, column_names, undeclared
from ray_sim.contract.outcome import Verdict
from ray_sim.contract.subject import Subject
from ray_sim.contract.suite import CLAUSES, check_clause, check_policy
from ray_sim.engine.visible_columns import WHOLE_TRACE
from ray_sim.model.errors import InvalidInputError
from ray_sim.policies.registry import create_policy, policy_classes
from tests.proofs import quick_first
from tests.required import REQUIRED

CARELESS = '''
import numpy as np
from ray_sim import ChunkedDecision, ChunkedPolicy, Dispatch, Wake

class InTurn(ChunkedPolicy):
    """Chunks of each job to the workers there of its partition in turn; servers to whoever is active."""

    wake_on = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION | Wake.SERVER_CHANGE

    def start(self, world, streams):
        self.world = world

    def decide(self, view):
        rows = []
        for job, u in np.transpose(view.undispatched(np.union1d(view.waiting, view.running))).tolist():
            workers = self.world.workers
            mine = np.flatnonzero(self.world.server_partition[workers.server] == view.jobs.partition[job])
            edge = mine[~workers.on_demand[mine]]
            mine = edge if len(edge) else mine
            mine = mine[view.available[workers.server[mine]]]
            if len(mine):
                rows.append((job, u, mine[(job + u) % len(mine)], self.key(job)))
        columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return ChunkedDecision.of(self.servers(view), dispatch=Dispatch(*columns))

    def servers(self, view):
        idle = view.free[:, 1].copy()
        given = {job: [] for job in self.leaving(view)}
        workers = self.world.workers
        is_cloud = np.isin(np.arange(len(idle)), workers.server[workers.on_demand])
        slots = workers.server[~workers.on_demand]
        for server in view.placements.of(np.array(list(given), dtype=np.int64)).server.tolist():
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
from ray_sim import Decision, ElasticPolicy, Wake

class OneEach(ElasticPolicy):
    """A worker and a parameter server for each job, wherever there is room, first come first served."""

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


def fault(ref: str, clause: str) -> str:
    """Detail of one clause that a policy breaks."""
    outcome = check_clause(clause, CLAUSES[clause], Subject(partial(create_policy, ref)))
    assert outcome.failed
    return outcome.detail


EACH_WAY = {
    "a_online",
    "drf",
    "fifo",
    "las",
    "lif_quad",
    "optimus",
    "pd_ors",
    "posted_price",
    "value_density",
}
"""One of each way in which policies speak with the engine; the others are long tests."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name not in EACH_WAY)) for name in policy_classes()],
)
def test_every_policy_holds_its_contract(name: str) -> None:
    assert [outcome.detail for outcome in check_policy(name, REQUIRED.get(name)) if outcome.failed] == []


@pytest.mark.slow
def test_a_policy_for_chunks_of_ones_own_is_checked_on_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "careless_chunks.py").write_text(CARELESS)
    subject = Subject(partial(create_policy, "careless_chunks:InTurn"))
    blind = check_clause("blind to run times", CLAUSES["blind to run times"], subject)
    assert blind.result is Verdict.PASSED
    assert blind.detail.startswith("run times that nothing has shown")

    assert "`sees` lacks chunk_profile" in fault("careless_chunks:Peeks", "feasible")
    # A job keeps its server while another, which has overtaken it, needs one: both stand still.
    assert "jobs were never finished" in fault("careless_chunks:Hoards", "feasible")


@pytest.mark.slow
def test_a_policy_for_elastic_jobs_of_ones_own_is_checked_on_elastic_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "careless_elastic.py").write_text(ONE_EACH)
    subject = Subject(partial(create_policy, "careless_elastic:OneEach"))
    blind = check_clause("blind to run times", CLAUSES["blind to run times"], subject)
    assert blind.result is Verdict.PASSED
    assert blind.detail.startswith("run times that nothing has shown")
    assert "`sees` does not declare" in fault("careless_elastic:Peeks", "feasible")
    assert "jobs were never finished" in fault("careless_elastic:Forgets", "feasible")


CHEATS = '''
from dataclasses import replace

import numpy as np
from ray_sim import Decision, Policy

class InOrder(Policy):
    """First come, first served."""

    sees = frozenset({"duration_s"})

    def start(self, world, streams):
        self.queue = world.service("consolidate")

    def decide(self, view):
        self.queue.push(view.arrived, self.keys(view))
        return self.queue.serve(view)

    def keys(self, view):
        return np.zeros(len(view.arrived), dtype=np.int64)

class LooksAhead(InOrder):
    """Serves by a number that depends on the next job, which has not come."""

    def keys(self, view):
        work, n = view.jobs.work_us // 10**6, view.arrivals
        following = int(work[n]) if n < len(work) else 0
        return work[view.arrived] % (following % 7 + 2)

class ShortestUndeclared(InOrder):
    """Serves the shortest first, by run times that it does not declare."""

    sees = frozenset()

    def start(self, world, streams):
        super().start(world, streams)
        self.work = world._world.work

    def keys(self, view):
        return self.work[view.arrived].astype(np.int64)

class StopsTheLongest(InOrder):
    """Suspends the job that has most left to do, which it must not know, if that is more than ten minutes."""

    sees = frozenset()

    def decide(self, view):
        ends = {job: view._ledger.finish[job] for job in view.running.tolist()}
        last = max(ends, key=ends.get, default=None)
        if len(view.completed) and last is not None and ends[last] > view.now_us + 600_000_000:
            return Decision.of({last: []})
        return super().decide(view)

class WritesInStart(InOrder):
    """Reaches the caller's own array under the read-only one and its read-only memory."""

    def start(self, world, streams):
        super().start(world, streams)
        world.cluster.speed.base.obj[:] = 0.5

class MovesTheOrigin(InOrder):
    """Replaces fields of the caller's frozen records."""

    def start(self, world, streams):
        super().start(world, streams)
        full, put = world._world, object.__setattr__
        put(full.table, "origin_us", full.table.origin_us + 10**6)
        put(full.table, "job_id", full.table.job_id.reverse())
        put(full.cluster, "server_names", full.cluster.server_names[::-1])
        put(full, "restart_us", 0)
        put(full, "horizon_us", 10**15)
        put(full, "there", full.there.copy())

class WritesAtTheEnd(InOrder):
    """Prepares the next run when this one is over."""

    def start(self, world, streams):
        super().start(world, streams)
        self.world = world

    def counts(self):
        object.__setattr__(self.world._world, "partition", "none")
        return {}

class WritesUsed(InOrder):
    """Tells of less use than there is."""

    def decide(self, view):
        view.placements.used[:] = 0
        return super().decide(view)

class AsksForEver(InOrder):
    """Wants to be asked again after each microsecond."""

    def decide(self, view):
        return replace(super().decide(view), review_us=view.now_us + 1)

class ClosesTheGenerator(InOrder):
    def decide(self, view):
        raise GeneratorExit("no luck")

class ServesByAnUnknownRule(InOrder):
    def start(self, world, streams):
        self.queue = world.service("consolidated")

class PushesNobody(InOrder):
    def decide(self, view):
        self.queue.push(np.array([-5]), np.array([0]))

class Nothing(InOrder):
    def decide(self, view):
        return None

class RejectsAll(Policy):
    def decide(self, view):
        return Decision(reject=view.arrived, evict=view.running[:0])

class Tangled(Policy):
    def decide(self, view):
        decision = Decision.of({job: [(0, 0, 1)] for job in view.waiting.tolist()})
        return Decision(changes=decision.changes._replace(ptr=decision.changes.ptr * 100 + 5))

class NoView(Policy):
    def decide(self):
        return Decision()

class SeesAList(InOrder):
    sees = ["duration_s"]

class Explodes(InOrder):
    def __init__(self):
        raise RuntimeError("boom")
'''


@pytest.mark.slow
def test_cheats_are_found_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "cheats.py").write_text(CHEATS)

    def found(policy: str) -> dict[str, str]:
        return {each.name: each.detail for each in check_policy(f"cheats:{policy}") if each.failed}

    assert found("InOrder") == {}
    ahead = found("LooksAhead")
    assert list(ahead) == ["blind to jobs to come"]
    assert "jobs that arrive from" in ahead["blind to jobs to come"]
    undeclared = found("ShortestUndeclared")
    assert list(undeclared) == ["blind to run times"]
    assert "other run times (work_us), which nothing has shown by then" in undeclared["blind to run times"]
    assert fault("cheats:StopsTheLongest", "blind to run times")
    assert "start changed" in fault("cheats:WritesInStart", "leaves the world alone")
    moved = fault("cheats:MovesTheOrigin", "leaves the world alone")
    assert moved.startswith("start changed")
    for field in ("table.origin_us", "table.job_id", "cluster.server_names[0]", "restart_us"):
        assert f"world.{field}" in moved
    assert "world.there" in moved  # an equal array, which the policy can change later
    end = fault("cheats:WritesAtTheEnd", "leaves the world alone")
    assert end == "counts, figures, warnings or timeline columns changed world.partition"
    assert "read-only" in fault("cheats:WritesUsed", "feasible")
    monkeypatch.setattr(suite, "MOST_DECISIONS", 3_000)
    for_ever = check_policy("cheats:AsksForEver")
    assert [each.name for each in for_ever if each.failed] == ["comes to an end"]
    assert "not done after 3,000 decisions" in for_ever[1].detail
    assert {each.result for each in for_ever[2:]} == {Verdict.NOT_CHECKED}
    assert "failed: GeneratorExit: no luck" in fault("cheats:ClosesTheGenerator", "feasible")
    assert "Did you mean 'consolidate'?" in fault("cheats:ServesByAnUnknownRule", "feasible")
    assert "push: job -5 is none of the" in fault("cheats:PushesNobody", "feasible")
    nothing = fault("cheats:Nothing", "feasible")
    assert "policy Nothing answers NoneType: decide must return a Decision" in nothing
    assert "(class cheats:Nothing)" in nothing
    assert "size, ptr or order do not fit" in fault("cheats:Tangled", "feasible")
    assert "TypeError" not in str(found("RejectsAll"))
    for policy, text in (
        ("NoView", r"decide must take view"),
        ("SeesAList", r"sees must be a frozenset, found list"),
        ("Explodes", r"cannot be constructed: RuntimeError: boom"),
    ):
        with pytest.raises(InvalidInputError, match=text):
            check_policy(f"cheats:{policy}")


@pytest.mark.slow
def test_what_was_not_run_is_not_said_to_be_passed() -> None:
    clause = "blind to jobs to come"
    future = check_clause(clause, CLAUSES[clause], Subject(partial(create_policy, "pd_ors")))
    assert future.result is Verdict.NOT_CHECKED
    assert future.to_dict()["passed"] is None
    assert "whole_trace" in future.detail
    assert WHOLE_TRACE not in create_policy("pd_ors", {"constants": "declared"}).sees


@pytest.mark.parametrize(
    ("name", "jobs", "with_what", "suspends"),
    quick_first(
        [
            ("fifo", 40, "failing servers", False),
            ("srtf", 40, "failing servers", True),
            ("announced_fifo", 60, "users who misreport", False),
        ]
    ),
)
def test_what_happened_in_the_worlds_is_said(name: str, jobs: int, with_what: str, suspends: bool) -> None:
    found = check_clause("feasible", CLAUSES["feasible"], Subject(partial(create_policy, name)))
    assert found.detail.startswith(f"{9 * jobs} jobs in 6 crowded worlds and 3 with {with_what}: ")
    assert found.detail.endswith(" suspensions by the policy")
    assert (", 0 suspensions" not in found.detail) == suspends


def test_every_column_that_a_policy_does_not_declare_is_permuted() -> None:
    table = busy_elastic().table
    hidden = set(undeclared(table, frozenset()))
    assert {"work_us", "num_gpus", "vc", "user", "priority", "job_id", "trace_order"} <= hidden
    assert {"training.samples", "training.step_s_per_ps", "loss.loss_b0", "blocks.of_job"} <= hidden
    assert "submit_us" not in hidden
    assert "user" not in undeclared(table, frozenset({"user"}))
    assert set(column_names(table)) - hidden == set(column_names(table)) & ALWAYS_SEEN
