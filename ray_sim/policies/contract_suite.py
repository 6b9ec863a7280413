"""The contract every policy must hold, also a user's own: `ray-sim check-policy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import polars as pl

from ray_sim.engine.actors import run_on_actors
from ray_sim.engine.compiled import why_general
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import run_world
from ray_sim.engine.shop import Partition
from ray_sim.engine.sight import COLUMNS, OBSERVATIONS
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.kernels.arrays import PARAMETER_SERVER, ROLE_NAMES, WORKER
from ray_sim.model.errors import RaySimError
from ray_sim.model.result import RunResult, Summary
from ray_sim.policies.contract_chunks import (
    EdgeCase,
    busy_chunks,
    chunk_edge_cases,
    failing_chunks,
    with_other_chunk_lengths,
)
from ray_sim.policies.contract_elastic import (
    bounded_edge_cases,
    busy_bounded,
    busy_elastic,
    elastic_edge_cases,
    failing_bounded,
    failing_elastic,
    with_other_training,
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
    subject = Subject(partial(create_policy, ref, params))
    clauses = CLAUSES | ACTOR_CLAUSES if actors else CLAUSES
    return [_check(name, clause, subject) for name, clause in clauses.items()]


def _check(name: str, clause: Callable[[Subject], str], subject: Subject) -> CheckOutcome:
    try:
        return CheckOutcome(name, True, clause(subject))
    except (_BrokenError, RaySimError) as failure:
        return CheckOutcome(name, False, str(failure))
    except Exception as failure:  # a user's policy may fail in any way, which the suite reports
        where = failure.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = "" if where is None else f" ({where.tb_frame.f_code.co_filename}, line {where.tb_lineno})"
        return CheckOutcome(name, False, f"{type(failure).__name__}: {failure}{line}")


class _Busy(Protocol):
    def __call__(self, *, seed: int, partition: Partition) -> World:
        """A crowded world."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Worlds of one kind of jobs."""

    busy: _Busy
    failing: Callable[[int], World]
    edge_cases: Callable[[], dict[str, EdgeCase]]
    with_other_run_times: Callable[[World], World]


_WHOLE = _Kind(
    busy=busy_world,
    failing=lambda seed: failing_world(seed=seed),
    edge_cases=lambda: {name: (world, True) for name, world in edge_cases().items()},
    with_other_run_times=with_other_durations,
)
_CHUNKED = _Kind(
    busy=busy_chunks,
    failing=lambda seed: failing_chunks(seed=seed),
    edge_cases=chunk_edge_cases,
    with_other_run_times=with_other_chunk_lengths,
)
_ELASTIC = _Kind(
    busy=busy_elastic,
    failing=lambda seed: failing_elastic(seed=seed),
    edge_cases=lambda: {name: (world, True) for name, world in elastic_edge_cases().items()},
    with_other_run_times=with_other_training,
)
_BOUNDED = _Kind(
    busy=busy_bounded,
    failing=lambda seed: failing_bounded(seed=seed),
    edge_cases=lambda: {name: (world, False) for name, world in bounded_edge_cases().items()},
    with_other_run_times=with_other_training,
)
_TELLS_RUN_TIMES = frozenset(
    {"duration_s", "work_left", "chunk_profile", "worker_load"}
    | {"training_profile", "training_speed", "losses"}
)


class Subject:
    """A policy under test, and the worlds it is tested on; what it does there by itself is run once."""

    def __init__(self, new: NewPolicy) -> None:
        self.new = new
        self._worlds: dict[tuple[object, ...], World] = {}
        self._results: dict[int, RunResult] = {}

    @property
    def kind(self) -> _Kind:
        """The kind of jobs that the policy is for."""
        policy = self.new()
        if policy.chunked:
            return _CHUNKED
        if policy.bounded:
            return _BOUNDED
        return _ELASTIC if policy.elastic else _WHOLE

    def busy(self, seed: int = 0, *, partition: Partition = "none") -> World:
        """A crowded world."""
        key = ("busy", seed, partition)
        if key not in self._worlds:
            self._worlds[key] = self.kind.busy(seed=seed, partition=partition)
        return self._worlds[key]

    def failing(self, seed: int = 0) -> World:
        """A world whose servers come and go."""
        key = ("failing", seed)
        if key not in self._worlds:
            self._worlds[key] = self.kind.failing(seed)
        return self._worlds[key]

    def result(self, world: World) -> RunResult:
        """Of the policy in one of these worlds, on one site."""
        if id(world) not in self._results:
            self._results[id(world)] = self.run(world)
        return self._results[id(world)]

    def run(self, world: World, *, sites: int = 1) -> RunResult:
        """Run it anew."""
        return run_world(world, self.new(), seed=0, sites=sites, loop="general")


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


