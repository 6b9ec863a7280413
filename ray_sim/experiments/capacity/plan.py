"""Plan: the cheapest servers with which each policy meets a goal, and what no policy could do with fewer."""

from __future__ import annotations

import math
from pathlib import Path

from ray_sim.experiments.capacity.evaluation import PlanEndedError, PlanRuns, RunOptions
from ray_sim.experiments.capacity.exclusions import Exclusions
from ray_sim.experiments.capacity.policy_search import PolicySearch
from ray_sim.experiments.capacity.proof import Proofs
from ray_sim.experiments.capacity.report import PlanReport, PolicyPlan
from ray_sim.experiments.capacity.request import PlanRequest
from ray_sim.experiments.capacity.search import cheapest
from ray_sim.experiments.fanout import check_address
from ray_sim.experiments.rehearsal import Rehearsal
from ray_sim.experiments.results.result_files import json_bytes
from ray_sim.experiments.run_identity import SHORT, HashedInputs
from workloads.files import refuse_url, replacing

PLAN_FILE = "plan.json"
"""Report in the directory of the results."""


def run_plan(
    request: PlanRequest, directory: Path | None = None, options: RunOptions | None = None
) -> PlanReport:
    """Find the cheapest servers with which each policy meets the goal, and the cheapest that bounds allow.

    A run that fails ends the plan, and the report has what is known so far.

    Parameters
    ----------
    directory : of the results; by default ``results/plan-HASH`` of the scenario

    Raises
    ------
    InvalidInputError : the scenario or the choices are invalid, or the directory is not one for this plan
    """
    options = options or RunOptions()
    check_address(options.address)
    inputs = HashedInputs()
    name = f"plan-{_world_hash(request, inputs)[:SHORT]}"
    directory = directory or Path("results") / name
    refuse_url(directory)
    _rehearse(request, inputs)
    runs = PlanRuns(request, name, directory, inputs, options)
    seeds = list(request.seeds)[: None if request.scenario.workload.uses_seed else 1]
    options.announce("bounding what any policy can reach")
    exclusions = Exclusions(request, Proofs(request, seeds, inputs))
    mixes = request.choices.mixes()
    least = cheapest(mixes, lambda mix: not exclusions.excluded(mix))
    allowed = [mix for mix in mixes if not exclusions.implied(mix)]
    assumed = _may_assume_monotony(request, inputs)
    plans: list[PolicyPlan] = []
    complete = True
    with runs:
        for policy in request.policies:
            search = PolicySearch(request, policy, runs, exclusions)
            try:
                search.search(allowed, assumed=assumed)
            except PlanEndedError:
                complete = False
            plans.append(search.result())
            if not complete:
                break
    report = PlanReport(
        request=request,
        directory=directory,
        plans=tuple(sorted(plans, key=_cost)),
        least=least,
        no_proof=exclusions.reason,
        complete=complete,
        sweep=runs.report,
    )
    directory.mkdir(parents=True, exist_ok=True)
    with replacing(directory / PLAN_FILE) as temporary:
        temporary.write_bytes(json_bytes(report.to_dict()))
    return report


def _world_hash(request: PlanRequest, inputs: HashedInputs) -> str:
    """Hash of everything in the scenario but its policy, so that plans of one world share their runs."""
    world = request.scenario.model_copy(update={"policy": "fifo", "params": {}})
    return inputs.identify(world).scenario_hash


def _cost(plan: PolicyPlan) -> tuple[float, float]:
    """Order of policies: by the price of the servers they need, then by the metric there."""
    return (math.inf, 0.0) if plan.best is None else (plan.best.price, plan.best.mean)


def _rehearse(request: PlanRequest, inputs: HashedInputs) -> None:
    """Raise the errors that the runs with the most servers would raise at their start."""
    rehearsal = Rehearsal(inputs)
    for policy in request.policies:
        rehearsal.set_up(request.at(policy, request.most))


def _may_assume_monotony(request: PlanRequest, inputs: HashedInputs) -> bool:
    """Whether more servers may be assumed not to make the metric worse: they are all equally fast."""
    speed = inputs.cluster(request.cluster(request.most)).speed
    return request.goal.helped_by_servers and bool((speed == speed[0]).all())
