"""`ray-sim info`: describe a workload, a cluster, a run or a sweep, or compare two workloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ray_sim.cli.console import announcer, print_json, print_legend, print_rows, print_table, say
from ray_sim.cli.options import Json
from ray_sim.model.errors import InvalidInputError

if TYPE_CHECKING:
    from ray_sim.experiments.cluster_summary import ClusterSummary
    from ray_sim.experiments.results.stored_runs import StoredRun
    from ray_sim.experiments.sweep_info import SweepInfo
    from ray_sim.experiments.utility_optimum import OptimumInfo
    from ray_sim.experiments.workload_info import WorkloadInfo


def info(
    source: Annotated[
        str | None, Argument(metavar="FILE", help="Workload, cluster, or directory of a run or a sweep.")
    ] = None,
    compare: Annotated[
        tuple[str, str] | None, Option(metavar="A B", help="Show two workloads side by side instead.")
    ] = None,
    cluster: Annotated[
        str | None, Option("--cluster", "-c", help="Also show the load of the workload on this cluster.")
    ] = None,
    optimum: Annotated[
        bool,
        Option(
            "--optimum", help="Show the largest utility possible on the cluster, exactly; for few jobs only."
        ),
    ] = False,
    world: Annotated[
        list[str] | None,
        Option(
            "-w", metavar="KEY=VALUE", help="World parameter for --optimum, e.g. slot_s=3600; repeatable."
        ),
    ] = None,
    time_limit_s: Annotated[
        float, Option(min=0, help="Limit on the search for the optimum, in seconds.")
    ] = 600.0,
    node_limit: Annotated[
        int, Option(min=1, help="Limit on the search for the optimum, in nodes of its tree.")
    ] = 1_000_000,
    blocks: Annotated[
        int | None,
        Option(
            metavar="P",
            min=1,
            max=1000,
            help="Show how each rule assigns the blocks of the workload's models to P parameter servers.",
        ),
    ] = None,
    views: Annotated[
        bool, Option("--views", help="Show what each system reads of the workload, ignores and lacks.")
    ] = False,
    out: Annotated[Path | None, Option("-o", "--out", help="With --compare: HTML page to write.")] = None,
    json_output: Json = False,
) -> None:
    """Check and describe a workload, a cluster, a run or a sweep, which may be running.

    Example: ray-sim info philly.parquet --cluster philly

    Example: ray-sim info --compare philly.parquet drawn.parquet -o compared.html
    """
    if compare is not None:
        if source or optimum or world or blocks or views:
            raise InvalidInputError(
                "--compare A B: takes --cluster, --out and --json only; leave out the rest"
            )
        _compare(compare, cluster, out, as_json=json_output)
        return
    if source is None or out is not None:
        given = "no FILE is given" if source is None else f"--out {out}: only with --compare"
        raise InvalidInputError(f"info: {given}; name one FILE, or two workloads with --compare A B")
    facts: WorkloadInfo | ClusterSummary | StoredRun | SweepInfo | OptimumInfo
    if optimum:
        found = _optimum(source, cluster, world or [], time_limit_s, node_limit, quiet=json_output)
        facts, warnings = found, found.warnings
    elif world:
        raise InvalidInputError(f"-w {world[0]}: only with --optimum")
    else:
        facts, warnings = _facts_of(source, cluster, blocks, views=views)
    if json_output:
        print_json(facts.to_dict())
        return
    print_rows(rows := facts.rows())
    print_legend(str(text) for row in rows for text in row)
    for warning in warnings:
        say(f"warning: {warning}")


def _compare(workloads: tuple[str, str], cluster: str | None, out: Path | None, *, as_json: bool) -> None:
    from ray_sim.experiments.inputs.cluster_file import load_cluster
    from ray_sim.experiments.report import require_replaceable_page
    from ray_sim.experiments.workload_comparison import HEADINGS, compare_workloads

    if out is not None:
        require_replaceable_page(out)  # check before the work
    found = compare_workloads(*workloads, load_cluster(cluster) if cluster else None)
    if out is not None:
        found.write_page(out)
    if as_json:
        print_json(found.to_dict())
        return
    print_table(HEADINGS, found.rows())
    for warning in found.warnings:
        say(f"warning: {warning}")


def _optimum(
    source: str, cluster: str | None, world: list[str], time_limit_s: float, node_limit: int, *, quiet: bool
) -> OptimumInfo:
    from ray_sim.experiments.inputs.cluster_file import load_cluster
    from ray_sim.experiments.scenario import key_values
    from ray_sim.experiments.utility_optimum import describe_optimum
    from ray_sim.solvers.utility_optimum import SearchLimits
    from workloads.sources import name_of

    if cluster is None or name_of(source).suffix != ".parquet":
        raise InvalidInputError("--optimum: needs a workload and --cluster")
    announcer(quiet=quiet, compiles=False)(
        f"searching for the optimum, limits {time_limit_s:,g} s (--time-limit-s) "
        f"and {node_limit:,} nodes (--node-limit)"
    )
    limits = SearchLimits(nodes=node_limit, seconds=time_limit_s)
    return describe_optimum(source, load_cluster(cluster), key_values(world, "-w"), limits)


def _facts_of(
    source: str, cluster: str | None, blocks: int | None, *, views: bool
) -> tuple[WorkloadInfo | ClusterSummary | StoredRun | SweepInfo, list[str]]:
    """Facts to show, and warnings."""
    from workloads.sources import name_of

    if name_of(source).suffix == ".parquet":
        from ray_sim.experiments.inputs.cluster_file import load_cluster
        from ray_sim.experiments.workload_info import describe_workload

        found = describe_workload(source, load_cluster(cluster) if cluster else None, blocks, views=views)
        return found, found.warnings
    for option, value in (("--cluster", cluster), ("--blocks", blocks), ("--views", views or None)):
        if value is not None:
            raise InvalidInputError(f"{option} {value}: only with a workload, and {source} is none")
    from ray_sim.experiments.results.result_files import PLAN

    path = Path(source)
    is_directory = path.is_dir()
    if is_directory and (path / PLAN).exists():
        from ray_sim.experiments.sweep_info import describe_sweep

        described = describe_sweep(path)
        return described, [f"results of other versions: {each}" for each in described.other_versions]
    if is_directory:
        from ray_sim.experiments.results.result_files import check_result, read_manifest, read_summary
        from ray_sim.experiments.results.stored_runs import StoredRun

        check_result(path)
        stored = StoredRun(read_manifest(path), read_summary(path))
        return stored, stored.summary.policy_warnings or []
    from ray_sim.experiments.cluster_summary import describe_cluster
    from ray_sim.experiments.inputs.cluster_file import load_cluster

    return describe_cluster(load_cluster(source)), []
