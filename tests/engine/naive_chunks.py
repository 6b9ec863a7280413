"""Chunked jobs slot by slot, with lists and loops: an independent word on what must happen.

A slot has two rounds, as the policy of the tests is asked twice: once for what has happened by itself,
then for what its dispatches bring about. In each round every worker chooses a chunk and active jobs get
parameter servers; then all chunks that have both make a slot of progress.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

ALWAYS = 10**9


@dataclass
class Sent:
    """A chunk sent to a worker."""

    job: int
    unit: int
    worker: int
    key: int
    order: int
    ready: int
    left: int
    ran: list[int] = field(default_factory=list)
    """Slots in which it made progress."""


@dataclass
class Naive:
    """What became of it all."""

    chunks: list[Sent]
    stalled: int
    """Slots of active jobs without a parameter server."""
    preemptions: int


def simulate(
    dispatches: Mapping[int, Sequence[Sent]],
    ps: Sequence[int],
    *,
    overtake: bool,
    in_cloud: frozenset[int],
    on_demand: frozenset[int],
    slots: int,
) -> Naive:
    """``ps`` slots by server, the cloud's too; ``on_demand`` workers serve all their chunks at once."""
    result = Naive([], 0, 0)
    server_of: dict[int, int] = {}
    serving: dict[int, Sent] = {}
    ps_is_cloud = [n == ALWAYS for n in ps]
    for now in range(slots):
        served: list[Sent] = []
        for arriving in ([], dispatches.get(now, [])):
            result.chunks += arriving
            served = _choose(result.chunks, serving, now, overtake, on_demand)
            _give_servers({chunk.job for chunk in served}, server_of, list(ps), ps_is_cloud, in_cloud)
        for chunk in result.chunks:
            interrupted = chunk.ran and chunk.ran[-1] == now - 1 and chunk.left > 0
            result.preemptions += bool(interrupted and chunk not in served)
        result.stalled += len({chunk.job for chunk in served} - set(server_of))
        for chunk in served:
            if chunk.job in server_of:
                chunk.left -= 1
                chunk.ran.append(now)
    return result


def _choose(
    chunks: Sequence[Sent],
    serving: dict[int, Sent],
    now: int,
    overtake: bool,
    on_demand: frozenset[int],
) -> list[Sent]:
    """The chunk that each worker serves; ``serving`` is what it served before, and is brought up to date."""
    there = [chunk for chunk in chunks if chunk.ready <= now and chunk.left > 0]
    for worker in {chunk.worker for chunk in chunks} - on_demand:
        mine = [chunk for chunk in there if chunk.worker == worker]
        before = serving.pop(worker, None)
        if mine:
            first = min(mine, key=lambda chunk: (chunk.key, chunk.order))
            stays = before is not None and before.left > 0 and not overtake
            serving[worker] = before if before is not None and stays else first
    return [*serving.values(), *(chunk for chunk in there if chunk.worker in on_demand)]


def _give_servers(
    active: set[int],
    server_of: dict[int, int],
    idle: list[int],
    ps_is_cloud: Sequence[bool],
    in_cloud: frozenset[int],
) -> None:
    for job in set(server_of) - active:
        del server_of[job]
    for server in server_of.values():
        idle[server] -= 1
    for job in sorted(active - set(server_of)):
        for server in range(len(idle)):
            if idle[server] > 0 and ps_is_cloud[server] == (job in in_cloud):
                server_of[job] = server
                idle[server] -= 1
                break
