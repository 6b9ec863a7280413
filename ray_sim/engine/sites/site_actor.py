"""A site in a process of its own, which imports nothing else: it starts quickly and stays small."""

from __future__ import annotations

from collections.abc import Sequence

from ray_sim.engine.placements import State
from ray_sim.engine.sites.site import Commands, Site, SiteFacts
from ray_sim.engine.sites.site_queries import Query
from ray_sim.model.units import IntArray

Request = tuple[int, int, Commands | None]
"""Sequence number, instant, what to do."""


class SiteActor:
    """A site as a Ray actor."""

    def __init__(self, facts: SiteFacts, first_server: int, last_server: int) -> None:
        self._site = Site(facts, first_server, last_server)

    def carry_out(self, requests: Sequence[Request]) -> tuple[IntArray, int]:
        """Step by step; the answer to the last."""
        for request in requests:
            answer = self._site.step(*request)
        return answer

    def ask(self, query: Query) -> State:
        """A question, which changes nothing."""
        return self._site.ask(query)

    def state(self) -> State:
        """State of the site."""
        return self._site.state()

    def restore(self, state: State) -> None:
        """Continue from a state."""
        self._site.restore(state)
