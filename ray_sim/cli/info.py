"""`ray-sim info`: what is in a workload, a cluster or a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ray_sim.cli.options import Json
from ray_sim.model.errors import InvalidInputError

if TYPE_CHECKING:
    from ray_sim.experiments.cluster_summary import ClusterSummary
    from ray_sim.experiments.result_files import StoredRun
    from ray_sim.experiments.workload_info import WorkloadInfo


def info(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A workload, a cluster or a run directory.")],
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", help="Cluster whose load by the workload to show.")
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            metavar="P",
            min=1,
            max=1000,
            help="Deal out the blocks of a workload's models to P parameter servers, by each rule.",
        ),
    ] = None,
    json_output: Json = False,
) -> None:
    """Show what is in a workload, a cluster or a run, and whether it is valid.

    Example: ray-sim info philly.parquet --cluster philly
    """
    from ray_sim.console import print_json, print_rows

    facts, warnings = _facts_of(source, cluster, blocks)
    if json_output:
        print_json(facts.to_dict())
        return
    print_rows(facts.rows())
    for warning in warnings:
        sys.stderr.write(f"warning: {warning}\n")


def _facts_of(
    source: str, cluster: str | None, blocks: int | None
) -> tuple[WorkloadInfo | ClusterSummary | StoredRun, list[str]]:
    """What to show, and what to warn of."""
    from workloads.sources import name_of

    if name_of(source).suffix == ".parquet":
        from ray_sim.experiments.cluster_file import load_cluster
        from ray_sim.experiments.workload_info import describe_workload

        found = describe_workload(source, load_cluster(cluster) if cluster else None, blocks)
        return found, found.warnings
    for option, value in (("--cluster", cluster), ("--blocks", blocks)):
        if value is not None:
            raise InvalidInputError(f"{option} {value}: only with a workload, and {source} is none")
    path = Path(source)
    if path.is_dir():
        from ray_sim.experiments.result_files import StoredRun, read_manifest, read_summary

        return StoredRun(read_manifest(path), read_summary(path)), []
    from ray_sim.experiments.cluster_file import load_cluster
    from ray_sim.experiments.cluster_summary import describe_cluster

    return describe_cluster(load_cluster(source)), []
