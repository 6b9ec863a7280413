"""Sites: any number gives the same run, requests are numbered, and their states can travel."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.fleet import LocalFleet
from ray_sim.engine.holdings import State
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.site import Commands, Site
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError, RunFailedError
from ray_sim.model.result import RunResult
from ray_sim.model.units import NEVER_US, IntArray
from tests.random_worlds import PolicyChoice, policies, worlds
from tests.scripted import scripted
from tests.test_policies import FewestChunks, chunked
from tests.worlds import Job, changes_of, fingerprint, replay, world_of

few = settings(max_examples=40)


def through_bytes(state: Mapping[str, np.ndarray]) -> State:
    """The state as another process would get it; nothing is pickled."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(state))
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


class Travelling:
    """A fleet whose sites are all replaced by copies made from their states before every request."""

    def __init__(self, world: World, sites: int) -> None:
        self._world, self._sites = world, sites
        self._fleet = LocalFleet(world, sites)

    def _travel(self) -> LocalFleet:
        state = through_bytes(self._fleet.state())
        self._fleet = LocalFleet(self._world, self._sites)
        self._fleet.restore(state)
        return self._fleet

    @property
    def next_us(self) -> int:
        return self._travel().next_us

    def collect(self, now_us: int) -> IntArray:
        return self._travel().collect(now_us)

    def command(self, now_us: int, commands: Commands) -> None:
        self._travel().command(now_us, commands)

    def state(self) -> State:
        return self._travel().state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._fleet.restore(state)
"""
"""
