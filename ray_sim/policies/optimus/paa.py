"""How the parameter blocks of a model are dealt out to parameter servers: PAA and what frameworks do.

Source: Peng et al., Optimus, EuroSys 2018, section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ray_sim.model.streams import Streams

_SMALL = Fraction(1, 100)
"""Blocks below this share of the average load go where the fewest requests are."""
MXNET_WHOLE = 10**6
"""MXNet cuts blocks of at least so many parameters."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What each of P parameter servers holds. Each block, or piece of one, is one request on its server."""

    sizes: tuple[Fraction, ...]
    """(P,) parameters."""
    requests: tuple[int, ...]
    """(P,)."""

    @property
    def size_difference(self) -> float:
        """Parameters of the fullest server beyond those of the emptiest."""
        return float(max(self.sizes) - min(self.sizes))

    @property
    def total_requests(self) -> int:
        """Requests of one worker in one step."""
        return sum(self.requests)

    @property
    def request_difference(self) -> int:
        """Requests on the busiest server beyond those on the idlest."""
        return max(self.requests) - min(self.requests)


class _Servers:
    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"parameter servers: must be at least 1, got {n}")
        self.sizes = [Fraction(0)] * n
        self.requests = [0] * n

    def add(self, server: int, size: Fraction) -> None:
        self.sizes[server] += size
        self.requests[server] += 1

    def least(self, load: Callable[[int], Fraction | int]) -> int:
        """The server of the least load, the first of equal ones."""
        return min(range(len(self.sizes)), key=lambda server: (load(server), server))

    @property
    def assignment(self) -> Assignment:
        return Assignment(tuple(self.sizes), tuple(self.requests))


def paa(blocks: Sequence[int], servers: int) -> Assignment:
    """Parameter assignment algorithm: even sizes from as few requests as possible.

    In decreasing size: blocks above the average load are cut into pieces of it, each to the least loaded
    server; those from 1 % of it on go where they leave the least room, or to the least loaded server; smaller
    ones to the server with the fewest requests. Ties: the lowest server.

    Parameters
    ----------
    blocks : parameters in each, whole, >= 0
    servers : >= 1
    """
    held = _Servers(servers)
    average = Fraction(sum(blocks), servers)
    for size in sorted(map(Fraction, blocks), reverse=True):
        if size > average:
            _cut(held, size, average)
        elif size < _SMALL * average:
            held.add(held.least(lambda server: held.requests[server]), size)
        else:
            fitting = [server for server, load in enumerate(held.sizes) if load + size <= average]
            tightest = max(fitting, key=lambda server: (held.sizes[server], -server), default=None)
            held.add(_least_loaded(held) if tightest is None else tightest, size)
    return held.assignment


def _least_loaded(held: _Servers) -> int:
    return held.least(lambda server: held.sizes[server])


def _cut(held: _Servers, size: Fraction, piece: Fraction) -> None:
    while size > 0:
        part = min(size, piece)
        held.add(_least_loaded(held), part)
        size -= part


def mxnet(blocks: Sequence[int], servers: int, streams: Streams) -> Assignment:
    """The rule of MXNet: blocks below a million parameters to a random server, others evenly over all."""
    held = _Servers(servers)
    chosen = streams.generator("mxnet").integers(0, servers, len(blocks)).tolist()
    for size, server in zip(map(Fraction, blocks), chosen, strict=True):
        if size < MXNET_WHOLE:
            held.add(server, size)
        else:
            for each in range(servers):
                held.add(each, size / servers)
    return held.assignment


def tensorflow(blocks: Sequence[int], servers: int) -> Assignment:
    """The rule of TensorFlow: whole blocks in turn."""
    held = _Servers(servers)
    for position, size in enumerate(map(Fraction, blocks)):
        held.add(position % servers, size)
    return held.assignment
