"""`ray-sim failures` and `links`: draw times in which servers are away, or their network is slow."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from ray_sim.cli.console import print_facts
from ray_sim.cli.options import DrawSeed, Json, Out, ServersOf


def failures(
    cluster: ServersOf,
    out: Out,
    mtbf_s: Annotated[
        float, Option("--mtbf-s", help="Mean seconds from a server's repair to its next failure.")
    ],
    repair_s: Annotated[float, Option("--repair-s", help="Mean seconds of a repair.")],
    until_s: Annotated[float, Option("--until-s", help="No failure at or after this second.")],
    from_s: Annotated[float, Option("--from-s", help="No failure before this second.")] = 0.0,
    seed: DrawSeed = 0,
    json_output: Json = False,
) -> None:
    """Draw random failures of a cluster's servers, for -w availability=FILE.

    Times between failures and of repairs are exponential, in seconds of the workload's time.

    Example: ray-sim failures pool-368 --mtbf-s 1e6 --repair-s 14400 --until-s 2.5e6 -o failures.csv
    """
    from ray_sim.experiments.inputs.cluster_file import load_cluster
    from ray_sim.experiments.inputs.server_changes import draw_failures, write_failures

    servers = load_cluster(cluster)
    drawn = draw_failures(servers, mtbf_s, repair_s, from_s, until_s, seed)
    write_failures(out, servers, drawn)
    drawn_failures = int((~drawn.up).sum())
    facts = {"availability": str(out), "servers": len(servers), "failures": drawn_failures, "seed": seed}
    print_facts(facts, as_json=json_output)


def links(
    cluster: ServersOf,
    out: Out,
    every_s: Annotated[
        float, Option("--every-s", help="Mean seconds from the end of a slow span to the next.")
    ],
    length_s: Annotated[float, Option("--length-s", help="Mean seconds of a slow span.")],
    bandwidth: Annotated[float, Option(help="Share of the nominal bandwidth in a slow span.")],
    until_s: Annotated[float, Option("--until-s", help="No slow span begins at or after this second.")],
    from_s: Annotated[float, Option("--from-s", help="No slow span begins before this second.")] = 0.0,
    seed: DrawSeed = 0,
    json_output: Json = False,
) -> None:
    """Draw spans in which servers' network interfaces are slow, for -w links=FILE.

    Times between spans and their lengths are exponential, in seconds of the workload's time.

    Example: ray-sim links toy --every-s 86400 --length-s 3600 --bandwidth 0.1 --until-s 604800 -o links.csv
    """
    from ray_sim.experiments.inputs.cluster_file import load_cluster
    from ray_sim.experiments.inputs.server_changes import Spans, draw_links, write_links

    servers = load_cluster(cluster)
    drawn = draw_links(servers, Spans(every_s, length_s, from_s, until_s), bandwidth, seed)
    write_links(out, servers, drawn)
    slow_spans = len(drawn) // 2  # each has a beginning and an end
    facts = {"links": str(out), "servers": len(servers), "slow spans": slow_spans}
    print_facts({**facts, "bandwidth": bandwidth, "seed": seed}, as_json=json_output)
