"""Random streams keyed by seed, purpose and entity, so that no draw can shift another."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Streams:
    """All randomness of one run. A stream has no position to save: ask again, get the same draws."""

    seed: int

    def generator(self, purpose: str, *entity: int) -> np.random.Generator:
        """The stream of ``purpose`` for one entity, e.g. ``("parameter-server", job, slot)``.

        The purpose enters by its CRC-32, which is the same in every process.
        """
        key = (zlib.crc32(purpose.encode()), *entity)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))