def _declarations(subject: Subject) -> str:
    policy = subject.new()
    unknown = policy.sees - COLUMNS - OBSERVATIONS
    if unknown:
        known = ", ".join(sorted(COLUMNS | OBSERVATIONS))
        raise _BrokenError(f"sees names {', '.join(sorted(unknown))}; known: {known}")
    return f"sees {', '.join(sorted(policy.sees)) or 'arrivals and demands only'}"


def _feasible(subject: Subject) -> str:
    jobs, bounded, seeds = 0, False, range(3)
    crowded = [subject.busy(seed, partition=partition) for seed in seeds for partition in ("none", "vc")]
    failing = [subject.failing(seed) for seed in seeds]
    for world in (*crowded, *failing):
        summary = subject.result(world).summary
        if summary.unfinished and not world.bounded:
            raise _BrokenError(f"{summary.unfinished} of {summary.jobs} jobs were never finished")
        jobs += summary.jobs
        bounded |= world.bounded
    return (
        f"{jobs} jobs in {len(crowded)} crowded worlds and {len(failing)} with failing servers: "
        f"all possible, {'some cut off by the horizon' if bounded else 'every job ended'}"
    )


def _deterministic(subject: Subject) -> str:
    world = subject.busy()
    _same(subject.result(world), subject.run(world), "two runs with one seed")
    return "two runs with one seed are the same"


def _leaves_view_alone(subject: Subject) -> str:
    world, policy = subject.busy(), subject.new()
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


def _blind_to_columns(subject: Subject) -> str:
    private, sees = {"user", "priority", "vc"}, subject.new().sees
    if private & sees:
        return f"not checked: it declares {', '.join(sorted(private & sees))}"
    hidden = sorted(private)
    world = subject.busy()
    one, other = subject.result(world), subject.run(with_other_columns(world))
    columns = [name for name in one.jobs.columns if name != "vc"]
    if not one.jobs.select(columns).equals(other.jobs.select(columns)):
        raise _BrokenError(f"permuting {', '.join(hidden)}, which it does not declare, changes its decisions")
    return f"permuting {', '.join(hidden)} changes nothing"


def _blind_to_durations(subject: Subject) -> str:
    if subject.new().sees & _TELLS_RUN_TIMES:
        return "not checked: it declares run times"
    world = subject.busy()
    one = subject.result(world).events
    other = subject.run(subject.kind.with_other_run_times(world)).events
    first = min(events.filter(pl.col("event") == "finish")["time_s"].min() for events in (one, other))  # type: ignore[type-var]  # a time
    before = [events.filter(pl.col("time_s") < first) for events in (one, other)]
    if not before[0].equals(before[1]):
        raise _BrokenError("other run times change its decisions before any job has ended")
    return "other run times change nothing until a job has ended"


def _restorable(subject: Subject) -> str:
    for world in (subject.busy(partition="vc"), subject.failing()):
        whole = subject.result(world)
        for stop in (1, 17, 50):
            stopped = _stopped(world, subject.new(), stop)
            if stopped is None:
                break
            _same(whole, _go_on(world, subject.new(), stopped), f"restored after {stop} decisions")
    return "restored from state() after 1, 17 and 50 decisions it goes on alike"


def _stopped(world: World, policy: Policy, decisions: int) -> Simulation | None:
    """A run after so many decisions; None if it has fewer."""
    simulation = Simulation(world, policy)
    policy.start(simulation.world, simulation.streams)
    for _ in range(decisions):
        view = simulation.advance()
        if view is None:
            return None
        simulation.apply(policy.decide(view))
    return simulation


