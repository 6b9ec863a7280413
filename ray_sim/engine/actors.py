"""Run with the central scheduler and every site in a Ray actor of its own; the entry is `run_on_actors`.

The loop and the result are those of a run in one process. The scheduler's actor owns the actors of the
sites: if it dies, they die too. A dead actor is replaced from its last snapshot: a site gets again all
requests since then, the scheduler takes its decisions since then again. Both are deterministic, so the
result does not change. `RayFleet` has the methods, and `state` the format, of `LocalFleet`.
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
"""Number of deaths of one actor, without progress in between, that ends the run with an error."""

_REQUESTS_PER_MESSAGE = 64
"""Number of requests sent together to a site whose part has nothing to report."""

_REQUESTS_PER_STATE = 2_000
"""Number of requests between two snapshots of a site; it limits how many a replacement gets again."""

SPELL_S = 0.5
"""Seconds that the scheduler decides for between two replies to the driver."""

_STATE_S = 20.0
"""Seconds between two snapshots of the scheduler in the driver's memory, if there is no keeper."""


class SiteLink:
    """Link to the actor of one site: it logs the requests since the last snapshot and replaces a dead actor.

    ``create_heir`` creates the replacement, on any node: the node of the first actor may be gone.
    `sequence` numbers the requests from 1; `deaths`, `messages` and `bytes` count.
    """

    def __init__(self, create: Callable[[], Actor], create_replacement: Callable[[], Actor]) -> None:
        self._create_replacement = create_replacement
        self._actor = create()
        self._saved: State | None = None
        self._requests: list[Request] = []
        self._sent_requests = 0
        self._answer: ObjectRef[tuple[IntArray, int]] | None = None
        self.sequence = 0
        self.deaths = 0
        self.messages = 0
        self.bytes = 0

    def add(self, now_us: int, commands: Commands | None) -> None:
        """Log a request; the next `send` sends it. None: no commands, only the reports at ``now_us``."""
        self.sequence += 1
        self._requests.append((self.sequence, now_us, commands))

    @property
    def unsent(self) -> int:
        """Number of requests logged and not sent."""
        return len(self._requests) - self._sent_requests

    def send(self) -> None:
        """Send the unsent requests in one message, without waiting."""
        if self.unsent:
            requests = self._requests[self._sent_requests :]
            self._answer = self._actor.carry_out.remote(requests)
            self._sent_requests = len(self._requests)
            self.messages += 1
            self.bytes += sum(commands.nbytes for _, _, commands in requests if commands is not None)

    def receive(self) -> tuple[IntArray, int]:
        """Answer to the last message: its reports, and the instant in us of the next one; waits for it."""
        answer: tuple[IntArray, int] = self._get(self._answer, lambda: self._answer)
        self.bytes += answer[0].nbytes
        if len(self._requests) >= _REQUESTS_PER_STATE:
            self.keep_state()
        return answer

    def settle(self) -> None:
        """Wait until the requests sent, if any, have been carried out."""
        if self._answer is not None:
            self.receive()

    def ask(self, query: Query) -> Callable[[], State]:
        """Send a query; return a function that waits for the answer, so that sites answer in parallel."""
        self.send()
        pending = self._actor.ask.remote(query)

        def answer() -> State:
            found: State = self._get(pending, lambda: self._actor.ask.remote(query))
            self.messages += 1
            self.bytes += sum(array.nbytes for array in found.values())
            return found

        return answer

    def ask_for_state(self) -> Callable[[], State]:
        """Ask for the state after all logged requests; return a function that waits for it.

        No request may be added before that function is called: it clears the log.
        """
        self.send()

        def ask() -> Any:
            return self._actor.state.remote()  # `_actor` is a replacement after a death

        pending = ask()

        def received() -> State:
            state: State = self._get(pending, ask)
            self._start_from(state)
            return state

        return received

    def keep_state(self) -> None:
        """Fetch a snapshot of the site and clear the log."""
        self.ask_for_state()()

    def restore(self, state: State, sequence: int) -> None:
        """Continue from a state; ``sequence`` is the number of its last request."""
        self.sequence = sequence
        self._start_from(state)
        self._actor.restore.remote(state)

    def _start_from(self, state: State) -> None:
        self._saved = state
        self._requests, self._sent_requests, self._answer = [], 0, None

    def _get(self, pending: Any, ask_again: Callable[[], Any]) -> Any:
        """Wait for an answer; if the actor dies, replace it and ask the replacement."""
        import ray

        for _ in range(MAX_DEATHS):
            try:
                return ray.get(pending)
            except (ray.exceptions.RayActorError, ray.exceptions.ActorUnschedulableError) as death:
                last: Exception = death
                self._revive()
                pending = ask_again()
        raise RunFailedError(f"a site's actor died {MAX_DEATHS} times in a row; the last time: {_why(last)}")

    def _revive(self) -> None:
        """Replace the actor: restore the last snapshot and send all requests since."""
        self.deaths += 1
        self._actor = self._create_replacement()
        if self._saved is not None:
            self._actor.restore.remote(self._saved)
        self._sent_requests = 0
        self._answer = None
        self.send()

    def close(self) -> None:
        """End the actor."""
        import ray

        ray.kill(self._actor)


