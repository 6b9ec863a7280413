"""Sites: any number gives the same run, requests are numbered, and their states can travel."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.chunked.site_part import ChunkCommands, JobValues
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import Fleet, LocalFleet
from ray_sim.engine.sites.site import Commands, Query, Site, SiteFacts
from ray_sim.engine.states import State
from ray_sim.engine.world import World
from ray_sim.kernels.chunked.queue_state import COMPLETE, RUN, SERVE, ChunkRows
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.model.errors import InvalidScenarioError, RunFailedError
from ray_sim.model.result import RunResult
from ray_sim.model.units import NEVER_US, IntArray
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import ChunkJob, Server, chunk_world
from tests.proofs import instances
from tests.random_worlds import job_lists, policies, server_changes, shared_worlds, worlds
from tests.toys import Dealer, Impatient, Turns, WorkersRule, chunked, world_with
from tests.worlds import Job, changes_of, fingerprint, replay, world_of

few = settings(max_examples=instances(60, 8))

CHUNK_POLICIES = (
    "chunk_fifo",
    "chunk_spt",
    "a_online",
    "chunk_earliest_finish",
    "chunk_las",
    "chunk_srpt",
)


def through_bytes(state: Mapping[str, np.ndarray]) -> State:
    """The state as another process would get it; nothing is pickled."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(state))
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


class Travelling(Fleet):
    """A fleet whose sites are all replaced by copies made from their states before every request."""

    listens: ClassVar[bool] = True

    def __init__(self, world: World, sites: int) -> None:
        self._world, self._sites = world, sites
        self._fleet = LocalFleet(world, sites)

    def _travel(self) -> LocalFleet:
        state = through_bytes(self._fleet.state())
        self._fleet = LocalFleet(self._world, self._sites)
        self._fleet.restore(state)
        return self._fleet

    @property
    def next_us(self) -> int:
        return self._travel().next_us

    def collect(self, now_us: int, commands: Commands | None = None) -> IntArray:
        return self._travel().collect(now_us, commands)

    def command(self, now_us: int, commands: Commands) -> None:
        self._travel().command(now_us, commands)

    def ask(self, query: Query) -> State:
        return self._travel().ask(query)

    def state(self) -> State:
        return self._travel().state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._fleet.restore(state)


def run_with(world: World, policy: Policy, fleet: Fleet) -> RunResult:
    """The general loop on a fleet."""
    simulation = Simulation(world, policy, fleet=fleet)
    policy.start(simulation.world, simulation.streams)
    while (view := simulation.advance()) is not None:
        simulation.apply(policy.decide(view))
    return simulation.result()


def run_in_two(world: World, new: Callable[[], Policy], sites: int, stop: int) -> RunResult:
    """Stopped after so many decisions, and continued from the state by another simulation."""
    policy = new()
    simulation = Simulation(world, policy, fleet=LocalFleet(world, sites))
    policy.start(simulation.world, simulation.streams)
    for _ in range(stop):
        view = simulation.advance()
        if view is None:
            return simulation.result()
        simulation.apply(policy.decide(view))
    successor = new()
    continued = Simulation(world, successor, fleet=LocalFleet(world, sites))
    successor.start(continued.world, continued.streams)
    continued.restore(through_bytes(simulation.state()))
    while (view := continued.advance()) is not None:
        continued.apply(successor.decide(view))
    return continued.result()


Case = tuple[World, Callable[[], Policy]]
"""A world and a way to make a policy for it."""


@st.composite
def chunk_cases(draw: st.DrawFn) -> Case:
    """Chunked jobs on up to 7 servers, which may come and go; some policies evict jobs."""
    jobs = sorted(draw(job_lists(min_size=1, max_size=8)))
    servers = draw(st.integers(1, 7))
    chunks = draw(st.lists(st.integers(1, 5), min_size=len(jobs), max_size=len(jobs)))
    changes = draw(st.just([]) | server_changes(servers))
    built_in = [partial(create_policy, name) for name in CHUNK_POLICIES]
    makers: list[Callable[[], Policy]] = [Dealer, Impatient, *built_in]
    return chunked(jobs, chunks, servers, changes), draw(st.sampled_from(makers))


@st.composite
def other_worlds(draw: st.DrawFn) -> Case:
    """Worlds of all kinds on up to 7 servers."""
    kind = draw(st.sampled_from(["rigid", "typed", "chunked", "elastic"]))
    if kind == "chunked":
        return draw(chunk_cases())
    if kind == "typed":
        return draw(shared_worlds()), draw(policies(rules=QUEUE_RULES)).create
    if kind == "rigid":
        return draw(worlds(max_servers=7)), draw(policies()).create
    jobs = sorted(draw(job_lists(min_size=1, max_size=8)))
    gpus = [float(n) for n in draw(st.lists(st.integers(1, 3), min_size=1, max_size=7))]
    jobs = [job._replace(gpus=1) for job in jobs]
    params = {"slot_s": draw(st.sampled_from([0.5, 3])), "restart_cost_s": draw(st.sampled_from([0, 1]))}
    # Jobs that are always on the move may never end.
    params["horizon_s"] = 60
    return world_with(WorkersRule, jobs, gpus, elastic=True, params=params), Turns


