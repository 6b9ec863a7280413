"""`ray-sim interference`: how much the types of a profile slow each other."""

from __future__ import annotations

from typing import Annotated

import typer

from ray_sim.cli.options import Json

MOST_JOBS = 4
"""Largest number of jobs on a server whose mean speed is printed."""


def interference(
    profile: Annotated[str, typer.Argument(help="Bundled interference profile, or its YAML file.")],
    sockets: Annotated[int, typer.Option(min=1, help="Sockets for processors of the server.")] = 1,
    json_output: Json = False,
) -> None:
    """Print how much the types of an interference profile slow each other on one server.

    Each job has one worker and one parameter server. A row is the type that is slowed, a column the other.

    Example: ray-sim interference harmony_types
    """
    from ray_sim.cli.console import print_json, print_rows, print_table
    from ray_sim.experiments.interference_file import load_interference
    from ray_sim.model.interference import mean_speed, pair_slowdowns

    read = load_interference(profile)
    pairs = pair_slowdowns(read, sockets)
    speeds = {jobs: mean_speed(read, jobs, sockets) for jobs in range(1, MOST_JOBS + 1)}
    if json_output:
        print_json(
            {
                "profile": read.name,
                "channels": list(read.channels),
                "types": list(read.types),
                "sockets": sockets,
                "slowdowns": pairs.tolist(),
                "mean_speed": speeds,
            }
        )
        return
    print_rows([("profile", read.name), ("channels", ", ".join(read.channels)), ("sockets", sockets)])
    rows = [[name, *(f"{factor:.2f}" for factor in row)] for name, row in zip(read.types, pairs, strict=True)]
    print_table(["slowed", *read.types], rows, "slowdown of each type beside another")
    print_table(
        ["jobs on a server", "mean speed"],
        [[str(jobs), f"{speed:.3f}"] for jobs, speed in speeds.items()],
        "mean speed over all types, relative to a job alone",
    )
