"""Queries of a policy to all sites: arrays in, arrays out. The kind of the jobs answers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.engine.placements import State


@dataclass(frozen=True, slots=True)
class Query:
    """Question to all sites at one instant. Asking changes nothing."""

    question: str
    now_us: int
    arrays: Mapping[str, np.ndarray]
    """Arguments by name."""


def join(answers: Sequence[State]) -> State:
    """The answers of all sites, in server order, as one."""
    return {name: np.concatenate([one[name] for one in answers]) for name in answers[0]}
