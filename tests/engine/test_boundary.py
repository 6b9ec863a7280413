"""What a policy does to all that it can reach changes neither the run nor what the caller gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ray_sim.contract.chunked_worlds import failing_chunks
from ray_sim.contract.elastic_worlds import failing_bounded, failing_elastic
from ray_sim.contract.reachable_values import values_within
from ray_sim.contract.rigid_worlds import failing_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.model.errors import RaySimError
from ray_sim.policies.registry import create_policy
from tests.worlds import fingerprint

WORLDS: dict[str, Callable[[], World]] = {
    "las": lambda: failing_world(20),
    "a_online": lambda: failing_chunks(20),
    "optimus": lambda: failing_elastic(15),
    "pd_ors": lambda: failing_bounded(10),
}
"""A policy for each kind of world, which declares most that is to be seen there."""


def arrays_within(value: object, name: str) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays with the expressions that lead to them, e.g. ``world.cluster.capacity``."""
    for path, found in values_within(value, name):
        if isinstance(found, np.ndarray):
            yield path, found


def of_inputs(world: World) -> dict[str, bytes]:
    """Every array of the world, those of the caller's table and cluster among them."""
    return {name: array.tobytes() for name, array in arrays_within(world, "world")}


def answers(world: Any, view: Any) -> Iterator[tuple[str, np.ndarray]]:
    """What methods return, by arguments as generous as they take."""
    jobs = np.arange(view.arrivals)
    n = len(jobs)
    zeros = np.zeros(2 * n, np.int64)
    alone = Rows(2 * np.arange(n + 1), zeros, np.arange(2 * n) % 2, zeros + 1)
    calls: dict[str, Callable[[], object]] = {
        "chunk_us": lambda: world.chunk_us(jobs, np.zeros_like(jobs)),
        "upload_us": lambda: world.upload_us(jobs, np.zeros_like(jobs)),
        "cloud_serves": lambda: world.cloud_serves(slice(None)),  # a live view
        "trial_speed": lambda: world.trial_speed(jobs, alone),
        "speed_alone": lambda: world.speed_alone(jobs, alone),
        "longest_sample_s": lambda: world.longest_sample_s(
            jobs, jobs * 0 + 1, jobs * 0 + 1, np.arange(1), on_one_server=False
        ),
        "gang_gpus": world.gang_gpus,
        "service_rate": world.service_rate,
        "service": lambda: world.service("pooled"),
        "first_start_us": lambda: view.first_start_us(slice(None)),
        "last_stop_us": lambda: view.last_stop_us(slice(None)),
        "last_start_us": lambda: view.last_start_us(jobs),
        "waited_us": lambda: view.waited_us(jobs),
        "slowdown": lambda: view.slowdown(slice(None)),
        "executed_us": lambda: view.executed_us(jobs),
        "work_left": lambda: view.work_left(jobs),
        "samples_per_s": lambda: view.samples_per_s(jobs),
        "losses": lambda: view.losses(jobs, np.ones_like(jobs)),
        "pause_left_us": lambda: view.pause_left_us(jobs),
        "rows_of": lambda: view.placements.rows_of(jobs),
        "undispatched": lambda: view.undispatched(jobs),
        "betas": lambda: view.betas()[:],
        "least_loaded": lambda: view.least_loaded(np.array([0]), np.array([99])),
        "chunk_time_left_us": lambda: view.chunk_time_left_us(jobs),
    }
    for name, call in calls.items():
        try:
            answer = call()
        except (RaySimError, AttributeError):  # not granted, or not in this kind of world
            continue
        yield from arrays_within(answer, name)


def spoil(arrays: Iterator[tuple[str, np.ndarray]]) -> list[str]:
    """Write to each array that lets it; returns the names of those that do not."""
    refused = []
    for name, array in arrays:
        if not array.flags.writeable:
            refused.append(name)
            continue
        array[...] = np.array(77).astype(array.dtype)
    return refused


class Vandal(Policy):
    """Decides as another policy does, and writes to all it can reach before."""

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        for name in ("wake_on", "sees", "slotted", "schedules", "bounded", "uses_seed", "name"):
            setattr(self, name, getattr(inner, name))
        for name in ("timeline_columns", "counts", "figures", "warnings"):
            setattr(self, name, getattr(inner, name))
        self.refused: set[str] = set()

    def start(self, world, streams):  # type: ignore[no-untyped-def]
        self.world = world
        self.refused |= set(spoil(arrays_within(world, "world")))
        self.inner.start(world, streams)

    def decide(self, view):  # type: ignore[no-untyped-def]
        self.refused |= set(spoil(arrays_within(view, "view")))
        spoil(answers(self.world, view))
        return self.inner.decide(view)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_a_policy_that_writes_to_all_it_can_reach_changes_nothing(name: str) -> None:
    world = WORLDS[name]()
    before = of_inputs(world)
    honest = fingerprint(run_world(world, create_policy(name), loop="general"))
    vandal = Vandal(create_policy(name))
    assert fingerprint(run_world(world, vandal, loop="general")) == honest
    assert of_inputs(world) == before
    assert {"world.cluster.capacity", "world.cluster.speed", "world.jobs.submit_us"} <= vandal.refused
    assert {
        "view.placements.used",
        "view.placements.free",
        "view.arrived",
        "view.available",
    } <= vandal.refused


@pytest.mark.parametrize("name", WORLDS)
def test_a_run_neither_changes_nor_freezes_the_arrays_of_its_caller(name: str) -> None:
    world = WORLDS[name]()
    before = of_inputs(world)
    flags = {key: array.flags.writeable for key, array in arrays_within(world, "world")}
    run_world(world, create_policy(name))
    assert of_inputs(world) == before
    assert {key: array.flags.writeable for key, array in arrays_within(world, "world")} == flags


def test_only_fresh_arrays_can_be_written_to() -> None:
    for name, make in WORLDS.items():
        world, policy = make(), create_policy(name)
        simulation = Simulation(world, policy)
        policy.start(simulation.world, simulation.streams)
        view = simulation.advance()
        assert view is not None
        for root, of in (("world", simulation.world), ("view", view)):
            first, again = (dict(arrays_within(of, root)) for _ in range(2))
            for path, array in first.items():
                assert not (array.flags.writeable and np.shares_memory(array, again[path])), path
