"""Ray actors that collect units in parallel with the newest weights. This module is the only one of learning
with Ray.

An actor keeps nothing between units, so the unit of an actor that died is given to another one, which answers
with the same arrays.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ray_sim.engine.actors.site_link import named
from ray_sim.experiments.fanout.connection import RayLostError, cluster, dead_process
from ray_sim.experiments.fanout.tasks import in_a_line, root_cause
from ray_sim.experiments.fanout.witness import last_words
from ray_sim.learning.collection import Collected, Collection, Guide, Unit
from ray_sim.model.errors import RunFailedError

if TYPE_CHECKING:
    from ray import ObjectRef

    Actor = Any  # Ray knows the methods of classes that it decorates

MAX_DEATHS = 5
"""Actors that may die of one unit, after which the training is given up."""

_POLL_S = 1.0
"""Seconds between two checks that Ray is alive."""


class Collector:
    """An actor: collects units of one training."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def collect(self, unit: Unit, guide: Guide) -> Collected:
        """What is collected in a unit."""
        return self._collection.collect(unit, guide)


class RayCollectors:
    """Gives units to actors, and those of actors that died to others."""

    def __init__(self, collection: Collection, actors: int) -> None:
        import ray

        actor = ray.remote(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")(Collector)
        shared, label = ray.put(collection), f"train harmony, seed {collection.seed}"
        self._new_actor: Callable[[], Actor] = lambda: actor.options(**named(label)).remote(shared)
        self._idle: list[Actor] = [self._new_actor() for _ in range(actors)]
        self.deaths = 0

    def collect(self, units: Sequence[Unit], guide: Guide) -> list[Collected]:
        """What is collected in each unit, in the order of the units.

        Raises
        ------
        RunFailedError : `MAX_DEATHS` actors died of one unit
        RayLostError : the Ray that was started here died
        """
        import ray
        from ray.exceptions import RayActorError, RayError

        shared = ray.put(guide)
        waiting, found = deque(units), dict[Unit, Collected]()
        died = dict.fromkeys(units, 0)
        busy: dict[ObjectRef[Collected], tuple[Actor, Unit]] = {}
        while len(found) < len(units):
            while waiting and self._idle:
                actor, unit = self._idle.pop(), waiting.popleft()
                busy[actor.collect.remote(unit, shared)] = actor, unit
            ended, _ = ray.wait(list(busy), num_returns=1, timeout=_POLL_S)
            if (name := dead_process()) is not None:
                raise RayLostError(f"Ray's process {name} has died: killed, or out of memory")
            for answer in ended:
                actor, unit = busy.pop(answer)
                try:
                    found[unit] = ray.get(answer)
                except RayActorError as error:
                    self.deaths += 1
                    died[unit] += 1
                    if died[unit] == MAX_DEATHS:
                        raise RunFailedError(_given_up(unit, error)) from error
                    waiting.appendleft(unit)
                    actor = self._new_actor()
                except RayError as error:
                    raise RunFailedError(
                        f"round {unit.round}, unit {unit.number}: {in_a_line(root_cause(error))}"
                    ) from error
                self._idle.append(actor)
        return [found[unit] for unit in units]


def _given_up(unit: Unit, error: Exception) -> str:
    return (
        f"round {unit.round}, unit {unit.number}: its actor died {MAX_DEATHS} times, the last time: "
        f"{in_a_line(root_cause(error))}; give actors more memory, or fewer lanes to a unit"
    )


@contextmanager
def ray_collectors(
    collection: Collection,
    actors: int | None,
    address: str,
    words: str,
    announce: Callable[[str], None] = lambda text: None,
) -> Iterator[RayCollectors]:
    """Join or start Ray, with actors that end with the block.

    Parameters
    ----------
    actors : one for each core where None
    words : for standard error if this process ends without a word, see `last_words`
    """
    with last_words(words), cluster(address, announce) as cores:
        yield RayCollectors(collection, actors or cores)
