"""`ray-sim synth`: a synthetic workload."""

from __future__ import annotations

from typing import Annotated

import typer

from ray_sim.cli.options import Json, Out


def synth(
    profile: Annotated[str, typer.Argument(help="What the jobs are like, e.g. philly.")],
    jobs: Annotated[int, typer.Option("-n", "--jobs", min=1, help="Number of jobs.")],
    out: Out,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    load_scale: Annotated[float, typer.Option(help="Factor on the arrival rate, above 0.")] = 1.0,
    json_output: Json = False,
) -> None:
    """Draw a synthetic workload.

    Example: ray-sim synth philly -n 10000 --seed 1 -o synthetic.parquet
    """
    from ray_sim.console import print_json, print_rows
    from workloads.store import write_workload
    from workloads.synth import synth as draw

    frame, provenance = draw(profile, jobs, seed, load_scale)
    write_workload(frame, provenance, out)
    facts = {"workload": str(out), "profile": profile, "jobs": jobs, "seed": seed, "load_scale": load_scale}
    if json_output:
        print_json(facts)
    else:
        print_rows(facts.items())
