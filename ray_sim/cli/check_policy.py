"""`ray-sim check-policy`: run the contract suite on a policy."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Exit, Option

from ray_sim.cli.console import print_json, print_line, say
from ray_sim.cli.options import Json, Params


def check_policy(
    ref: Annotated[str, Argument(metavar="MODULE:CLASS", help="Your own policy, or the name of a policy.")],
    params: Params = None,
    actors: Annotated[
        bool, Option("--actors", help="Also run the sites in Ray actors; starts Ray and ends it.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Test a policy: feasible decisions, the same results again, no use of hidden columns, restorable.

    The policy runs in a process of its own, which it may crash; what it prints goes to standard error.

    Example: ray-sim check-policy mypolicy:ShortestFirst
    """
    from ray_sim.contract.outcome import Verdict
    from ray_sim.experiments.policy_check import policy_check

    outcomes = []
    with policy_check(ref, params or [], actors=actors, announce=say) as check:
        widths = max(map(len, check.names)), max(map(len, Verdict))
        if not json_output:
            print_line(("check", "result", "detail"), widths)
        for outcome in check.outcomes():
            outcomes.append(outcome)
            if not json_output:
                result = "FAILED" if outcome.failed else outcome.result
                print_line((outcome.name, result, outcome.detail), widths)
    if json_output:
        print_json([outcome.to_dict() for outcome in outcomes])
    if any(outcome.failed for outcome in outcomes):
        raise Exit(1)
