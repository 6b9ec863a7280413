"""Audit of a run of announced jobs: benchmarks of welfare, truthfulness and rules.

A policy with prices is audited in a second run of it, in this process and with the same seed, which records
its births: nothing that an audit needs is kept in the run itself. Misreports are tried in further runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np

from ray_sim.certificates.announced_audit import RunIntervals, eviction_line, violations
from ray_sim.certificates.welfare import launch_plans, optimum_after_the_fact, ratio_to
from ray_sim.engine.contract import Policy
from ray_sim.engine.injectors import FAULT_PARAMETERS
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.kinds.announced.outcome import welfare_limits
from ray_sim.engine.kinds.announced.view import AnnouncedPolicy
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.misreport_audit import misreport_gains
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.figures import AnnouncedFigures, WelfareAudit
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.statement import NANO
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray
from ray_sim.model.welfare_audit import AuditRequest, MechanismRecord
from ray_sim.solvers.utility_optimum import SearchLimits


def check_audited(world: World) -> None:
    """Refuse an audit of other jobs than announced ones, and of jobs that faults may end."""
    if not isinstance(world.facts, AnnouncedFacts):
        raise InvalidScenarioError(
            "audit: is about announced jobs: set the world parameter truth=announced, or leave the audit out"
        )
    if world.faulty:
        given = ", ".join(name for name in FAULT_PARAMETERS if name in world.params)
        raise InvalidScenarioError(
            f"audit: optima and gains of misreports know no faults: leave out {given}, or the audit"
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
    limits = welfare_limits(facts, world.horizon_us, counted)
    optimum = optimum_after_the_fact(limits, SearchLimits(nodes=request.nodes))
    plans = None if facts.signal == "full" else launch_plans(limits)
    record, again = _recorded(world, new_policy(), seed)
    broken = [] if again is None or again.jobs.equals(result.jobs) else [_NOT_REPEATED]
    runs = RunIntervals.of(result, world.table.origin_us)
    gpus = facts.statements.reported.concurrency
    broken += violations(runs, result.jobs, gpus, facts.nodes, facts.slot_us, record)
    audit = WelfareAudit(
        jobs=len(limits.statements),
        optimum_ratio=ratio_to(optimum.optimum_bound, figures.welfare.welfare),
        launch_plan_bound=plans,
        launch_plan_ratio=ratio_to(plans, figures.welfare.welfare),
        violations=broken,
        **asdict(optimum),
    )
    if record is None:
        return audit
    chosen = np.arange(len(world.table)) if counted is None else np.flatnonzero(counted)
    sample = _sample(chosen, request, seed)
    regret, exact, error = misreport_gains(world, new_policy, sample, request, seed)
    bounds, relaxed = facts.bounds, record.relaxed / NANO
    declared = (bounds.concurrency, bounds.duration, bounds.delay)
    return replace(
        audit,
        eviction_line=eviction_line(facts.nodes, relaxed, *declared, record.least_failure),
        sampled_jobs=len(sample),
        exact_jobs=len(sample) if exact else 0,
        estimate_error=error,
        regret=regret,
        regret_bound=record.regret_bound,
    )


_NOT_REPEATED = "a second run with the same seed decides otherwise: what the audit recorded is of that run"


def _recorded(world: World, policy: Policy, seed: int) -> tuple[MechanismRecord | None, RunResult | None]:
    """Record of the policy in a second run, and its result; None for a policy that records nothing."""
    if not isinstance(policy, AnnouncedPolicy):
        return None, None
    audit = policy.audited(AnnouncedFacts.in_world(world).statements)
    if audit is None:
        return None, None
    again = run_world(world, policy, seed=seed)
    return audit.record(), again


def _sample(jobs: IntArray, request: AuditRequest, seed: int) -> IntArray:
    if len(jobs) <= request.jobs:
        return jobs
    return np.sort(Streams(seed).generator("audit-sample").choice(jobs, request.jobs, replace=False))
