"""`ray-sim links`: draw spans in which servers' network interfaces are slow.

Every command that simulates reads the file by `-w links=FILE`; `experiments.inputs.server_changes` has its
format and the draw. Names of options and of facts in the JSON are public: scripts use them. Imports
inside the function keep the start of other commands fast.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ray_sim.cli.options import Json, Out


def links(
    cluster: Annotated[str, typer.Argument(help="Bundled cluster, or its YAML or CSV file.")],
    out: Out,
    every_s: Annotated[
        float, typer.Option("--every-s", help="Mean seconds from the end of a slow span to the next.")
    ],
    length_s: Annotated[float, typer.Option("--length-s", help="Mean seconds of a slow span.")],
    bandwidth: Annotated[float, typer.Option(help="Share of the nominal bandwidth in a slow span.")],
    until_s: Annotated[float, typer.Option("--until-s", help="No slow span begins at or after this second.")],
    from_s: Annotated[float, typer.Option("--from-s", help="No slow span begins before this second.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    json_output: Json = False,
) -> None:
    """Draw spans in which servers' network interfaces are slow, for -w links=FILE.

    Times between spans and their lengths are exponential, in seconds of the workload's time.

    Example: ray-sim links toy --every-s 86400 --length-s 3600 --bandwidth 0.1 --until-s 604800 -o links.csv
    """
    from ray_sim.cli.console import print_json, print_rows
    from ray_sim.experiments.inputs.cluster_file import load_cluster
    from ray_sim.experiments.inputs.server_changes import Spans, draw_links, write_links

    servers = load_cluster(cluster)
    drawn = draw_links(servers, Spans(every_s, length_s, from_s, until_s), bandwidth, seed)
    write_links(out, servers, drawn)
    facts = {
        "links": str(out),
        "servers": len(servers),
        "slow spans": len(drawn) // 2,  # each has a beginning and an end
        "bandwidth": bandwidth,
        "seed": seed,
    }
    if json_output:
        print_json(facts)
    else:
        print_rows(facts.items())
