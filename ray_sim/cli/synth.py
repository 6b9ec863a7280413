"""`ray-sim synth`: draw a synthetic workload."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_json, print_rows, progress
from ray_sim.cli.options import DrawSeed, Json, Out
from ray_sim.model.errors import InvalidInputError


def synth(
    jobs: Annotated[int, Option("-n", "--jobs", min=1, help="Number of jobs.")],
    out: Out,
    profile: Annotated[
        str | None,
        Argument(
            help="Published statistics to draw from: philly or google; or a training profile, such as "
            "pd_ors or a YAML file.",
            show_default=False,
        ),
    ] = None,
    like: Annotated[
        str | None,
        Option(metavar="FILE", help="Fit the jobs to this workload instead, and print the distance from it."),
    ] = None,
    seed: DrawSeed = 0,
    load_scale: Annotated[float, Option(help="Factor on the arrival rate, 1e-6 to 1e6.")] = 1.0,
    arrivals: Annotated[
        str | None,
        Option(
            metavar="KIND",
            help="Arrival process: poisson, alternating, diurnal, or resampled (with --like) [diurnal; "
            "poisson for google, or if the workload spans less than a day]. Training profile: alternating "
            "or poisson.",
        ),
    ] = None,
    slot_s: Annotated[
        float | None,
        Option("--slot-s", help="Slot in seconds of alternating arrivals and of --feasible-only [3600]."),
    ] = None,
    horizon: Annotated[
        float | None,
        Option(metavar="S", help="Training profile only: seconds within which all jobs are submitted."),
    ] = None,
    feasible_only: Annotated[
        bool,
        Option(
            "--feasible-only",
            help="Training profile only: draw jobs again that could not end by the horizon, even alone.",
        ),
    ] = False,
    json_output: Json = False,
) -> None:
    """Draw a synthetic workload.

    Example: ray-sim synth philly -n 10000 --seed 1 -o synthetic.parquet

    Example: ray-sim synth google -n 10000 --seed 1 -o synthetic.parquet

    Example: ray-sim synth pd_ors -n 50 --horizon 72000 --feasible-only -o drawn.parquet
    """
    from ray_sim.experiments.inputs.training_file import load_training_draws, names_training_profile
    from ray_sim.experiments.scenario import check_profile
    from workloads.files import require_other_file, require_replaceable
    from workloads.store import has_provenance, write_workload
    from workloads.synthetic.arrivals import parse_arrivals
    from workloads.synthetic.drawn_jobs import synth_jobs
    from workloads.synthetic.horizon_request import HorizonRequest, request_of
    from workloads.synthetic.synth import synth_file, synth_profile

    if (profile is None) == (like is None):
        raise InvalidInputError("give either a PROFILE, such as philly or pd_ors, or a workload with --like")
    if profile is not None:
        check_profile(profile)
    if like is not None:
        require_other_file(like, out)
    require_replaceable(out, has_provenance)
    request = request_of(
        whole=profile is not None and names_training_profile(profile),
        jobs=jobs,
        load_scale=load_scale,
        arrivals=parse_arrivals(arrivals),
        slot_s=slot_s,
        horizon_s=horizon,
        feasible_only=feasible_only,
    )
    with progress("synth", quiet=json_output) as report:
        report(0, jobs, "drawing")
        if isinstance(request, HorizonRequest):
            drawn = synth_jobs(load_training_draws(str(profile)), request, seed, report)
        elif like is not None:
            drawn = synth_file(like, request, seed)
        else:
            drawn = synth_profile(str(profile), request, seed)
        report(jobs, jobs, "writing")
        write_workload(drawn.frame, drawn.provenance, out)
    if json_output:
        print_json({"workload": str(out), **drawn.to_dict()})
    else:
        print_rows([("workload", out), *drawn.rows()])
