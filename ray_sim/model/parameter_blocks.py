"""Assignment of a model's parameter blocks to parameter servers: PAA and the rules of two frameworks.

Source: Peng et al., Optimus, EuroSys 2018, section 5.3.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray

_SMALL = 100
"""Divisor: PAA assigns blocks below the average load / 100 by the number of requests."""
MXNET_WHOLE = 10**6
"""MXNet cuts blocks of at least this many parameters."""
MOST_BLOCKS = 2**14
"""Largest number of blocks of a model; more is treated as a mistake."""
MOST_PARAMETERS = 2**42
"""Largest number of parameters of a model; times 2^20 parameter servers it fits in 64 bits."""


EVEN = "even"
"""Equal slices instead of a rule for blocks."""
AS_WORLD = "world"
"""Value with which a policy uses the rule of the world."""


class BlockRule(StrEnum):
    """Rule that assigns blocks to parameter servers."""

    PAA = "paa"
    """Parameter assignment algorithm, see `paa`."""
    MXNET = "mxnet"
    """See `mxnet`."""
    TENSORFLOW = "tensorflow"
    """See `tensorflow`."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Load of each of P parameter servers. Each block, or piece of a block, is one request to its server."""

    loads: tuple[int, ...]
    """(P,) parameters times P, so that loads stay whole when a block is cut into P pieces."""
    requests: tuple[int, ...]
    """(P,)."""

    @property
    def sizes(self) -> tuple[Fraction, ...]:
        """(P,) parameters."""
        return tuple(Fraction(load, len(self.loads)) for load in self.loads)

    @property
    def size_difference(self) -> float:
        """Parameters of the fullest server minus those of the emptiest."""
        return (max(self.loads) - min(self.loads)) / len(self.loads)

    @property
    def skew(self) -> float:
        """Parameters of the fullest server over the average, in [1, P]; 1 without parameters."""
        total = sum(self.loads)
        return max(self.loads) * len(self.loads) / total if total else 1.0

    @property
    def total_requests(self) -> int:
        """Requests of one worker in one step."""
        return sum(self.requests)

    @property
    def request_difference(self) -> int:
        """Requests to the busiest server minus those to the least busy one."""
        return max(self.requests) - min(self.requests)


def assign(rule: BlockRule, blocks: Sequence[int], servers: int, streams: Streams) -> Assignment:
    """Assign the blocks by a rule.

    Parameters
    ----------
    blocks : parameters of each block, whole, >= 0, in the order of layers; at most `MOST_PARAMETERS` in total
    servers : >= 1
    streams : for `mxnet`; its draws are keyed by the blocks and the number of servers
    """
    match rule:
        case BlockRule.PAA:
            return paa(blocks, servers)
        case BlockRule.MXNET:
            return mxnet(blocks, servers, streams)
        case BlockRule.TENSORFLOW:
            return tensorflow(blocks, servers)


class _OpenAssignment:
    def __init__(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"parameter servers: must be at least 1, got {n}")
        self.loads: IntArray = np.zeros(n, dtype=np.int64)
        self.requests: IntArray = np.zeros(n, dtype=np.int64)

    def add(self, server: int, load: int) -> None:
        self.loads[server] += load
        self.requests[server] += 1

    @property
    def assignment(self) -> Assignment:
        return Assignment(tuple(self.loads.tolist()), tuple(self.requests.tolist()))


def paa(blocks: Sequence[int], servers: int) -> Assignment:
    """Parameter assignment algorithm: balances sizes with few requests.

    Blocks are assigned in decreasing size. A block above the average load is cut into pieces of that size,
    each for the least loaded server. A block of at least 1 % of the average goes to the server where it
    leaves the least room, or else to the least loaded one. Smaller blocks go to the server with the fewest
    requests. Ties: lowest server.

    Parameters
    ----------
    blocks, servers : as in `assign`
    """
    held = _OpenAssignment(servers)
    average = sum(blocks)  # times P, like all loads
    for load in sorted((size * servers for size in blocks), reverse=True):
        if load > average:
            _cut(held, load, average)
        elif load * _SMALL < average:
            held.add(int(held.requests.argmin()), load)
        else:
            fits = held.loads + load <= average
            tightest = int(np.where(fits, held.loads, -1).argmax())
            held.add(tightest if fits[tightest] else int(held.loads.argmin()), load)
    return held.assignment


def _cut(held: _OpenAssignment, load: int, piece: int) -> None:
    while load > 0:
        part = min(load, piece)
        held.add(int(held.loads.argmin()), part)
        load -= part


def mxnet(blocks: Sequence[int], servers: int, streams: Streams) -> Assignment:
    """MXNet's rule: blocks below a million parameters go to a random server, others are split over all.

    Parameters
    ----------
    blocks, servers, streams : as in `assign`
    """
    held = _OpenAssignment(servers)
    model = zlib.crc32(repr(tuple(blocks)).encode())
    chosen = streams.generator("mxnet", model, servers).integers(0, servers, len(blocks)).tolist()
    for size, server in zip(blocks, chosen, strict=True):
        if size < MXNET_WHOLE:
            held.add(server, size * servers)
        else:
            held.loads += size
            held.requests += 1
    return held.assignment


def tensorflow(blocks: Sequence[int], servers: int) -> Assignment:
    """TensorFlow's rule: whole blocks, round robin.

    Parameters
    ----------
    blocks, servers : as in `assign`
    """
    held = _OpenAssignment(servers)
    for position, size in enumerate(blocks):
        held.add(position % servers, size * servers)
    return held.assignment


_ITEM = re.compile(r"(?:([0-9]{1,6})\*)?(?:([0-9]{1,13})|\(([^()]*)\))(?: +|$)")


def parse_blocks(text: str) -> tuple[int, ...]:
    """Parse block sizes with spaces between, ``3*64`` for 64 64 64, ``2*(9 64)`` for 9 64 9 64.

    Raises
    ------
    ValueError : another form, a size or number below 1, or more than `MOST_BLOCKS` or `MOST_PARAMETERS`; the
        text says which
    """
    blocks = _parsed(text)
    if sum(blocks) > MOST_PARAMETERS:
        raise ValueError(f"has {sum(blocks):,} parameters, at most {MOST_PARAMETERS:,} are possible")
    return blocks


def _parsed(text: str) -> tuple[int, ...]:
    blocks: list[int] = []
    at = 0
    while at < len(text) or not blocks:
        item = _ITEM.match(text, at)
        if item is None:
            raise ValueError(f"must be {BLOCKS_FORM}; cannot read {text[at : at + 20]!r}")
        times, size, group = item.groups(default="")
        inside = _parsed(group) if size == "" else (int(size),)
        count = int(times or 1)
        if count < 1 or inside == (0,):
            found = item.group().strip()
            raise ValueError(f"must be at least 1 block of at least 1 parameter, not {found!r}")
        if len(blocks) + count * len(inside) > MOST_BLOCKS:
            raise ValueError(f"has more than {MOST_BLOCKS:,} blocks")
        blocks += inside * count
        at = item.end()
    return tuple(blocks)


BLOCKS_FORM = "whole numbers such as 9408 2*64 3*(4096 64), with spaces between"
"""Form that `parse_blocks` reads, for messages."""
