"""Conversion of lists of Kubernetes pods, with whole GPUs or a share of one, and of their nodes.

The form of cluster-trace-gpu-v2023, https://github.com/alibaba/clusterdata: Q. Weng et al., Beware of
Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent, USENIX ATC 2023. The page
docs/traces/gpu-pods.md lists its oddities and the rule for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import polars as pl

from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import MAX_TIME_S
from workloads.checks import number, number_reason
from workloads.formats.tables.mapping import NodeMapping
from workloads.formats.tables.nodes import read_nodes
from workloads.formats.text import TableSource, open_text, read_rows, reject_frame, with_blanks
from workloads.progress import Meter
from workloads.rows import height, keep_best
from workloads.schema import MAX_COUNT, MAX_GIB, Column
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

MILLI = 1000
"""Thousandths in a GPU or a core."""

NODE_HEADER = ("sn", "cpu_milli", "memory_mib", "gpu", "model")

_NODES = NodeMapping.model_validate(
    {
        "columns": {
            "name": "sn",
            "gpus": "gpu",
            "cpus": "cpu_milli",
            "memory_gib": "memory_mib",
            "gpu_type": "model",
        },
        "units": {"cpus": "milli", "memory_gib": "mib"},
    }
)
"""How the list of nodes is read."""


def _column(name: str, maximum: int, null: str | None = None, whole: bool = False) -> Column:
    dtype = pl.Int64() if whole else pl.Float64()
    return Column(name, dtype, "", null=null, minimum=0, maximum=maximum)


NUMBERS = {
    "creation_time": _column("submit_s", MAX_TIME_S),
    "scheduled_time": _column("start", MAX_TIME_S, null="never started"),
    "deletion_time": _column("end", MAX_TIME_S),
    "num_gpu": _column("num_gpus", MAX_COUNT, whole=True),
    "gpu_milli": _column("gpu_milli", MILLI, null="no GPU"),
    "cpu_milli": _column("cpu_per_task", MAX_COUNT * MILLI, null="0"),
    "memory_mib": _column("memory_gib_per_task", MAX_GIB * 1024, null="0"),
}
"""Allowed values of each number of the list, under the names used in reject reasons."""

HEADER = ("name", "pod_phase", *NUMBERS)
DEMANDS = ("name", "num_gpu", "gpu_milli", "cpu_milli", "memory_mib")
"""Columns that suffice where pods that never started are kept."""
OPTIONAL = ("gpu_spec", "qos")


def read(paths: Sequence[Path], options: ConvertOptions, folder: Path, meter: Meter) -> Parsed:
    """Parse pod lists and node lists, distinguished by their columns.

    Raises
    ------
    InvalidWorkloadError : a file is missing, unreadable, or neither of the two, or there is no pod list
    """
    sources = [open_text(path, ",") for path in paths]
    node_lists = [source for source in sources if set(NODE_HEADER) <= set(source.header)]
    pods = [source for source in sources if source not in node_lists]
    for source in pods:
        source.require(DEMANDS if options.keep_pending else HEADER)
    if not pods:
        names = ", ".join(str(path) for path in paths)
        raise InvalidWorkloadError(f"{names}: no list of pods; name one with the columns {', '.join(HEADER)}")
    meter.expect(meter.all_bytes)  # rows are compared after they are read
    cluster, node_warnings = read_nodes(node_lists, _NODES, "gpu-pods", meter) if node_lists else (None, ())
    if options.cluster and cluster is None:
        raise InvalidWorkloadError("no list of nodes given, so there is no cluster to write; name it too")
    query = partial(_query, keep_pending=options.keep_pending)
    rows = read_rows(pods, query, folder, meter).with_columns(trace_order="row")  # over all files
    rows, replaced = keep_best(rows, folder, meter.step(meter.all_bytes, "comparing rows"))
    kept = rows.filter(pl.col("reason").is_null())
    pending = {"pods_that_never_started": pl.col("never_started").sum()} if options.keep_pending else {}
    counts = kept.select(
        started_before_creation=(pl.col("wait_s") < 0).sum(),
        running_with_a_deletion_time=(pl.col("status") == "Running").sum(),
        pods_with_a_share_of_a_gpu=(pl.col("num_gpus") % 1 > 0).sum(),
        pods_that_name_gpu_types=pl.col("gpu_types").is_not_null().sum(),
        **pending,
    )
    notes = counts.collect(engine="streaming").row(0, named=True)
    return Parsed(
        jobs=kept.with_columns(wait_s=pl.when(pl.col("wait_s") >= 0).then("wait_s")),
        rejects=reject_frame(pods, rows).lazy(),
        read=height(rows),
        options={"keep_pending": True} if options.keep_pending else {},
        notes={**{name: int(count) for name, count in notes.items()}, **replaced.notes()},
        warnings=(*_ignored(pods), *node_warnings, *replaced.warnings()),
        cluster=cluster if options.cluster else None,
    )


def _query(source: TableSource, keep_pending: bool) -> pl.LazyFrame:
    """Columns of the schema for one file, and why a row is rejected.

    Pods that never started have a run time of 0, and those of a list without times are submitted at 0.
    """
    found = [name for name in (*HEADER, *OPTIONAL) if name in source.header]
    optional = [name for name in found if name in OPTIONAL or (name in NUMBERS and NUMBERS[name].null)]
    optional.append("deletion_time")  # a pod that still runs has none
    texts = source.rows({_text(name): name for name in found})
    texts = texts.with_columns(with_blanks(_text(name)) for name in optional if name in found)
    absent = [name for name in HEADER if name not in found]
    texts = texts.with_columns(pl.lit(None, pl.String).alias(_text(name)) for name in absent)
    # A separate step, or polars would compute a value again for each use.
    valued = texts.with_columns(number(pl.col(_text(name))).alias(name) for name in NUMBERS)
    created, started, ended = (pl.col(f"{what}_time") for what in ("creation", "scheduled", "deletion"))
    never_started = pl.col(_text("scheduled_time")).is_null()
    return valued.select(
        "line",
        job_id=_text("name"),
        submit_s=created if "creation_time" in found else pl.lit(0.0),
        wait_s=started - created,
        duration_s=pl.when(never_started).then(0.0).otherwise(ended - started),
        status=_text("pod_phase"),
        num_gpus=pl.when(pl.col("num_gpu") > 0)
        .then(pl.col("num_gpu") * pl.col("gpu_milli") / MILLI)
        .otherwise(0.0),
        num_tasks=pl.lit(1, pl.Int64),
        attempts=pl.lit(1, pl.Int64),
        cpu_per_task=pl.col("cpu_milli") / MILLI,
        memory_gib_per_task=pl.col("memory_mib") / 1024,
        gpu_types=_text("gpu_spec") if "gpu_spec" in found else pl.lit(None, pl.String),
        never_started=never_started,
        reason=pl.coalesce("fault", *_reasons(found, never_started, keep_pending)),
    )


def _text(name: str) -> str:
    """Name of the helper column that holds the text of one column of the list."""
    return f"text of {name}"


def _reasons(found: Sequence[str], never_started: pl.Expr, keep_pending: bool) -> list[pl.Expr]:
    """Reject reasons of a row of a list with these columns, in order of priority."""
    started, ended = pl.col("scheduled_time"), pl.col("deletion_time")
    gpus, share = pl.col("num_gpu"), pl.col("gpu_milli")
    # Only a pod with one GPU can have a share; several GPUs are whole.
    not_a_share = (share == 0) | ((gpus > 1) & (share != MILLI))
    wrong = {
        name: number_reason(column, pl.col(_text(name)), pl.col(name))
        for name, column in NUMBERS.items()
        if name in found
    }
    end = wrong.pop("deletion_time", pl.lit(None, pl.String))
    return [
        pl.when(pl.col(_text("name")).is_null()).then(pl.lit("missing_job_id")),
        *wrong.values(),
        pl.when((gpus > 0) & share.is_null()).then(pl.lit("missing_gpu_milli")),
        pl.when((gpus > 0) & not_a_share).then(pl.lit("invalid_gpu_milli")),
        *([] if keep_pending else [pl.when(never_started).then(pl.lit("never_started"))]),
        pl.when(~never_started).then(end),
        pl.when(ended < started).then(pl.lit("negative_duration_s")),
    ]


def _ignored(pods: Sequence[TableSource]) -> list[str]:
    ignored = {name for source in pods for name in source.header} - {*HEADER, *OPTIONAL}
    return [f"ignored columns: {', '.join(sorted(ignored))}"] if ignored else []


FORMAT = TraceFormat(
    name="gpu-pods",
    version="3",
    source="Alibaba, cluster-trace-gpu-v2023",
    files="CSV lists of pods, and of nodes for --cluster-out",
    page="docs/traces/gpu-pods.md",
    read=read,
    options=frozenset({"cluster", "keep_pending"}),
)
