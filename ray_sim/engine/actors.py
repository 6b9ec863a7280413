"""Sites in Ray actors and the central scheduler in another: the same loop, the same bytes.

The scheduler's actor owns those of the sites, so it takes them with it when it dies. Whoever dies is
made anew from its last snapshot: a site is told again what it has been told since, the scheduler
decides again what it has decided since. Everything is deterministic, so nothing changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ray_sim.engine.compiled import Progress
from ray_sim.engine.contract import Policy
from ray_sim.engine.general import GeneralRun
from ray_sim.engine.placements import State, part
from ray_sim.engine.sites.fleet import join_states
from ray_sim.engine.sites.routing import Routing
from ray_sim.engine.sites.site import Commands, SiteFacts
from ray_sim.engine.sites.site_actor import Request, SiteActor
from ray_sim.engine.sites.site_queries import Query, join
from ray_sim.engine.snapshots import Keeper, stopped_text
from ray_sim.engine.world import World
from ray_sim.model.errors import RaySimError, RunFailedError, RunStoppedError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.units import NEVER_US, IntArray

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    Actor = Any  # Ray knows the methods of classes that it decorates, and these must work without it

MAX_DEATHS = 5
"""Deaths of one actor without progress in between, after which the run is given up."""

_REQUESTS_PER_MESSAGE = 64
"""Requests to a site that has nothing to report are sent together."""

_REQUESTS_PER_STATE = 2_000
"""A site's state is fetched this often, so that what it must be told again stays short."""

SPELL_S = 0.5
"""The scheduler decides this long between two words with the driver."""

_STATE_S = 20.0
"""Time between two states of the scheduler that are kept in memory, where nobody keeps them better."""


class SiteLink:
    """One site's actor: what it has been told since its last state, and its heir if it dies.

    The heir is made by ``create_heir``: the node of the first actor may be gone.
    """

    def __init__(self, create: Callable[[], Actor], create_heir: Callable[[], Actor]) -> None:
        self._create_heir = create_heir
        self._actor = create()
        self._saved: State | None = None
        self._told: list[Request] = []
        self._sent = 0
        self._answer: ObjectRef[tuple[IntArray, int]] | None = None
        self.sequence = 0
        self.deaths = 0
        self.messages = 0
        self.bytes = 0

    def add(self, now_us: int, commands: Commands | None) -> None:
        """Note a request; it is sent with the next ones."""
        self.sequence += 1
        self._told.append((self.sequence, now_us, commands))

    @property
    def unsent(self) -> int:
        """Requests noted and not sent."""
        return len(self._told) - self._sent

    def send(self) -> None:
        """Send what has been noted, without waiting."""
        if self.unsent:
            requests = self._told[self._sent :]
            self._answer = self._actor.carry_out.remote(requests)
            self._sent = len(self._told)
            self.messages += 1
            self.bytes += sum(commands.nbytes for _, _, commands in requests if commands is not None)

    def receive(self) -> tuple[IntArray, int]:
        """The answer to the last request sent."""
        answer: tuple[IntArray, int] = self._get(self._answer, lambda: self._answer)
        self.bytes += answer[0].nbytes
        if len(self._told) >= _REQUESTS_PER_STATE:
            self.keep_state()
        return answer

    def settle(self) -> None:
        """Wait until the requests sent have been carried out."""
        if self._answer is not None:
            self.receive()

    def ask(self, query: Query) -> Callable[[], State]:
        """The answer to a question; called later, so that sites answer side by side."""
        self.send()
        asked = self._actor.ask.remote(query)

        def answer() -> State:
            found: State = self._get(asked, lambda: self._actor.ask.remote(query))
            self.messages += 1
            self.bytes += sum(array.nbytes for array in found.values())
            return found

        return answer

    def ask_for_state(self) -> Callable[[], State]:
        """The state after all that has been noted; called later, so that sites answer side by side."""
        self.send()
        asked = self._actor.state.remote()

        def received() -> State:
            state: State = self._get(asked, lambda: self._actor.state.remote())  # noqa: PLW0108  # an heir's
            self._start_from(state)
            return state

        return received

    def keep_state(self) -> None:
        """Fetch the state to go back to."""
        self.ask_for_state()()

    def restore(self, state: State, sequence: int) -> None:
        """Continue from a state."""
        self.sequence = sequence
        self._start_from(state)
        self._actor.restore.remote(state)

    def _start_from(self, state: State) -> None:
        self._saved = state
        self._told, self._sent, self._answer = [], 0, None

    def _get(self, asked: Any, ask_again: Callable[[], Any]) -> Any:
        """The answer of the actor, or of its heir."""
        import ray

        for _ in range(MAX_DEATHS):
            try:
                return ray.get(asked)
            except (ray.exceptions.RayActorError, ray.exceptions.ActorUnschedulableError) as death:
                last: Exception = death
                self._revive()
                asked = ask_again()
        raise RunFailedError(f"a site's actor died {MAX_DEATHS} times in a row; the last time: {_why(last)}")

    def _revive(self) -> None:
        """Another actor, from the last state, told all since."""
        self.deaths += 1
        self._actor = self._create_heir()
        if self._saved is not None:
            self._actor.restore.remote(self._saved)
        self._sent = 0
        self._answer = None
        self.send()

    def close(self) -> None:
        """End the actor."""
        import ray

        ray.kill(self._actor)


