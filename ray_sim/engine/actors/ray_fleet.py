"""Fleet of sites in Ray actors: `RayFleet` has the methods, and `state` the format, of `LocalFleet`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ray_sim.engine.actors.site_link import SiteLink, named
from ray_sim.engine.sites.fleet import Fleet, join_states, sequence_of
from ray_sim.engine.sites.routing import Routing
from ray_sim.engine.sites.site import Commands, Query, Site, SiteFacts, join
from ray_sim.engine.states import State, section, within
from ray_sim.engine.world import World
from ray_sim.model.units import NEVER_US, IntArray

if TYPE_CHECKING:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from ray_sim.engine.actors.site_link import Actor

_REQUESTS_PER_MESSAGE = 64
"""Number of requests sent together to a site whose part has nothing to report."""


class RayFleet(Fleet):
    """Fleet with each site in a Ray actor of its own; the actors are spread over the nodes of the cluster.

    Requests of one instant go in one message per site. Sites work in parallel; a site without work gets no
    message. If the part in use has nothing to report, requests go in batches, and only the batch before
    is waited for.
    """

    listens: ClassVar[bool] = True

    def __init__(self, world: World, sites: int, label: str = "run") -> None:
        import ray

        self._routing = Routing(world, sites)
        self._reports = world.facts.part.reports
        facts = ray.put(SiteFacts.of(world))
        actor: Actor = ray.remote(num_cpus=0, max_restarts=0)(Site)
        # Ray spreads actors by claimed cores, and these claim none: so each site gets a node in turn.
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]  # no types
        nodes = cycle(sorted(node["NodeID"] for node in alive))

        def creating(site: int, **options: object) -> Callable[[], Actor]:
            servers = self._routing.bounds[site : site + 2].tolist()
            return lambda: actor.options(**options, **named(f"{label}, site {site}")).remote(facts, *servers)

        self._links = [
            SiteLink(creating(site, scheduling_strategy=on_node(node)), creating(site))
            for site, node in zip(range(sites), nodes, strict=False)
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
        sequence = sequence_of(state, len(self._links))
        for i, link in enumerate(self._links):
            link.restore(section(state, str(i)), sequence[i])
        self._routing.restore(section(state, "routing"))
        self._next = within(state, "next", 0, NEVER_US).tolist()

    def close(self) -> None:
        """End the actors of the sites."""
        for link in self._links:
            link.close()


def on_node(node: str) -> NodeAffinitySchedulingStrategy:
    """Strategy that puts an actor on the node with this ID only.

    With ``soft=True`` Ray 2.60 puts about half of such actors on another node.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)
