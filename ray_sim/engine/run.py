"""One run from start to end, by whichever loop may be taken."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ray_sim.engine.compiled import Progress, run_compiled, why_general
from ray_sim.engine.contract import GrantedWorld, Policy
from ray_sim.engine.fleet import LocalFleet
from ray_sim.engine.result import build_result
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.model.errors import RaySimError, RunFailedError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams

Loop = Literal["auto", "general"]

_DECISIONS_PER_REPORT = 5_000


def run_world(
    world: World,
    policy: Policy,
    *,
    seed: int = 0,
    sites: int = 1,
    loop: Loop = "auto",
    trim: Trim | None = None,
    progress: Progress | None = None,
) -> RunResult:
    """Run a policy to the end.

    ``loop="general"`` forbids the compiled loop, which is taken where it does the same; the result
    tells which ran and why. `trim` says which jobs the summary counts.

    Raises
    ------
    InvalidScenarioError : `trim` counts no job
    RunFailedError : the policy failed, or took a decision that the world forbids
    """
    if trim is not None:
        trim.window_us(world.table.submit_us)  # complains before the work, not after it
    reason = "asked for" if loop == "general" else why_general(world, policy, sites=sites)
    if reason is None:
        granted = GrantedWorld(world, policy.sees, policy.name)
        policy.start(granted, Streams(seed))
        order = policy.order(granted)
        assert order is not None
        return build_result(world, run_compiled(world, order, progress), trim)
    return run_general(world, policy, reason, seed=seed, sites=sites, trim=trim, progress=progress)


def run_general(
    world: World,
    policy: Policy,
    reason: str,
    *,
    seed: int,
    sites: int,
    trim: Trim | None,
    progress: Progress | None,
) -> RunResult:
    """The loop of the step-by-step interface, timed."""
    simulation = Simulation(world, policy, seed=seed, fleet=LocalFleet(world, sites))
    with _named_failures(policy):
        policy.start(simulation.world, simulation.streams)
    seconds: list[float] = []
    while (view := simulation.advance()) is not None:
        begin = time.perf_counter()
        with _named_failures(policy):
            decision = policy.decide(view)
        seconds.append(time.perf_counter() - begin)
        simulation.apply(decision)
        if progress is not None and len(seconds) % _DECISIONS_PER_REPORT == 0:
            progress(simulation.ended_jobs, len(world.table))
    return simulation.result(trim, loop_reason=reason, decision_seconds=seconds)


@contextmanager
def _named_failures(policy: Policy) -> Iterator[None]:
    """A bug in a policy, perhaps a user's, as one of our errors that says where it is."""
    try:
        yield
    except RaySimError:
        raise
    except Exception as failure:  # whatever a policy may do wrong
        place = traceback.extract_tb(failure.__traceback__)[-1]
        raise RunFailedError(
            f"policy {policy.name or type(policy).__name__} failed: {type(failure).__name__}: {failure} "
            f"({place.filename}, line {place.lineno}, in {place.name})"
        ) from failure
