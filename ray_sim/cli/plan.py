"""`ray-sim plan`: how many servers, which mix of them or which policies meet a goal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ray_sim.cli.console import (
    announcer,
    exit_unless,
    print_json,
    print_page_table,
    print_rows,
    progress,
    say_failures,
    say_stopped,
)
from ray_sim.cli.options import Address, Json, MaxInFlight, Results, Resume, takes_scenario
from ray_sim.interruption import interruptible
from ray_sim.model.errors import InvalidScenarioError

if TYPE_CHECKING:
    from ray_sim.experiments.capacity.report import PlanReport
    from ray_sim.experiments.scenario import Scenario


@takes_scenario("ray-sim plan", without=("label", "audit", "audit_jobs", "fleet", "sites"))
def plan(
    goal: Annotated[
        list[str],
        Option(
            "--goal", metavar="METRIC<X", help="Limit, such as 'p95_jct_s<7200' or '<0.5 x now'; quote it."
        ),
    ],
    vary: Annotated[
        list[str],
        Option(
            "--vary",
            metavar="KEY=VALUES",
            help="NAME.count=FROM:TO for an entry of the cluster file, or policy=A,B; repeatable.",
        ),
    ],
    price: Annotated[
        list[str] | None,
        Option("--price", metavar="NAME=X", help="Price of a server [that in the file, else 1]; repeatable."),
    ] = None,
    seeds: Annotated[int, Option(min=1, max=100_000, help="Seeds, common to all runs.")] = 5,
    *,
    scenario: Scenario,
    out: Results = None,
    address: Address = "local",
    resume: Resume = False,
    max_in_flight: MaxInFlight = None,
    json_output: Json = False,
) -> None:
    """Find the cheapest servers, or the policies, with which a scenario meets a goal.

    Example: ray-sim plan jobs/plan.yaml --goal "p95_jct_s<7200" --vary servers.count=10:200
    """
    from ray_sim.experiments.capacity.evaluation import RunOptions
    from ray_sim.experiments.capacity.goal import parse_goal
    from ray_sim.experiments.capacity.plan import run_plan
    from ray_sim.experiments.capacity.request import PlanRequest, parse_choices

    if len(goal) > 1:
        raise InvalidScenarioError(f"--goal: a plan has one goal, got {len(goal)}: {', '.join(goal)}")
    choices = parse_choices(vary, price or [], scenario.cluster)
    request = PlanRequest(scenario, parse_goal(goal[0]), choices, seeds)
    announce = announcer(quiet=json_output)
    with interruptible() as interruption, progress("plan", quiet=json_output) as report:
        options = RunOptions(address, resume, max_in_flight, report, interruption.asked, announce)
        ended = run_plan(request, out, options)
    if json_output:
        print_json(ended.to_dict())
    else:
        _print(ended)
    exit_unless(ended.ok, ended.sweep, interruption)


def _print(report: PlanReport) -> None:
    """Print what was evaluated, what each policy needs, what the bounds allow, and failures."""
    from ray_sim.experiments.capacity.report import answers, points_table

    if any(plan.points for plan in report.plans):
        title = f"{report.request.goal}: means over seeds, 95 % intervals"
        print_page_table(points_table(report), title)
        sys.stdout.write("\n")
    print_rows(answers(report))
    if report.sweep is None:
        return
    say_failures(report.sweep)
    say_stopped(report.sweep)