def _go_on(world: World, policy: Policy, stopped: Simulation) -> RunResult:
    simulation = Simulation(world, policy)
    policy.start(simulation.world, simulation.streams)
    simulation.restore(stopped.state())
    while (view := simulation.advance()) is not None:
        simulation.apply(policy.decide(view))
    return simulation.result()


def _same_on_sites(subject: Subject) -> str:
    for world in (subject.busy(), subject.failing()):
        whole = subject.result(world)
        for sites in (2, 7):
            _same(whole, subject.run(world, sites=sites), f"1 and {sites} sites")
    return "1, 2 and 7 sites give the same result"


def _same_on_actors(subject: Subject) -> str:
    world = subject.failing()
    on_actors = run_on_actors(world, subject.new, sites=2)
    _same(subject.result(world), on_actors, "one process and sites in Ray actors")
    return "2 sites in Ray actors give the same result"


def _survives_edge_cases(subject: Subject) -> str:
    worlds = subject.kind.edge_cases()
    for name, (world, can_end) in worlds.items():
        try:
            summary = subject.run(world).summary
        except RaySimError as failure:
            raise _BrokenError(f"{name}: {failure}") from failure
        if summary.unfinished and can_end:
            raise _BrokenError(f"{name}: {summary.unfinished} of {summary.jobs} jobs were never finished")
    return f"{', '.join(worlds)}: every job ended that could"


def _gives_what_is_asked_for(subject: Subject) -> str:
    policy = subject.new()
    if policy.chunked or policy.elastic:
        return "not checked: it is not for gangs"
    completed = 0
    for seed in range(3):
        for world in (busy_elastic(seed=seed), busy_elastic(seed=seed, partition="vc")):
            summary = _holds_whole_gangs(subject, world)
            if summary.unfinished:
                raise _BrokenError(f"{summary.unfinished} of {summary.jobs} jobs were never finished")
            completed += summary.completed
    return f"{completed} elastic jobs got the workers and parameter servers they ask for"


def _holds_whole_gangs(subject: Subject, world: World) -> Summary:
    """Run elastic jobs, each of which is to hold what it asks for or nothing."""
    assert world.training is not None
    result = subject.run(world)
    starts = result.events.filter(pl.col("event").is_in(["start", "move"]))
    held = starts.group_by("job_id", "time_s", "role").agg(pl.col("count").sum())
    asked = pl.DataFrame(
        {
            "job_id": np.repeat(world.table.job_id.to_numpy(), len(_GANG_ROLES)),
            "role": pl.Series(_GANG_ROLES * len(world.table), dtype=starts.schema["role"]),
            "asked": world.training.gang.ravel(),
        }
    )
    wrong = held.join(asked, on=["job_id", "role"]).filter(pl.col("count") != pl.col("asked"))
    if len(wrong):
        job, time_s, role, count, gang = wrong.sort("time_s", "job_id", "role").row(0)
        raise _BrokenError(f"at {time_s:g} s job {job} gets {count} {role} and asks for {gang}")
    return result.summary


def _loops_agree(subject: Subject) -> str:
    for world in (subject.busy(partition="vc"), subject.failing()):
        reason = why_general(world, subject.new(), sites=1)
        if reason is not None:
            return f"not checked: {reason}"
        _same(run_world(world, subject.new()), subject.result(world), "the compiled and the general loop")
    return "the compiled and the general loop give the same result"


_GANG_ROLES = [ROLE_NAMES[WORKER], ROLE_NAMES[PARAMETER_SERVER]]

CLAUSES: dict[str, Callable[[Subject], str]] = {
    "declarations": _declarations,
    "feasible": _feasible,
    "deterministic": _deterministic,
    "leaves the view alone": _leaves_view_alone,
    "blind to undeclared columns": _blind_to_columns,
    "blind to run times": _blind_to_durations,
    "restorable": _restorable,
    "same on any sites": _same_on_sites,
    "edge cases": _survives_edge_cases,
    "elastic jobs": _gives_what_is_asked_for,
    "loops agree": _loops_agree,
}

ACTOR_CLAUSES: dict[str, Callable[[Subject], str]] = {"same on Ray actors": _same_on_actors}
"""Clauses that need a running Ray."""
