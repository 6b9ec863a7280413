"""`ray-sim enrich`: draw the training columns or the statements of a workload from a profile."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import typer

from ray_sim.cli.options import Json, Out


def _list_profiles(asked: bool) -> None:
    if not asked:
        return
    from ray_sim.cli.console import print_rows
    from ray_sim.experiments.announcement_file import (
        bundled_announcement_profiles,
        load_announcement_draws,
    )
    from ray_sim.experiments.training_file import bundled_training_profiles, load_training_draws

    print_rows((name, load_training_draws(name).title) for name in bundled_training_profiles())
    print_rows((name, load_announcement_draws(name).title) for name in bundled_announcement_profiles())
    raise typer.Exit


def enrich(
    source: Annotated[str, typer.Argument(metavar="IN", help="Parquet workload, by path or URL.")],
    out: Out,
    profile: Annotated[
        str, typer.Option("--profile", help="Bundled profile (see --list), or a YAML file by path.")
    ],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    feasible_only: Annotated[
        bool, typer.Option("--feasible-only", help="Leave out infeasible jobs; they are counted.")
    ] = False,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="Cluster that must hold each job's bundle [the profile's reference servers].",
        ),
    ] = None,
    horizon: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="Seconds after the first submission by which a job must be able to end."
        ),
    ] = None,
    truth: Annotated[
        Literal["placement", "pd_ors"] | None,
        typer.Option(help="Model of the training speed for --horizon, as in -w truth [placement]."),
    ] = None,
    list_profiles: Annotated[
        bool,
        typer.Option("--list", help="List the bundled profiles.", is_eager=True, callback=_list_profiles),
    ] = False,
    json_output: Json = False,
) -> None:
    """Add training columns (workers, samples, speeds, ...) to a workload, consistent with GPUs and run times.

    A profile with announcements adds statements of work instead: births, values and outlooks.

    Example: ray-sim enrich philly.parquet -o training.parquet --profile pd_ors --seed 1
    """
    from ray_sim.cli.console import print_json, print_rows, progress
    from ray_sim.experiments.announcement_file import load_announcement_draws, names_announcement_profile
    from ray_sim.experiments.cluster_file import load_cluster
    from ray_sim.experiments.training_file import load_training_draws
    from ray_sim.model.errors import InvalidInputError
    from workloads.announcements.announce import AnnouncementReport, announce_file
    from workloads.announcements.profile import AnnouncementDraws
    from workloads.training.enrich import EnrichReport, Feasibility, enrich_file
    from workloads.training.profile import TrainingDraws

    began = time.perf_counter()
    draws: AnnouncementDraws | TrainingDraws
    report: AnnouncementReport | EnrichReport
    with progress("enrich", quiet=json_output) as show:
        if names_announcement_profile(profile):
            if feasible_only or (cluster, horizon, truth) != (None, None, None):
                raise InvalidInputError(
                    f"profile {profile}: announcements are drawn for every job; leave out --feasible-only, "
                    "--cluster, --horizon and --truth"
                )
            draws = load_announcement_draws(profile)
            report = announce_file(source, out, draws, seed, show)
        else:
            servers = None if cluster is None else load_cluster(cluster)
            draws = load_training_draws(profile)
            feasibility = Feasibility(servers, horizon, truth, feasible_only)
            report = enrich_file(source, out, draws, seed, feasibility, show)
    seconds = time.perf_counter() - began
    if json_output:
        facts = {"workload": str(out), "profile": draws.name, "profile_sha256": draws.sha256, "seed": seed}
        print_json({**facts, **report.to_dict(), "seconds": seconds})
    else:
        print_rows([("workload", out), *report.rows(), ("seconds", round(seconds, 2))])
