"""`ray-sim check-policy`: run the contract suite on a policy."""

from __future__ import annotations

from typing import Annotated

import typer

from ray_sim.cli.options import Json, Params


def check_policy(
    ref: Annotated[
        str, typer.Argument(metavar="MODULE:CLASS", help="Your own policy, or the name of a policy.")
    ],
    params: Params = None,
    actors: Annotated[
        bool, typer.Option("--actors", help="Also run the sites in Ray actors; starts Ray and ends it.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Test a policy: feasible decisions, the same results again, no use of hidden columns, restorable.

    Example: ray-sim check-policy mypolicy:ShortestFirst
    """
    from contextlib import nullcontext

    from ray_sim.cli.console import print_json, print_table
    from ray_sim.contract.suite import check_policy as check
    from ray_sim.experiments.fanout import cluster
    from ray_sim.experiments.scenario import key_values

    with cluster("local") if actors else nullcontext():
        outcomes = check(ref, key_values(params or [], "-p"), actors=actors)
    if json_output:
        print_json([outcome.to_dict() for outcome in outcomes])
    else:
        print_table(
            ["check", "result", "detail"],
            [
                (each.name, each.result.value if not each.failed else "FAILED", each.detail)
                for each in outcomes
            ],
        )
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(1)
