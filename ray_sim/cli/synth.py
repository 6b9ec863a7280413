"""`ray-sim synth`: a synthetic workload."""

from __future__ import annotations

from typing import Annotated

import typer

from ray_sim.cli.options import Json, Out
from ray_sim.model.errors import InvalidInputError


def synth(
    jobs: Annotated[int, typer.Option("-n", "--jobs", min=1, help="Number of jobs.")],
    out: Out,
    profile: Annotated[
        str | None, typer.Argument(help="Published statistics to draw from, e.g. philly.", show_default=False)
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Instead: a workload to fit the jobs to; tells how well they fit."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    load_scale: Annotated[float, typer.Option(help="Factor on the arrival rate, above 0.")] = 1.0,
    arrivals: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="poisson, alternating, diurnal, or resampled (with --like); the default is diurnal, or "
            "poisson for a workload of less than a day.",
        ),
    ] = None,
    slot_s: Annotated[
        float | None, typer.Option("--slot-s", help="Slot of alternating arrivals in seconds; 3600.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Draw a synthetic workload.

    Example: ray-sim synth philly -n 10000 --seed 1 -o synthetic.parquet
    """
    from ray_sim.console import print_json, print_rows
    from workloads.arrivals import parse_arrivals
    from workloads.store import write_workload
    from workloads.synth import Request, synth_file, synth_profile

    request = Request(jobs, load_scale, parse_arrivals(arrivals), slot_s)
    if profile is not None and like is None:
        drawn = synth_profile(profile, request, seed)
    elif like is not None and profile is None:
        drawn = synth_file(like, request, seed)
    else:
        raise InvalidInputError("give either a PROFILE, such as philly, or a workload with --like")
    write_workload(drawn.frame, drawn.provenance, out)
    if json_output:
        print_json({"workload": str(out), **drawn.to_dict()})
    else:
        print_rows([("workload", out), *drawn.rows()])
