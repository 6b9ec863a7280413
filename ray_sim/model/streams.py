"""Random streams keyed by seed, purpose and entity; the draws of one stream do not depend on other draws."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import FloatArray, IntArray

SEEDS = 2**63
"""Seeds are whole numbers from 0 to `SEEDS` - 1."""


@dataclass(frozen=True, slots=True)
class Streams:
    """All random numbers of one run. A stream is stateless: the same request gives the same draws.

    Raises
    ------
    InvalidInputError : the seed is not a whole number from 0 to `SEEDS` - 1
    """

    seed: int

    def __post_init__(self) -> None:
        if not _is_seed(self.seed):
            raise InvalidInputError(
                f"seed: must be a whole number, at least 0, below 2^63, got {self.seed!r}"
            )

    def generator(self, purpose: str, *entity: int) -> np.random.Generator:
        """Random generator of ``purpose`` for one entity, e.g. ``("parameter-server", job, slot)``.

        The purpose enters by its CRC-32, which is equal in every process.
        """
        key = (zlib.crc32(purpose.encode()), *entity)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))

    def uniforms(self, purpose: str, *entities: IntArray) -> FloatArray:
        """First number in [0, 1) of the streams of many entities; a million take milliseconds.

        Parameters
        ----------
        entities : arrays of equal length that together identify an entity per element

        Returns
        -------
        one number per entity, independent of the other entities; multiples of 2^-53
        """
        numbers: FloatArray = (self.states(purpose, *entities) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return numbers

    def states(self, purpose: str, *entities: IntArray) -> npt.NDArray[np.uint64]:
        """States of the generators of `uniforms`; `ray_sim.kernels.planning.random_bits` adds entities."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=(zlib.crc32(purpose.encode()),))
        state = np.full(len(entities[0]), sequence.generate_state(1, np.uint64)[0])
        for part in entities:
            state = _mixed(state ^ _mixed(part.astype(np.uint64) + _GOLDEN))
        return state


def _is_seed(given: object) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool) and 0 <= int(given) < SEEDS


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Finaliser of SplitMix64 (Steele, Lea and Flood 2014): every bit depends on every bit."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: npt.NDArray[np.uint64] = bits ^ (bits >> np.uint64(31))
    return mixed


def text_entities(texts: Iterable[str]) -> IntArray:
    """(N,) numbers by which texts, such as job ids, identify entities of `Streams.uniforms`.

    A number is 64 bits of the BLAKE2b hash of its text, equal in every process. The probability that two of a
    million different texts share a number is 3e-8.
    """
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
