"""Conversion of a trace as the command line and Python ask for it: the workload, and the trace's machines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from ray_sim.experiments.inputs.cluster_file import FIELD_OF_RESOURCE
from ray_sim.experiments.inputs.server_changes import write_failures
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import QUANTA_PER_UNIT
from workloads.convert import ConversionReport, first_reject
from workloads.convert import convert as convert_trace
from workloads.files import is_signed, replacing, require_replaceable, signed
from workloads.progress import Progress, silent
from workloads.realisation import Window
from workloads.sources import Source, local_path
from workloads.trace_format import Censored, ConvertOptions, Pool, RowKind, RunTime, choose


def convert_files(
    format_name: str,
    sources: Sequence[Source],
    out: Path,
    *,
    mapping: Source | None = None,
    time_zone: str | None = None,
    rebase: bool = False,
    run_time: str | None = None,
    rows: str = "task",
    censored: str = "drop",
    seed: int = 0,
    keep_pending: bool = False,
    speeds: str | None = None,
    cluster_out: Path | None = None,
    window: tuple[float, float] | None = None,
    rejects: Path | None = None,
    html: Path | None = None,
    pool: Pool = map,
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
    if html is not None:
        from ray_sim.experiments.report import require_replaceable_page

        require_replaceable_page(html)
    options = ConvertOptions(
        mapping=None if mapping is None else local_path(str(mapping)),
        time_zone=time_zone,
        rebase=rebase,
        run_time=None if run_time is None else choose(RunTime, "--run-time", run_time),
        rows=choose(RowKind, "--rows", rows),
        censored=choose(Censored, "--censored", censored),
        seed=seed,
        keep_pending=keep_pending,
        speeds=speeds,
        cluster=cluster_out is not None,
        pool=pool,
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
    if html is not None:
        _write_page(report, html)
    return report


def _write_page(report: ConversionReport, out: Path) -> None:
    """Write the page of a conversion, whose imports take longer than a small conversion."""
    from ray_sim.experiments.report import write_page
    from ray_sim.reports.page import Cell, Page, Section, Table, fact_texts, number_cell
    from ray_sim.reports.workload_page import workload_sections

    counts = tuple((Cell(label), number_cell(count)) for label, count in report.count_rows())
    tables = [Table(("rows", "count"), counts)]
    if report.rejects is not None:
        rejects = pl.scan_parquet(report.rejects, glob=False)
        examples = {reason: map(Cell, first_reject(rejects, reason)) for reason in report.rejected}
        lines = tuple((Cell(reason), *cells) for reason, cells in examples.items())
        tables.append(Table(("rejected", "one of them", "its text"), lines))
    sections = (
        *([Section("Warnings", text=report.warnings)] if report.warnings else []),
        Section("Rows", tables=tuple(tables)),
        *workload_sections({"jobs": pl.scan_parquet(report.out, glob=False)}, {}),
        *([Section("Notes", facts=fact_texts(notes))] if (notes := report.note_rows()) else []),
    )
    names = ", ".join(path.name for path in report.sources)
    kept = f"{report.kept:,} jobs from {report.format} in {report.out.name}"
    write_page(Page(f"Conversion of {names}", kept, sections), out)


def check_cluster_path(path: Path) -> None:
    """Raise unless a cluster and its availability table can be written at the path."""
    if path.suffix not in (".yaml", ".yml"):
        raise InvalidInputError(f"{path}: a cluster is written as YAML; name a file that ends in .yaml")
    require_replaceable(path, is_signed)
    require_replaceable(availability_path(path), is_signed)


def write_cluster(cluster: Cluster, path: Path) -> None:
    """Write one entry per server, and the table `availability_path` beside the file if servers come and go.

    GPU types have a speed of 1. Each file appears whole or not at all.
    """
    check_cluster_path(path)
    lines = [f"name: {json.dumps(cluster.name)}"]
    if cluster.availability is not None:
        table = availability_path(path)
        write_failures(table, cluster, cluster.availability, ("add", "remove"))
        lines.append(f"availability: {json.dumps(table.name)}")
    if types := sorted({gpu_type for gpu_type in cluster.gpu_type if gpu_type is not None}):
        lines += ["gpu_types:", *(f"  {json.dumps(gpu_type)}: {{speed: 1}}" for gpu_type in types)]
    with replacing(path, is_signed) as temporary:
        text = "\n".join([*lines, "servers:", *_servers(cluster), ""])
        temporary.write_bytes(signed(text.encode()))


def availability_path(path: Path) -> Path:
    """Path of the availability table: ``C.availability.csv`` for ``C.yaml``."""
    return path.with_name(f"{path.stem}.availability.csv")


def _servers(cluster: Cluster) -> Iterator[str]:
    fields = [(FIELD_OF_RESOURCE[name], QUANTA_PER_UNIT[name]) for name in cluster.resources]
    for name, gpu_type, vc, quanta in zip(
        cluster.server_names, cluster.gpu_type, cluster.vc, cluster.capacity.tolist(), strict=True
    ):
        labels = {"name": name, "gpu_type": gpu_type, "vc": vc}
        entries = [f"{key}: {json.dumps(text)}" for key, text in labels.items() if text is not None]
        for (field, unit), count in zip(fields, quanta, strict=True):
            entries.append(f"{field}: {count / unit:.15g}")
        yield f"  - {{{', '.join(entries)}}}"