class RayFleet:
    """Sites in one Ray actor each, over the nodes of the cluster.

    Messages: requests of one instant go together, sites work side by side, and those that have nothing
    to do hear nothing. Sites whose part has nothing to report are not waited for; they get their
    requests in batches, and nobody waits for them.
    """

    listens = True

    def __init__(self, world: World, sites: int) -> None:
        import ray

        self._routing = Routing(world, sites)
        self._reports = world.facts.part.reports
        facts = ray.put(SiteFacts.of(world))
        actor: Actor = ray.remote(num_cpus=0, max_restarts=0)(SiteActor)
        # Ray spreads by cores, of which actors claim none: so sites are dealt out to the nodes.
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]  # Ray's own
        nodes = cycle(sorted(node["NodeID"] for node in alive))
        self._links = [
            SiteLink(
                partial(actor.options(scheduling_strategy=on_node(node)).remote, facts, first, last),
                partial(actor.remote, facts, first, last),
            )
            for (first, last), node in zip(pairwise(self._routing.bounds.tolist()), nodes, strict=False)
        ]
        self._next = [NEVER_US] * sites
        self._waiting: dict[int, int] = {}
        """Instant of the last commands to each site that has not answered them."""
        self._told_at = 0
        self._early: dict[int, IntArray] = {}
        """Reports of the instant of the last commands, which the next `collect` returns."""

    @property
    def deaths(self) -> int:
        """Sites that died and were made anew."""
        return sum(link.deaths for link in self._links)

    @property
    def traffic(self) -> tuple[int, int]:
        """Messages to sites so far, and bytes of the arrays in them and in their answers."""
        return sum(link.messages for link in self._links), sum(link.bytes for link in self._links)

    @property
    def next_us(self) -> int:
        """When a site next has something to report."""
        if self._waiting:
            # What the commands bring about at their own instant is reported with them: a message less.
            sites = sorted(self._waiting)
            for i in sites:
                self._links[i].add(self._waiting[i], None)
            found = zip(sites, self._exchange(sites), strict=True)
            self._early = {i: events for i, events in found if len(events)}
        return self._told_at if self._early else min(self._next)

    def collect(self, now_us: int, commands: Commands | None = None) -> IntArray:
        """Reports of all sites that have some at ``now_us``, or get commands first."""
        told = {} if commands is None else dict(self._routing.split(commands))
        due = [i for i, at in enumerate(self._next) if (at <= now_us and i not in self._early) or i in told]
        for i in due:
            self._links[i].add(now_us, told.get(i))
        reports = dict(zip(due, self._exchange(due), strict=True)) | self._early
        self._early = {}
        return self._routing.join([reports[i] for i in sorted(reports)])

    def command(self, now_us: int, commands: Commands) -> None:
        """Pass commands on to the sites concerned."""
        for i, mine in self._routing.split(commands):
            link = self._links[i]
            link.add(now_us, mine)
            if self._reports:
                self._waiting[i] = self._told_at = now_us
            elif link.unsent >= _REQUESTS_PER_MESSAGE:
                link.settle()
                link.send()

    def ask(self, query: Query) -> State:
        """The answers of all sites, joined in server order."""
        answers = [link.ask(query) for link in self._links]
        return join([answer() for answer in answers])

    def _exchange(self, sites: Sequence[int]) -> list[IntArray]:
        """Send to all of them, then hear all of them."""
        for i in sites:
            self._links[i].send()
        answers = [self._links[i].receive() for i in sites]
        for i, (_, following) in zip(sites, answers, strict=True):
            self._next[i] = following
            self._waiting.pop(i, None)
        return [events for events, _ in answers]

    def state(self) -> State:
        """Arrays that `restore` takes, those of a `LocalFleet` with as many sites."""
        self._exchange(sorted(self._waiting))
        asked = [link.ask_for_state() for link in self._links]
        states = [received() for received in asked]
        return join_states(states, self._routing, [link.sequence for link in self._links], self._next)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        for i, link in enumerate(self._links):
            link.restore(part(state, str(i)), int(state["sequence"][i]))
        self._routing.restore(part(state, "routing"))
        self._next = state["next"].tolist()

    def close(self) -> None:
        """End the sites."""
        for link in self._links:
            link.close()


class Spell(NamedTuple):
    """State of the run after the scheduler has decided for some time."""

    going: bool
    """Whether the run goes on."""
    ended_jobs: int
    site_deaths: int
    """Sites of this scheduler that died and were made anew."""


