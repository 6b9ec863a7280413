"""`ray-sim enrich`: draw the training columns or the statements of a workload from a profile."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from typer import Argument, Exit, Option

from ray_sim.cli.console import print_json, print_rows, progress
from ray_sim.cli.options import DrawSeed, Json, Out


def _list_profiles(asked: bool) -> None:
    if not asked:
        return
    from ray_sim.experiments.inputs.layer_file import (
        ANNOUNCEMENT_PROFILES,
        LAYERED_PROFILES,
        layered_title,
        load_announcement_draws,
    )
    from ray_sim.experiments.inputs.training_file import TRAINING_PROFILES, load_training_draws
    from workloads.training.speed_tables import bundled_speeds

    print_rows((name, layered_title(name)) for name in LAYERED_PROFILES.bundled())
    print_rows((name, load_training_draws(name).title) for name in TRAINING_PROFILES.bundled())
    print_rows((name, load_announcement_draws(name).title) for name in ANNOUNCEMENT_PROFILES.bundled())
    print_rows((name, "models and steps by measured speeds") for name in bundled_speeds())
    raise Exit


def enrich(
    source: Annotated[str, Argument(metavar="IN", help="Parquet workload, by path or URL.")],
    out: Out,
    profile: Annotated[
        list[str],
        Option(
            "--profile",
            help="Bundled profile (see --list), a YAML file, or a CSV file of measured speeds; repeat it for "
            "several layers.",
        ),
    ],
    seed: DrawSeed = 0,
    feasible_only: Annotated[
        bool, Option("--feasible-only", help="Leave out infeasible jobs; they are counted.")
    ] = False,
    cluster: Annotated[
        str | None,
        Option(
            "--cluster", help="Cluster that must hold each job's bundle [the profile's reference servers]."
        ),
    ] = None,
    horizon: Annotated[
        float | None,
        Option(metavar="S", help="Seconds after the first submission by which a job must be able to end."),
    ] = None,
    truth: Annotated[
        Literal["placement", "pd_ors"] | None,
        Option(help="Model of the training speed for --horizon, as in -w truth [placement]."),
    ] = None,
    list_profiles: Annotated[
        bool, Option("--list", help="List the bundled profiles.", is_eager=True, callback=_list_profiles)
    ] = False,
    json_output: Json = False,
) -> None:
    """Add training columns (workers, samples, speeds, ...) to a workload, consistent with GPUs and run times.

    A profile with announcements adds statements of work instead: births, values and outlooks; a table of
    measured speeds adds models, batches and steps. Several profiles are layers: each fills columns that are
    empty so far.

    Example: ray-sim enrich philly.parquet -o training.parquet --profile pd_ors --seed 1
    """
    from ray_sim.experiments.inputs.cluster_file import load_cluster
    from ray_sim.experiments.inputs.layer_file import load_profiles
    from workloads.layers.fill import fill_file
    from workloads.training.enrich import Feasibility

    began = time.perf_counter()
    servers = None if cluster is None else load_cluster(cluster)
    layers = load_profiles(profile, Feasibility(servers, horizon, truth, feasible_only))
    with progress("enrich", quiet=json_output) as show:
        reports = fill_file(source, out, layers, seed, show)
    seconds = time.perf_counter() - began
    filled = [
        ({"profile": layer.draws.name, "profile_sha256": layer.draws.sha256}, report.to_dict())
        for layer, report in zip(layers, reports, strict=True)
    ]
    if json_output:
        where: dict[str, object] = {"workload": str(out)}
        if len(filled) == 1:
            print_json({**where, **filled[0][0], "seed": seed, **filled[0][1], "seconds": seconds})
        else:
            each = [{**name, **counts} for name, counts in filled]
            print_json({**where, "seed": seed, "layers": each, "seconds": seconds})
        return
    rows = [row for report in reports for row in report.rows()]
    print_rows([("workload", out), *rows, ("seconds", round(seconds, 2))])
