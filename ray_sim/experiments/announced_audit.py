"""Audit of a run of announced jobs: benchmarks of welfare, truthfulness, loads and rules.

A policy with prices is audited in a second run of it, in this process and with the same seed, which records
its births: nothing that an audit needs is kept in the run itself. Misreports are tried in further runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ray_sim.certificates.announced_invariants import AnnouncedRules, violations
from ray_sim.certificates.announced_loads import NEVER, RunIntervals, eviction_line, load_figures
from ray_sim.certificates.welfare import launch_plans, optimum_after_the_fact, ratio_to
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.kinds.announced.outcome import welfare_limits
from ray_sim.engine.kinds.announced.policy import AnnouncedPolicy
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.misreport_audit import MisreportGains, misreport_gains
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.figures.announced import AnnouncedFigures, WelfareAudit
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.statement import NANO
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray
from ray_sim.model.welfare_audit import AuditedJobs, AuditRequest, MechanismRecord
from ray_sim.solvers.utility_optimum import SearchLimits


def check_audited(world: World) -> None:
    """Refuse an audit of other jobs than announced ones.

    Raises
    ------
    InvalidScenarioError : the world has other jobs
    """
    if not isinstance(world.facts, AnnouncedFacts):
        raise InvalidScenarioError(
            "audit: is about announced jobs: set the world parameter truth=announced, or leave the audit out"
        )


def audit_run(
    world: World,
    new_policy: Callable[[], Policy],
    result: RunResult,
    request: AuditRequest,
    *,
    seed: int = 0,
    trim: Trim | None = None,
) -> WelfareAudit:
    """Audit a finished run.

    Parameters
    ----------
    new_policy : makes the policy of the run, not yet started
    seed, trim : of the run

    Raises
    ------
    InvalidScenarioError : the world has other jobs than announced ones
    RunFailedError : the policy, or a solver, failed
    """
    check_audited(world)
    facts = AnnouncedFacts.in_world(world)
    counted = None if trim is None else trim.counted(world.table.submit_us)
    figures = result.summary.figures_as(AnnouncedFigures)
    assert figures is not None, "jobs are announced"
    welfare = figures.welfare.welfare
    limits = welfare_limits(facts, world.horizon_us, counted)
    optimum = optimum_after_the_fact(limits, SearchLimits(nodes=request.nodes))
    plans = None if facts.signal == "full" else launch_plans(limits)
    record, again = _recorded(world, new_policy(), seed)
    broken = [] if again is None or again.jobs.equals(result.jobs) else [_NOT_REPEATED]
    runs = RunIntervals.of(result, world.table.origin_us)
    broken += violations(_rules(facts), runs, result.jobs, record)
    rounds = _rounds(facts, runs, record)
    booked = None if record is None else _padded(record.booked, rounds)
    loads = load_figures(
        runs.load(facts.slot_us, rounds), facts.nodes, booked, 0 if record is None else record.relaxed
    )
    audit = WelfareAudit(
        jobs=len(limits.statements),
        optimum_kind=optimum.kind,
        optimum_bound=optimum.bound,
        optimum_ratio=ratio_to(optimum.bound, welfare),
        optimum=optimum.found,
        optimum_proven=optimum.proven,
        lp_bound=optimum.lp_bound,
        launch_plan_bound=plans,
        launch_plan_ratio=ratio_to(plans, welfare),
        load_max=loads.load_max,
        load_mean=loads.load_mean,
        booked_max=loads.booked_max,
        booked_mean=loads.booked_mean,
        load_excess=loads.load_excess,
        violations=broken,
    )
    if record is None:
        return audit
    chosen = np.arange(len(world.table)) if counted is None else np.flatnonzero(counted)
    gains = misreport_gains(world, new_policy, _sample(chosen, request, seed), request, seed)
    return _with_mechanism(audit, facts, record, gains)


_NOT_REPEATED = "a second run with the same seed decides otherwise: what the audit recorded is of that run"


def _recorded(world: World, policy: Policy, seed: int) -> tuple[MechanismRecord | None, RunResult | None]:
    """Record of the policy in a second run, and its result; None for a policy that records nothing."""
    if not isinstance(policy, AnnouncedPolicy):
        return None, None
    jobs = AnnouncedFacts.in_world(world).statements
    audit = policy.audited(AuditedJobs(jobs.true, jobs.arrival, jobs.duration, jobs.signal))
    if audit is None:
        return None, None
    again = run_world(world, policy, seed=seed)
    return audit.record(), again


def _sample(jobs: IntArray, request: AuditRequest, seed: int) -> IntArray:
    if len(jobs) <= request.jobs:
        return jobs
    return np.sort(Streams(seed).generator("audit-sample").choice(jobs, request.jobs, replace=False))


def _rules(facts: AnnouncedFacts) -> AnnouncedRules:
    jobs = facts.statements
    return AnnouncedRules(jobs.reported, jobs.arrival, jobs.signal, facts.nodes, facts.slot_us)


def _rounds(facts: AnnouncedFacts, runs: RunIntervals, record: MechanismRecord | None) -> int:
    """Rounds in which something may be held or booked."""
    ends = np.concatenate([runs.start[runs.start < NEVER] + facts.slot_us, runs.end[runs.end < NEVER]])
    held = int(ends.max(initial=0)) // facts.slot_us + 1
    return max(held, 0 if record is None else len(np.trim_zeros(record.booked, "b")))


def _padded(booked: IntArray, rounds: int) -> IntArray:
    padded = np.zeros(rounds, dtype=np.int64)
    padded[: len(booked)] = booked[:rounds]
    return padded


def _with_mechanism(
    audit: WelfareAudit, facts: AnnouncedFacts, record: MechanismRecord, gains: MisreportGains
) -> WelfareAudit:
    """The audit with the figures of a policy with prices."""
    bounds = facts.bounds
    line = eviction_line(
        facts.nodes,
        record.relaxed / NANO,
        bounds.concurrency,
        bounds.duration,
        bounds.delay,
        record.least_failure,
    )
    return replace(
        audit,
        eviction_line=line,
        sampled_jobs=gains.sampled_jobs,
        exact_jobs=gains.exact_jobs,
        estimate_error=gains.estimate_error,
        regret=gains.figures,
        regret_bound=record.regret_bound,
    )