class RayFleet:
    """Fleet with each site in a Ray actor of its own; the actors are spread over the nodes of the cluster.

    Requests of one instant go in one message per site. Sites work in parallel; a site without work gets no
    message. If the part in use has nothing to report, requests go in batches, and only the batch before
    is waited for.
    """

    listens = True
    """Part of the protocol of fleets; see `GeneralRun`."""

    def __init__(self, world: World, sites: int) -> None:
        import ray

        self._routing = Routing(world, sites)
        self._reports = world.facts.part.reports
        facts = ray.put(SiteFacts.of(world))
        actor: Actor = ray.remote(num_cpus=0, max_restarts=0)(SiteActor)
        # Ray spreads actors by claimed cores, and these claim none: so each site gets a node in turn.
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
        self._commanded_us = 0
        self._early: dict[int, IntArray] = {}
        """Reports of the instant of the last commands, which the next `collect` returns."""

    @property
    def deaths(self) -> int:
        """Number of deaths of sites' actors so far; each was replaced."""
        return sum(link.deaths for link in self._links)

    @property
    def traffic(self) -> tuple[int, int]:
        """Messages to sites so far, and bytes of the arrays in them and in the answers, without snapshots."""
        return sum(link.messages for link in self._links), sum(link.bytes for link in self._links)

    @property
    def next_us(self) -> int:
        """Instant in us of the next report of any site, `NEVER_US` if there is none.

        Sends the waiting sites a request and waits for their answers.
        """
        if self._waiting:
            # Fetch the reports at the instant of the commands in the same message as the commands.
            sites = sorted(self._waiting)
            for i in sites:
                self._links[i].add(self._waiting[i], None)
            found = zip(sites, self._exchange(sites), strict=True)
            self._early = {i: events for i, events in found if len(events)}
        return self._commanded_us if self._early else min(self._next)

    def collect(self, now_us: int, commands: Commands | None = None) -> IntArray:
        """Carry out the commands, then return the reports at ``now_us`` of all sites that have some."""
        by_site = {} if commands is None else dict(self._routing.split(commands))
        due = [
            i for i, at in enumerate(self._next) if (at <= now_us and i not in self._early) or i in by_site
        ]
        for i in due:
            self._links[i].add(now_us, by_site.get(i))
        reports = dict(zip(due, self._exchange(due), strict=True)) | self._early
        self._early = {}
        return self._routing.join([reports[i] for i in sorted(reports)])

    def command(self, now_us: int, commands: Commands) -> None:
        """Log the commands for the sites concerned; they are sent later."""
        for i, mine in self._routing.split(commands):
            link = self._links[i]
            link.add(now_us, mine)
            if self._reports:
                self._waiting[i] = self._commanded_us = now_us
            elif link.unsent >= _REQUESTS_PER_MESSAGE:
                link.settle()
                link.send()

    def ask(self, query: Query) -> State:
        """The answers of all sites, joined in server order."""
        answers = [link.ask(query) for link in self._links]
        return join([answer() for answer in answers])

    def _exchange(self, sites: Sequence[int]) -> list[IntArray]:
        """Reports of the given sites, in their order: send to all, then wait for all."""
        for i in sites:
            self._links[i].send()
        answers = [self._links[i].receive() for i in sites]
        for i, (_, following) in zip(sites, answers, strict=True):
            self._next[i] = following
            self._waiting.pop(i, None)
        return [events for events, _ in answers]

    def state(self) -> State:
        """Arrays that `restore` takes; a `LocalFleet` with as many sites has the same."""
        self._exchange(sorted(self._waiting))
        pending = [link.ask_for_state() for link in self._links]
        states = [received() for received in pending]
        return join_states(states, self._routing, [link.sequence for link in self._links], self._next)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue a new fleet from the arrays of `state`; as many sites as then."""
        for i, link in enumerate(self._links):
            link.restore(part(state, str(i)), int(state["sequence"][i]))
        self._routing.restore(part(state, "routing"))
        self._next = state["next"].tolist()

    def close(self) -> None:
        """End the actors of the sites."""
        for link in self._links:
            link.close()


class Spell(NamedTuple):
    """Progress of the run after one call of `SchedulerActor.go_on`."""

    going: bool
    """Whether the run goes on."""
    ended_jobs: int
    site_deaths: int
    """Number of deaths of sites under this scheduler; each was replaced."""


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
        """Result of the run, which must have ended; ends the actors of the sites."""
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
    also if actors, workers or nodes die on the way. Between two replies to the driver the scheduler
    decides for ``spell_s`` seconds, at least once. ``progress`` gets the numbers of ended and of all jobs.
    Without a ``keeper`` the driver keeps the last snapshot in memory.

    Raises
    ------
    InvalidScenarioError : more sites than servers, or `trim` counts no job
    RunFailedError : the policy failed, or actors keep dying
    RunStoppedError : the keeper asked for it
    """
    import ray

    if trim is not None:
        trim.window_us(world.table.submit_us)
    Routing(world, sites)  # raises InvalidScenarioError here, not in an actor
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
    """Driver's side of a run: it outlives the scheduler's actor and holds the last snapshot."""

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
        """Run a new scheduler actor from the last snapshot to the end; ``jobs`` is the number of all jobs."""
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
                due = time.monotonic() - saved_at >= _STATE_S if keeper is None else keeper.due()
                if due:
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
    """Strategy that puts an actor on the node with this ID only.

    With ``soft=True`` Ray 2.60 puts about half of such actors on another node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _why(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
