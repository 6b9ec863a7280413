"""Policies written as one function, for tests that need a particular decision at a particular time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.kinds.chunked.jobs import CHUNKED
from ray_sim.engine.kinds.elastic.jobs import ELASTIC
from ray_sim.engine.view import View

Decide = Callable[[Any], Decision]

EVENTS = Wake.ARRIVAL | Wake.COMPLETION


def scripted(
    decide: Decide,
    *,
    wake: Wake = EVENTS,
    visible: frozenset[str] = frozenset(),
    on_slots_only: bool = False,
    chunks: bool = False,
    elastic: bool = False,
) -> Policy:
    """A policy that decides by calling ``decide``; ``chunks`` and ``elastic`` say what jobs it is for."""

    class Scripted(Policy):
        name: ClassVar[str] = "scripted"
        wake_on: Wake = wake
        sees: frozenset[str] = visible
        slotted: ClassVar[bool] = on_slots_only
        schedules: ClassVar[str] = CHUNKED if chunks else ELASTIC if elastic else GANGS

        def decide(self, view: Any) -> Decision:
            return decide(view)

    return Scripted()


def at_times(script: Mapping[float, Decision]) -> Decide:
    """Answer with the decision written for this second, and ask for a review at the next one written."""

    def decide(view: View) -> Decision:
        now_s = view.now_us / 1e6
        later = [int(time_s * 1e6) for time_s in script if time_s > now_s]
        decision = script.get(now_s, Decision())
        return replace(decision, review_us=min(later, default=decision.review_us))

    return decide
