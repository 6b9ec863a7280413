"""Sites and scheduler in Ray actors: the bytes of a run in one process, whoever dies on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import ray
from hypothesis import given, settings

from benchmarks.processes import descendants
from ray_sim.contract.chunked_worlds import busy_chunks, failing_chunks
from ray_sim.contract.rigid_worlds import busy_world, failing_world, with_shares, with_types
from ray_sim.contract.subject import Subject
from ray_sim.contract.suite import ACTOR_CLAUSES
from ray_sim.engine.actors.ray_fleet import RayFleet, on_node
from ray_sim.engine.actors.scheduler import run_on_actors
from ray_sim.engine.actors.site_link import MAX_DEATHS, SiteLink
from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import LocalFleet
from ray_sim.engine.sites.site import Site, SiteFacts
from ray_sim.engine.states import State
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.experiments.fanout.connection import cluster
from ray_sim.model.errors import InvalidScenarioError, RunFailedError, RunStoppedError
from ray_sim.policies.fifo import Fifo
from ray_sim.policies.registry import create_policy, policy_infos
from tests.engine.sites.test_site import Case, chunk_cases, run_with, through_bytes
from tests.engine.test_availability import failing_worlds
from tests.figures import chunked_of
from tests.patience import until
from tests.proofs import instances
from tests.random_worlds import PolicyChoice, policies
from tests.required import new_policy
from tests.worlds import Job, cluster_of, fingerprint, job_table, replay

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with cluster("local"):
        yield


def pids_of(kind: str) -> list[int]:
    """Processes below this one that hold an actor of a kind, the oldest first."""

    def name(pid: int) -> str:
        try:
            return Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""  # it has ended

    return sorted(pid for pid in descendants(os.getpid()) if name(pid).startswith(f"ray::{kind}"))


def killer(moments: Mapping[int, str]) -> Callable[[int, int], None]:
    """Progress that kills an actor of the given kind, of the run to come, after each of these decisions."""
    decisions = iter(range(10_000))
    # Ray may still be ending the actors of earlier runs.
    earlier = {pid for kind in set(moments.values()) for pid in pids_of(kind)}

    def own(kind: str) -> list[int]:
        return [pid for pid in pids_of(kind) if pid not in earlier]

    def progress(ended: int, jobs: int) -> None:
        if (kind := moments.get(next(decisions))) is not None:
            # No run waits for the sites of rigid jobs.
            until(lambda: bool(own(kind)), f"a {kind} has started")
            os.kill(own(kind)[-1], signal.SIGKILL)

    return progress


class Album:
    """Keeps every so manieth snapshot as bytes, and stops the run at one of them."""

    def __init__(self, every: int, stop_at: int | None = None, saved: State | None = None) -> None:
        self._every, self._stop_at = every, stop_at
        self._asked = 0
        self.last = saved

    def load(self) -> State | None:
        return self.last

    def due(self) -> bool:
        self._asked += 1
        return self._asked % self._every == 0

    def save(self, state: State) -> None:
        self.last = through_bytes(state)

    def stopping(self) -> bool:
        return self._asked == self._stop_at


FIFO = partial(create_policy, "fifo", {"backfill": True})
CHUNK_SPT = partial(create_policy, "chunk_spt")


EVERY_COMMIT = {"drf"}
"""One for elastic jobs; tests below run rigid jobs and chunks."""


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(info.name, marks=() if info.name in EVERY_COMMIT else pytest.mark.long)
        for info in policy_infos()
    ],
)
def test_every_policy_leaves_the_same_bytes_on_actors(policy: str) -> None:
    for name, clause in ACTOR_CLAUSES.items():
        assert clause(Subject(partial(new_policy, policy))), name


@pytest.mark.long
@pytest.mark.slow
def test_as_many_actors_as_servers_give_the_bytes_of_one_process() -> None:
    world = failing_world()
    result = run_on_actors(world, FIFO, sites=7)
    assert fingerprint(result) == fingerprint(replay(world, FIFO(), loop="general"))
    assert result.loop_reason == "sites in Ray actors"


@settings(max_examples=instances(6, 2))
@given(world=failing_worlds(), policy=policies())
def test_random_worlds_are_the_same_on_actors(world: World, policy: PolicyChoice) -> None:
    fleet = RayFleet(world, len(world.cluster))
    result = run_with(world, policy.create(), fleet)
    fleet.close()
    assert fingerprint(result) == fingerprint(replay(world, policy.create(), loop="general"))


def test_types_and_shares_of_gpus_are_the_same_on_actors() -> None:
    world, new = (
        with_types(with_shares(failing_world(20))),
        partial(create_policy, "srtf", {"placement": "fgd"}),
    )
    result = run_on_actors(world, new, sites=2)
    assert fingerprint(result) == fingerprint(replay(world, new(), loop="general"))


def test_failures_are_the_same_on_actors() -> None:
    gangs = [Job(300.0 * i, 1 + i % 3, 3600.0 * (1 + i % 4)) for i in range(24)]
    params = {"failure_gpu_h": 4.0, "checkpoint_s": 600.0, "retries": 100}
    chunks = busy_chunks(20)
    for policy, world in (
        (FIFO, build_world(job_table(gangs), cluster_of([2, 2, 2]), params=params)),
        (
            CHUNK_SPT,
            build_world(
                chunks.table, chunks.cluster, params={**chunks.params, "failure_gpu_h": 1.0, "retries": 100}
            ),
        ),
    ):
        result = run_on_actors(world, policy, sites=2)
        assert result.stops is not None
        assert len(result.stops) > 3
        assert fingerprint(result) == fingerprint(replay(world, policy(), loop="general"))


@settings(max_examples=instances(6, 2))
@given(case=chunk_cases())
def test_chunks_that_are_lost_and_withdrawn_are_the_same_on_actors(case: Case) -> None:
    world, new = case
    fleet = RayFleet(world, len(world.cluster))
    result = run_with(world, new(), fleet)
    fleet.close()
    assert fingerprint(result) == fingerprint(replay(world, new()))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_costs_of_preemption_new_keys_and_memory_are_the_same_on_actors(seed: int) -> None:
    world, danger = busy_chunks(seed=seed, limited=True), {"deadlines": "danger", "preempt": True}
    result = run_on_actors(world, partial(create_policy, "a_online", danger), sites=3)
    assert fingerprint(result) == fingerprint(replay(world, create_policy("a_online", danger)))
    assert result.summary.policy_counts is not None
    assert result.summary.policy_counts["in_danger"] > 0
    assert chunked_of(result).preemption_cost_s
    plain = replay(busy_chunks(seed=seed), create_policy("a_online", danger))
    assert not result.jobs.equals(plain.jobs)


@pytest.mark.parametrize("kind", ["Site", pytest.param("SchedulerActor", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("make", "new"), [pytest.param(failing_world, FIFO, marks=pytest.mark.long), (failing_chunks, CHUNK_SPT)]
)
def test_nothing_changes_when_an_actor_is_killed(
    make: Callable[[], World], new: Callable[[], Policy], kind: str
) -> None:
    world = make()
    keeper = Album(every=25)
    result = run_on_actors(
        world, new, sites=2, progress=killer({10: kind, 60: kind}), keeper=keeper, spell_s=0
    )
    assert fingerprint(result) == fingerprint(replay(world, new(), loop="general"))
    assert result.recoveries == 2


@pytest.mark.long
@pytest.mark.slow
def test_a_site_that_died_before_its_scheduler_counts_as_a_recovery_of_its_own() -> None:
    moments = {10: "Site", 60: "SchedulerActor"}
    result = run_on_actors(
        failing_chunks(), CHUNK_SPT, sites=2, progress=killer(moments), keeper=Album(every=25), spell_s=0
    )
    assert result.recoveries == 2  # the sites that died with the scheduler are part of its recovery


def test_a_stopped_run_goes_on_from_its_snapshot_on_either_fleet() -> None:
    world = busy_world()
    whole = fingerprint(replay(world, FIFO(), loop="general"))
    album = Album(every=10, stop_at=40)
    with pytest.raises(RunStoppedError, match=r"stopped with .* of 60 jobs ended; go on with .* --resume"):
        run_on_actors(world, FIFO, sites=2, keeper=album, spell_s=0)
    assert album.last is not None
    successor = Simulation(world, policy := FIFO(), fleet=LocalFleet(world, 2))
    policy.start(successor.world, successor.streams)
    successor.restore(album.last)
    while (view := successor.advance()) is not None:
        successor.apply(policy.decide(view))
    assert fingerprint(successor.result()) == whole
    again = run_on_actors(world, FIFO, sites=2, keeper=Album(every=10, saved=album.last), spell_s=0)
    assert fingerprint(again) == whole


def test_a_site_whose_node_is_gone_before_it_starts_is_made_on_another() -> None:
    world = busy_world()
    site = SiteFacts.of(world), 0, len(world.cluster)
    actor = ray.remote(num_cpus=0)(Site)
    nobody = "ab" * 28
    link = SiteLink(
        partial(actor.options(scheduling_strategy=on_node(nobody)).remote, *site),
        partial(actor.remote, *site),
    )
    state = link.ask_for_state()()
    link.close()
    assert link.deaths == 1
    undisturbed = Site(*site).state()
    assert state.keys() == undisturbed.keys()
    assert all(np.array_equal(state[name], undisturbed[name]) for name in state)


def test_more_sites_than_servers_are_refused() -> None:
    with pytest.raises(InvalidScenarioError, match="sites: must be 1 to 7, the number of servers, got 8"):
        run_on_actors(busy_world(), FIFO, sites=8)


class Clumsy(Fifo):
    """Fails at its first decision."""

    def decide(self, view: View) -> Decision:
        raise ZeroDivisionError("no luck")


def test_a_policy_that_fails_in_an_actor_is_named() -> None:
    with pytest.raises(RunFailedError, match=r"policy fifo failed: ZeroDivisionError: no luck .*line"):
        run_on_actors(busy_world(), Clumsy)


class Deadly(Fifo):
    """Ends its process at its first decision."""

    def decide(self, view: View) -> Decision:
        os.kill(os.getpid(), signal.SIGKILL)
        return Decision()


@pytest.mark.long
@pytest.mark.slow
def test_a_scheduler_that_always_dies_is_given_up() -> None:
    with pytest.raises(
        RunFailedError, match=f"the scheduler's actor died {MAX_DEATHS} times without progress"
    ):
        run_on_actors(busy_world(), Deadly)
