"""Conversion of a trace as the command line and Python ask for it: the workload, and the trace's machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ray_sim.experiments.inputs.cluster_writer import check_cluster_path, write_cluster
from workloads.convert import ConversionReport
from workloads.convert import convert as convert_trace
from workloads.progress import Progress, silent
from workloads.realisation import Window
from workloads.sources import Source, local_path
from workloads.trace_format import Censored, ConvertOptions, RowKind, RunTime, choose


def convert_files(
    format_name: str,
    sources: Sequence[Source],
    out: Path,
    *,
    mapping: Source | None = None,
    rebase: bool = False,
    run_time: str | None = None,
    rows: str = "task",
    censored: str = "drop",
    seed: int = 0,
    cluster_out: Path | None = None,
    window: tuple[float, float] | None = None,
    rejects: Path | None = None,
    progress: Progress = silent,
) -> ConversionReport:
    """Convert the files of a trace to a workload file; the options are those of `ray-sim convert`.

    Raises
    ------
    InvalidInputError : an option is invalid, or a file cannot be read or written
    InvalidWorkloadError : no row can be kept
    """
    if cluster_out is not None:
        check_cluster_path(cluster_out)
    options = ConvertOptions(
        mapping=None if mapping is None else local_path(str(mapping)),
        rebase=rebase,
        run_time=None if run_time is None else choose(RunTime, "--run-time", run_time),
        rows=choose(RowKind, "--rows", rows),
        censored=choose(Censored, "--censored", censored),
        seed=seed,
        cluster=cluster_out is not None,
    )
    report = convert_trace(
        format_name,
        [local_path(str(source)) for source in sources],
        out,
        options=options,
        window=None if window is None else Window(*window),
        rejects=rejects,
        progress=progress,
    )
    if cluster_out is not None and report.cluster is not None:
        write_cluster(report.cluster, cluster_out)
    return report
