"""The contract every policy must hold, also a user's own: `ray-sim check-policy`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import get_args

import numpy as np
import polars as pl

from ray_sim.contract.blindness import blind_to_columns, blind_to_run_times, blind_to_the_future
from ray_sim.contract.elastic_worlds import busy_elastic
from ray_sim.contract.outcome import BrokenError, CheckOutcome, NotCheckedError, Verdict
from ray_sim.contract.reachable_values import Watch
from ray_sim.contract.rigid_worlds import SHARED, TYPED
from ray_sim.contract.subject import Subject
from ray_sim.engine.actors.scheduler import run_on_actors
from ray_sim.engine.compiled import why_general
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.base import GANGS
from ray_sim.engine.kinds.registry import declarable
from ray_sim.engine.policy_calls import named_failures
from ray_sim.engine.run import GeneralRun, run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import LocalFleet
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, ROLE_NAMES, WORKER
from ray_sim.model.errors import RaySimError, RunFailedError, failure_text
from ray_sim.model.result import RunResult, Summary
from ray_sim.policies.registry import create_policy


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
    return list(outcomes(ref, params, actors=actors))


def outcomes(
    ref: str, params: Mapping[str, object] | None = None, *, actors: bool = False
) -> Iterator[CheckOutcome]:
    """Construct a policy, then check one clause per step; as `check_policy`."""
    create_policy(ref, params)
    subject = Subject(partial(create_policy, ref, params))
    return (check_clause(name, clause, subject) for name, clause in clauses(actors=actors).items())


def clauses(*, actors: bool = False) -> dict[str, Callable[[Subject], str]]:
    """Clauses in the order of their check, by name."""
    return CLAUSES | ACTOR_CLAUSES if actors else CLAUSES


def check_clause(name: str, clause: Callable[[Subject], str], subject: Subject) -> CheckOutcome:
    """Run one clause against a policy; the outcome reports whatever fails in it."""
    try:
        if subject.endless:
            raise NotCheckedError("its runs do not come to an end")
        return CheckOutcome(name, Verdict.PASSED, clause(subject))
    except NotCheckedError as reason:
        return CheckOutcome(name, Verdict.NOT_CHECKED, str(reason))
    except (BrokenError, RaySimError) as failure:
        return _failed(name, str(failure), _place_of(failure), subject)
    except KeyboardInterrupt:
        raise
    except BaseException as failure:  # a user's policy may fail in any way, which the suite reports
        where = failure.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = "" if where is None else f" ({where.tb_frame.f_code.co_filename}, line {where.tb_lineno})"
        return _failed(name, f"{failure_text(failure)}{line}", line, subject)


def _failed(name: str, text: str, place: str | None, subject: Subject) -> CheckOutcome:
    """A clause that failed; it tells nothing where the policy fails at a line at which it failed before."""
    first = subject.failed.setdefault(place or text, name)
    if first != name:
        return CheckOutcome(name, Verdict.NOT_CHECKED, f"the error of '{first}' comes first")
    return CheckOutcome(name, Verdict.FAILED, text)


def _place_of(failure: BaseException) -> str | None:
    """Line of the policy that led to a failure of a clause, see `RunFailedError`."""
    cause = failure.__cause__ if isinstance(failure, BrokenError) else failure
    return cause.place if isinstance(cause, RunFailedError) else None


def _same(a: RunResult, b: RunResult, what: str) -> None:
    for name in ("jobs", "events", "timeline"):
        one, other = getattr(a, name), getattr(b, name)
        if not one.equals(other):
            raise BrokenError(f"{what}: {_first_difference(name, one, other)}")


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
    grants = declarable()
    unknown = policy.sees - grants
    if unknown:
        known = ", ".join(sorted(grants))
        raise BrokenError(f"sees names {', '.join(sorted(unknown))}; known: {known}")
    return f"sees {', '.join(sorted(policy.sees)) or 'arrivals and demands only'}"


def _comes_to_an_end(subject: Subject) -> str:
    world = subject.busy()
    run = GeneralRun(world, subject.new(), seed=0, fleet=LocalFleet(world, 1))
    for decisions in range(MOST_DECISIONS):
        if not run.decide_once():
            return f"{len(world.table)} jobs take {decisions} decisions"
    subject.endless = True
    raise BrokenError(
        f"{len(world.table)} jobs are not done after {MOST_DECISIONS:,} decisions: does it ask to be asked "
        "again all the time (review_us)?"
    )


MOST_DECISIONS = 100_000
"""A policy that is asked once per event and slot takes hundreds in a contract world."""


def _feasible(subject: Subject) -> str:
    jobs, suspended, bounded, seeds = 0, 0, False, range(3)
    crowded = [subject.busy(seed, partition=partition) for seed in seeds for partition in ("none", "vc")]
    disturbed = [subject.disturbed(seed) for seed in seeds]
    for world in (*crowded, *disturbed):
        summary = subject.result(world).summary
        if summary.unfinished and not world.bounded:
            raise BrokenError(f"{summary.unfinished} of {summary.jobs} jobs were never finished")
        jobs += summary.jobs
        suspended += summary.preemptions
        bounded |= world.bounded
    return (
        f"{jobs} jobs in {len(crowded)} crowded worlds and {len(disturbed)} with {subject.kind.disturbance}: "
        f"all possible, {'some cut off by the horizon' if bounded else 'every job ended'}, "
        f"{suspended:,} suspensions by the policy"
    )


def _deterministic(subject: Subject) -> str:
    world = subject.busy()
    _same(subject.result(world), subject.run(world, books=False), "two runs with one seed")
    return "two runs with one seed are the same"


def _leaves_world_alone(subject: Subject) -> str:
    for partition in get_args(Partition):
        # Other clauses share the subject's worlds, which this one may find to be spoilt.
        _leaves_alone(subject.kind.busy(seed=0, partition=partition), subject.new())
    return "start, decide and what tells of the run change nothing but the policy's own state"


def _leaves_alone(world: World, policy: Policy) -> None:
    simulation, given = Simulation(world, policy), Watch(world, "world")
    before = simulation.state_of_world()

    def check(what: str) -> None:
        after = simulation.state_of_world()
        changed = [name for name, array in before.items() if not np.array_equal(array, after[name])]
        changed += given.changed()
        if changed:
            others = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
            raise BrokenError(f"{what} changed {', '.join(changed[:_MOST_NAMED])}{others}")

    with named_failures(policy):
        policy.start(simulation.world, simulation.streams)
    check("start")
    while (view := simulation.advance()) is not None:
        before = simulation.state_of_world()
        with named_failures(policy):
            decision = policy.decide(view)
        check(f"at {view.now_us} us decide")
        simulation.apply(decision)
    before = simulation.state_of_world()
    for method in ("counts", "figures", "warnings", "timeline_columns"):
        with named_failures(policy):
            getattr(policy, method)()
    check("counts, figures, warnings or timeline columns")


_MOST_NAMED = 10
"""Values that one message names."""


def _restorable(subject: Subject) -> str:
    for world in (subject.busy(partition="vc"), subject.disturbed()):
        whole = subject.result(world)
        for stop in (1, 17, 50):
            stopped = _stopped(world, subject.new(), stop)
            if stopped is None:
                break
            _same(whole, _go_on(world, subject.new(), stopped), f"restored after {stop} decisions")
    return "restored from state() after 1, 17 and 50 decisions it goes on alike"


def _stopped(world: World, policy: Policy, decisions: int) -> Simulation | None:
    """Run up to a number of decisions; None if the run has fewer."""
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
    for world in (subject.busy(), subject.disturbed()):
        whole = subject.result(world)
        for sites in (2, 7):
            _same(whole, subject.run(world, sites=sites, books=False), f"1 and {sites} sites")
    return "1, 2 and 7 sites give the same result"


def _same_on_actors(subject: Subject) -> str:
    world = subject.disturbed()
    on_actors = run_on_actors(world, subject.new, sites=2)
    _same(subject.result(world), on_actors, "one process and sites in Ray actors")
    return "2 sites in Ray actors give the same result"


def _survives_edge_cases(subject: Subject) -> str:
    worlds = subject.kind.edge_cases()
    policy = subject.new()
    for name, respected in ((TYPED, policy.respects_types), (SHARED, policy.respects_shares)):
        if not respected:
            worlds.pop(name, None)
    for name, (world, can_end) in worlds.items():
        try:
            summary = subject.run(world).summary
        except RaySimError as failure:
            remedy = "; or set respects_shares = False, and such worlds are refused" if name == SHARED else ""
            raise BrokenError(f"{name}: {failure}{remedy}") from failure
        if summary.unfinished and can_end:
            raise BrokenError(f"{name}: {summary.unfinished} of {summary.jobs} jobs were never finished")
    return f"{', '.join(worlds)}: every job ended that could"


def _gives_what_is_asked_for(subject: Subject) -> str:
    policy = subject.new()
    if policy.schedules != GANGS:
        raise NotCheckedError("it is not for gangs")
    completed = 0
    for seed in range(3):
        for world in (busy_elastic(seed=seed), busy_elastic(seed=seed, partition="vc")):
            summary = _holds_whole_gangs(subject, world)
            if summary.unfinished:
                raise BrokenError(f"{summary.unfinished} of {summary.jobs} jobs were never finished")
            completed += summary.completed
    return f"{completed} elastic jobs got the workers and parameter servers they ask for"


def _holds_whole_gangs(subject: Subject, world: World) -> Summary:
    """Run elastic jobs, each of which is to hold what it asks for or nothing."""
    result = subject.run(world)
    starts = result.events.filter(pl.col("event").is_in(["start", "move"]))
    held = starts.group_by("job_id", "time_s", "role").agg(pl.col("count").sum())
    asked = pl.DataFrame(
        {
            "job_id": np.repeat(world.table.job_id.to_numpy(), len(_GANG_ROLES)),
            "role": pl.Series(_GANG_ROLES * len(world.table), dtype=starts.schema["role"]),
            "asked": world.arrays.gang.ravel(),
        }
    )
    wrong = held.join(asked, on=["job_id", "role"]).filter(pl.col("count") != pl.col("asked"))
    if len(wrong):
        job, time_s, role, count, gang = wrong.sort("time_s", "job_id", "role").row(0)
        raise BrokenError(f"at {time_s:g} s job {job} gets {count} {role} and asks for {gang}")
    return result.summary


def _loops_agree(subject: Subject) -> str:
    for world in (subject.busy(partition="vc"), subject.disturbed()):
        reason = why_general(world, subject.new())
        if reason is not None:
            raise NotCheckedError(reason)
        _same(run_world(world, subject.new()), subject.result(world), "the compiled and the general loop")
    return "the compiled and the general loop give the same result"


_GANG_ROLES = [ROLE_NAMES[WORKER], ROLE_NAMES[PARAMETER_SERVER]]

CLAUSES: dict[str, Callable[[Subject], str]] = {
    "declarations": _declarations,
    "comes to an end": _comes_to_an_end,
    "leaves the world alone": _leaves_world_alone,
    "feasible": _feasible,
    "deterministic": _deterministic,
    "blind to undeclared columns": blind_to_columns,
    "blind to run times": blind_to_run_times,
    "blind to jobs to come": blind_to_the_future,
    "restorable": _restorable,
    "same on any sites": _same_on_sites,
    "edge cases": _survives_edge_cases,
    "elastic jobs": _gives_what_is_asked_for,
    "loops agree": _loops_agree,
}

ACTOR_CLAUSES: dict[str, Callable[[Subject], str]] = {"same on Ray actors": _same_on_actors}
"""Clauses that need a running Ray."""