class SchedulerActor:
    """The central scheduler: the general loop over sites in actors of their own."""

    def __init__(
        self,
        world: World,
        new_policy: Callable[[], Policy],
        seed: int,
        sites: int,
        saved: State | None,
    ) -> None:
        self._fleet = RayFleet(world, sites)
        self._run = GeneralRun(world, new_policy(), seed=seed, fleet=self._fleet, saved=saved)

    def go_on(self, seconds: float) -> Spell:
        """Decide for ``seconds``, at least once, or to the end of the run."""
        until = time.monotonic() + seconds
        going = self._run.decide_once()
        while going and time.monotonic() < until:
            going = self._run.decide_once()
        return Spell(going, self._run.ended_jobs, self._fleet.deaths)

    def state(self) -> State:
        """A snapshot of the scheduler and of all sites."""
        return self._run.state()

    def result(self, trim: Trim | None) -> RunResult:
        """At the end."""
        result = self._run.result(trim, "sites in Ray actors")
        self._fleet.close()
        return result


def run_on_actors(
    world: World,
    new_policy: Callable[[], Policy],
    *,
    seed: int = 0,
    sites: int = 1,
    trim: Trim | None = None,
    progress: Progress | None = None,
    keeper: Keeper | None = None,
    spell_s: float = SPELL_S,
) -> RunResult:
    """Run a policy to the end with the scheduler and every site in a Ray actor of its own.

    Ray must have been started or joined. The result has the same bytes as that of any other fleet,
    also if actors, workers or nodes die on the way. The scheduler decides for ``spell_s`` seconds, at
    least once, between two words with the driver.

    Raises
    ------
    InvalidScenarioError : more sites than servers, or `trim` counts no job
    RunFailedError : the policy failed, or actors keep dying
    RunStoppedError : the keeper asked for it
    """
    import ray

    if trim is not None:
        trim.window_us(world.table.submit_us)
    Routing(world, sites)  # complains here, not in an actor
    saved = None if keeper is None else keeper.load()
    driver = _Driver(ray.put(world), new_policy, seed, sites, spell_s, saved)
    deaths, last = 0, -1
    while True:
        try:
            result = driver.follow(len(world.table), trim, progress, keeper)
            return replace(result, recoveries=driver.recoveries)
        except ray.exceptions.RayActorError as death:
            driver.recoveries += 1
            deaths = deaths + 1 if driver.ended_jobs <= last else 1
            last = driver.ended_jobs
            if deaths == MAX_DEATHS:
                raise RunFailedError(
                    f"the scheduler's actor died {MAX_DEATHS} times without progress; the last time: "
                    f"{_why(death)}"
                ) from death
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, RaySimError):
                raise error.cause from None
            raise RunFailedError(f"the scheduler's actor failed: {_why(error)}") from error


class _Driver:
    """Driver's side of a run: outlives the scheduler's actor."""

    def __init__(
        self,
        world: ObjectRef[World],
        new_policy: Callable[[], Policy],
        seed: int,
        sites: int,
        spell_s: float,
        saved: State | None,
    ) -> None:
        self._world = world
        self._arguments = (new_policy, seed, sites)
        self._spell_s = spell_s
        self._saved = saved
        self.ended_jobs = 0
        self.recoveries = 0
        """Deaths of schedulers and of sites; sites that die with their scheduler are not counted."""

    def follow(
        self, jobs: int, trim: Trim | None, progress: Progress | None, keeper: Keeper | None
    ) -> RunResult:
        """A scheduler from the last snapshot to the end of the run."""
        import ray

        actor: Actor = ray.remote(num_cpus=0, max_restarts=0)(SchedulerActor)
        scheduler = actor.remote(self._world, *self._arguments, self._saved)
        saved_at = time.monotonic()
        site_deaths = 0
        try:
            while True:
                spell: Spell = ray.get(scheduler.go_on.remote(self._spell_s))
                self.ended_jobs = spell.ended_jobs
                self.recoveries += spell.site_deaths - site_deaths
                site_deaths = spell.site_deaths
                if not spell.going:
                    result: RunResult = ray.get(scheduler.result.remote(trim))
                    return result
                if progress is not None:
                    progress(self.ended_jobs, jobs)
                if time.monotonic() - saved_at >= _STATE_S if keeper is None else keeper.due():
                    self._keep(ray.get(scheduler.state.remote()), keeper)
                    saved_at = time.monotonic()
                if keeper is not None and keeper.stopping():
                    raise RunStoppedError(stopped_text(self.ended_jobs, jobs))
        finally:
            ray.kill(scheduler)

    def _keep(self, state: State, keeper: Keeper | None) -> None:
        self._saved = state
        if keeper is not None:
            keeper.save(state)


def on_node(node: str) -> NodeAffinitySchedulingStrategy:
    """On this node only: with ``soft=True`` Ray 2.60 puts about half of such actors on another node."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _why(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