@pytest.mark.slow
@few
@given(case=other_worlds())
def test_any_number_of_sites_gives_the_same_run(case: Case) -> None:
    world, new = case
    one = fingerprint(run_with(world, new(), LocalFleet(world, 1)))
    for sites in {min(2, len(world.cluster)), len(world.cluster)}:
        assert fingerprint(run_with(world, new(), LocalFleet(world, sites))) == one


@pytest.mark.slow
@few
@given(case=other_worlds(), stop=st.integers(0, 25), sites=st.integers(1, 3))
def test_a_run_stopped_anywhere_goes_on_alike_from_its_state(case: Case, stop: int, sites: int) -> None:
    world, new = case
    sites = min(sites, len(world.cluster))
    whole = fingerprint(run_with(world, new(), LocalFleet(world, sites)))
    assert fingerprint(run_in_two(world, new, sites, stop)) == whole


@pytest.mark.slow
@settings(max_examples=instances(20))
@given(case=other_worlds(), sites=st.integers(1, 3))
def test_sites_that_travel_as_bytes_between_any_two_requests_change_nothing(case: Case, sites: int) -> None:
    world, new = case
    sites = min(sites, len(world.cluster))
    stays = fingerprint(run_with(world, new(), LocalFleet(world, sites)))
    assert fingerprint(run_with(world, new(), Travelling(world, sites))) == stays


@pytest.mark.parametrize("sites", [0, 4, -1])
def test_a_site_has_at_least_one_server(sites: int) -> None:
    with pytest.raises(InvalidScenarioError, match=f"sites: must be 1 to 3.* got {sites}"):
        replay(world_of([Job(0, 1, 1)], [1, 1, 1]), "fifo", sites=sites, loop="general")


def small_site() -> Site:
    """Servers 1 and 2 of four servers of 2 GPUs; three jobs of one GPU may come."""
    world = world_of([Job(0, 1, 5)] * 3, [2, 2, 2, 2])
    return Site(SiteFacts.of(world), 1, 3)


def chunk_site() -> Site:
    """Servers 1 and 2, with workers 2 to 5, of four servers with two workers each."""
    world = chunk_world([ChunkJob(0, 3, 5)] * 3, [Server(workers=2)] * 4)
    return Site(SiteFacts.of(world), 1, 3)


TWO_WORKERS = Commands(changes=changes_of([(0, [(1, 0, 1)]), (1, [(2, 0, 1)])]))
ONE_CHUNK = Commands(
    part=ChunkCommands(
        ps=JobValues(np.array([0]), np.array([1])),
        chunks=ChunkRows(*np.array([[3], [0], [0], [0], [12], [5], [1], [0]])),
    )
)
"""Job 0 has a parameter server; to worker 3, key 0, its chunk 0, uploaded at 12 us, 5 us of work."""
STARTED, DONE = [[SERVE, 0, 0, 3, 5], [RUN, 0, 0, 3, 5]], [[COMPLETE, 0, 0, 3, 0]]


def test_a_repeated_request_is_answered_again_and_not_carried_out_twice() -> None:
    site = small_site()
    first = site.step(1, 0, TWO_WORKERS)
    once = site.state()
    again = site.step(1, 0, TWO_WORKERS)
    assert (first[0].tolist(), first[1]) == (again[0].tolist(), again[1]) == ([], NEVER_US)
    assert all(np.array_equal(once[name], array) for name, array in site.state().items())
    # Four GPUs on its servers, two of them held.
    assert site.placements.free[:, 0].tolist() == [0, 1000, 1000, 0]

    site = chunk_site()
    assert site.step(1, 10, ONE_CHUNK)[1] == 12
    assert site.step(1, 10, ONE_CHUNK)[1] == 12
    for _ in range(2):
        events, following = site.step(2, 12, None)
        assert (events.tolist(), following) == (STARTED, 17)
    for _ in range(2):
        events, following = site.step(3, 17, None)
        assert (events.tolist(), following) == (DONE, NEVER_US)


def test_a_repeated_request_is_answered_again_by_a_restored_site() -> None:
    site = chunk_site()
    site.step(1, 10, ONE_CHUNK)
    site.step(2, 12, None)
    successor = chunk_site()
    successor.restore(through_bytes(site.state()))
    events, following = successor.step(2, 12, None)
    assert (events.tolist(), following) == (STARTED, 17)


@pytest.mark.parametrize("sequence", [3, 7, 0])
def test_a_gap_in_the_requests_is_refused(sequence: int) -> None:
    site = small_site()
    site.step(1, 0, TWO_WORKERS)
    with pytest.raises(RunFailedError, match=f"request {sequence} follows 1"):
        site.step(sequence, 5, None)


def test_a_site_refuses_to_hold_more_than_it_has() -> None:
    with pytest.raises(RunFailedError, match=r"range\(1, 3\) is commanded to hold more"):
        small_site().step(1, 0, Commands(changes=changes_of([(0, [(1, 0, 3)])])))
