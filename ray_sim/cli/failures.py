"""`ray-sim failures`: draw random failures of servers."""

from __future__ import annotations

from typing import Annotated

import typer

from ray_sim.cli.options import Json, Out


def failures(
    cluster: Annotated[str, typer.Argument(help="Bundled cluster, or its YAML or CSV file.")],
    out: Out,
    mtbf_s: Annotated[
        float, typer.Option("--mtbf-s", help="Mean seconds from a server's repair to its next failure.")
    ],
    repair_s: Annotated[float, typer.Option("--repair-s", help="Mean seconds of a repair.")],
    until_s: Annotated[float, typer.Option("--until-s", help="No failure at or after this second.")],
    from_s: Annotated[float, typer.Option("--from-s", help="No failure before this second.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    json_output: Json = False,
) -> None:
    """Draw random failures of a cluster's servers, for -w availability=FILE.

    Times between failures and of repairs are exponential, in seconds of the workload's time.

    Example: ray-sim failures pool-368 --mtbf-s 1e6 --repair-s 14400 --until-s 2.5e6 -o failures.csv
    """
    from ray_sim.cli.console import print_json, print_rows
    from ray_sim.experiments.inputs.cluster_file import load_cluster
    from ray_sim.experiments.inputs.server_changes import draw_failures, write_failures

    servers = load_cluster(cluster)
    drawn = draw_failures(servers, mtbf_s, repair_s, from_s, until_s, seed)
    write_failures(out, servers, drawn)
    facts = {
        "availability": str(out),
        "servers": len(servers),
        "failures": int((~drawn.up).sum()),
        "seed": seed,
    }
    if json_output:
        print_json(facts)
    else:
        print_rows(facts.items())
