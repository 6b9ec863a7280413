"""The contract every policy must hold, also a user's own: `ray-sim check-policy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from ray_sim.engine.actors import run_on_actors
from ray_sim.engine.compiled import why_general
from ray_sim.engine.contract import COLUMNS, OBSERVATIONS, Policy
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import Partition, World
from ray_sim.model.errors import RaySimError
from ray_sim.model.result import RunResult
from ray_sim.policies.contract_chunks import (
    EdgeCase,
    busy_chunks,
    chunk_edge_cases,
    failing_chunks,
    with_other_chunk_lengths,
)
from ray_sim.policies.contract_worlds import (
    busy_world,
    edge_cases,
    failing_world,
    with_other_columns,
    with_other_durations,
)
from ray_sim.policies.registry import create_policy

NewPolicy = Callable[[], Policy]


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """One clause of the contract and whether the policy holds it."""

    name: str
    passed: bool
    detail: str

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {"name": self.name, "passed": self.passed, "detail": self.detail}


class _BrokenError(Exception):
    """A clause does not hold; the text says how."""


def check_policy(
    ref: str, params: Mapping[str, object] | None = None, *, actors: bool = False
) -> list[CheckOutcome]:
    """Run every clause against a policy, by name or `module:Class`.

    Parameters
    ----------
    actors : also on sites in Ray actors; Ray must run

    Raises
    ------
    InvalidInputError : the policy cannot be found or constructed
    """
    create_policy(ref, params)
    new = partial(create_policy, ref, params)
    clauses = CLAUSES | ACTOR_CLAUSES if actors else CLAUSES
    return [_check(name, clause, new) for name, clause in clauses.items()]


def _check(name: str, clause: Callable[[NewPolicy], str], new: NewPolicy) -> CheckOutcome:
    try:
        return CheckOutcome(name, True, clause(new))
    except (_BrokenError, RaySimError) as failure:
        return CheckOutcome(name, False, str(failure))
    except Exception as failure:  # a user's policy may fail in any way, which the suite reports
        where = failure.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = "" if where is None else f" ({where.tb_frame.f_code.co_filename}, line {where.tb_lineno})"
        return CheckOutcome(name, False, f"{type(failure).__name__}: {failure}{line}")


def _busy(new: NewPolicy, seed: int = 0, *, partition: Partition = "none") -> World:
    """A crowded world of the kind of jobs that the policy is for."""
    make = busy_chunks if new().chunked else busy_world
    return make(seed=seed, partition=partition)


def _failing(new: NewPolicy, seed: int = 0) -> list[World]:
    """Worlds whose servers come and go, of the kind the policy is for."""
    make = failing_chunks if new().chunked else failing_world
    return [make(seed=seed)]


def _edge_cases(new: NewPolicy) -> dict[str, EdgeCase]:
    if new().chunked:
        return chunk_edge_cases()
    return {name: (world, True) for name, world in edge_cases().items()}


def _run(new: NewPolicy, world: World, *, sites: int = 1, seed: int = 0) -> RunResult:
    return run_world(world, new(), seed=seed, sites=sites, loop="general")


def _same(a: RunResult, b: RunResult, what: str) -> None:
    for name in ("jobs", "events", "timeline"):
        one, other = getattr(a, name), getattr(b, name)
        if not one.equals(other):
            raise _BrokenError(f"{what}: {_first_difference(name, one, other)}")


def _first_difference(name: str, one: pl.DataFrame, other: pl.DataFrame) -> str:
    if len(one) != len(other):
        return f"{name} has {len(one)} rows and {len(other)} rows"
    for row, (a, b) in enumerate(zip(one.iter_rows(), other.iter_rows(), strict=True)):
        if a != b:
            columns = [c for c, x, y in zip(one.columns, a, b, strict=True) if x != y]
            return f"{name} row {row} ({a[0]}) differs in {', '.join(columns)}: {a} and {b}"
    return f"{name} differs"


def _declarations(new: NewPolicy) -> str:
    policy = new()
    unknown = policy.sees - COLUMNS - OBSERVATIONS
    if unknown:
        known = ", ".join(sorted(COLUMNS | OBSERVATIONS))
        raise _BrokenError(f"sees names {', '.join(sorted(unknown))}; known: {known}")
    return f"sees {', '.join(sorted(policy.sees)) or 'arrivals and demands only'}"


def _feasible(new: NewPolicy) -> str:
    jobs = 0
    for seed in range(3):
        for world in (_busy(new, seed), _busy(new, seed, partition="vc"), *_failing(new, seed)):
            summary = _run(new, world).summary
            if summary.unfinished:
                raise _BrokenError(f"{summary.unfinished} of {summary.jobs} jobs were never finished")
            jobs += summary.jobs
    return f"{jobs} jobs in 9 crowded worlds, 3 with failing servers: all possible, every job ended"


def _deterministic(new: NewPolicy) -> str:
    world = _busy(new)
    _same(_run(new, world), _run(new, world), "two runs with one seed")
    return "two runs with one seed are the same"


def _leaves_view_alone(new: NewPolicy) -> str:
    world, policy = _busy(new), new()
    simulation = Simulation(world, policy)
    policy.start(simulation.world, simulation.streams)
    while (view := simulation.advance()) is not None:
        before = {k: v for k, v in simulation.state().items() if not k.startswith("policy.")}
        decision = policy.decide(view)
        after = simulation.state()
        changed = [name for name, array in before.items() if not np.array_equal(array, after[name])]
        if changed:
            raise _BrokenError(f"at {view.now_us} us decide changed {', '.join(changed)}")
        simulation.apply(decision)
    return "decide changes nothing but the policy's own state"


def _blind_to_columns(new: NewPolicy) -> str:
    hidden = sorted({"user", "priority", "vc"} - new().sees)
    if len(hidden) < 3:
        return f"not checked: it declares {', '.join(sorted({'user', 'priority', 'vc'} & new().sees))}"
    world = _busy(new)
    one, other = _run(new, world), _run(new, with_other_columns(world))
    columns = [name for name in one.jobs.columns if name != "vc"]
    if not one.jobs.select(columns).equals(other.jobs.select(columns)):
        raise _BrokenError(f"permuting {', '.join(hidden)}, which it does not declare, changes its decisions")
    return f"permuting {', '.join(hidden)} changes nothing"


def _blind_to_durations(new: NewPolicy) -> str:
    if new().sees & {"duration_s", "work_left", "chunk_profile", "worker_load"}:
        return "not checked: it declares run times"
    world, lengthen = _busy(new), with_other_chunk_lengths if new().chunked else with_other_durations
    one, other = _run(new, world).events, _run(new, lengthen(world)).events
    first = min(events.filter(pl.col("event") == "finish")["time_s"].min() for events in (one, other))  # type: ignore[type-var]  # a time
    before = [events.filter(pl.col("time_s") < first) for events in (one, other)]
    if not before[0].equals(before[1]):
        raise _BrokenError("other run times change its decisions before any job has ended")
    return "other run times change nothing until a job has ended"


def _restorable(new: NewPolicy) -> str:
    for world in (_busy(new, partition="vc"), *_failing(new)):
        whole = _run(new, world)
        for stop in (1, 17, 50):
            policy = new()
            simulation = Simulation(world, policy)
            policy.start(simulation.world, simulation.streams)
            for _ in range(stop):
                view = simulation.advance()
                if view is None:
                    break
                simulation.apply(policy.decide(view))
            _same(whole, _go_on(world, new(), simulation), f"restored after {stop} decisions")
    return "restored from state() after 1, 17 and 50 decisions it goes on alike"


def _go_on(world: World, policy: Policy, stopped: Simulation) -> RunResult:
    simulation = Simulation(world, policy)
    policy.start(simulation.world, simulation.streams)
    simulation.restore(stopped.state())
    while (view := simulation.advance()) is not None:
        simulation.apply(policy.decide(view))
    return simulation.result()


def _same_on_sites(new: NewPolicy) -> str:
    for world in (_busy(new), *_failing(new)):
        whole = _run(new, world)
        for sites in (2, 7):
            _same(whole, _run(new, world, sites=sites), f"1 and {sites} sites")
    return "1, 2 and 7 sites give the same result"


def _same_on_actors(new: NewPolicy) -> str:
    for world in (_busy(new), *_failing(new)):
        _same(_run(new, world), run_on_actors(world, new, sites=2), "one process and sites in Ray actors")
    return "2 sites in Ray actors give the same result"


def _survives_edge_cases(new: NewPolicy) -> str:
    worlds = _edge_cases(new)
    for name, (world, can_end) in worlds.items():
        try:
            summary = _run(new, world).summary
        except RaySimError as failure:
            raise _BrokenError(f"{name}: {failure}") from failure
        if summary.unfinished and can_end:
            raise _BrokenError(f"{name}: {summary.unfinished} of {summary.jobs} jobs were never finished")
    return f"{', '.join(worlds)}: every job ended that could"


def _loops_agree(new: NewPolicy) -> str:
    for world in (_busy(new, partition="vc"), *_failing(new)):
        reason = why_general(world, new(), sites=1)
        if reason is not None:
            return f"not checked: {reason}"
        _same(run_world(world, new()), _run(new, world), "the compiled and the general loop")
    return "the compiled and the general loop give the same result"


CLAUSES: dict[str, Callable[[NewPolicy], str]] = {
    "declarations": _declarations,
    "feasible": _feasible,
    "deterministic": _deterministic,
    "leaves the view alone": _leaves_view_alone,
    "blind to undeclared columns": _blind_to_columns,
    "blind to run times": _blind_to_durations,
    "restorable": _restorable,
    "same on any sites": _same_on_sites,
    "edge cases": _survives_edge_cases,
    "loops agree": _loops_agree,
}

ACTOR_CLAUSES: dict[str, Callable[[NewPolicy], str]] = {"same on Ray actors": _same_on_actors}
"""Clauses that need a running Ray."""
