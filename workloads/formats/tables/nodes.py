"""Lists of servers as clusters, by the section `nodes` of a mapping file.

Called by the reader of tables, by the format gpu-pods, and by `ray-sim convert` without a workload.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import capacity_quanta
from workloads.formats.tables.mapping import NodeMapping
from workloads.formats.tables.query import rows_of
from workloads.formats.text import TableSource, collect_text
from workloads.progress import Meter

_RESOURCES = {"gpu": "gpus", "cpu": "cpus", "memory_gib": "memory_gib", "disk_gib": "disk_gib"}
"""Column by resource."""


def read_nodes(
    sources: Sequence[TableSource], mapping: NodeMapping, name: str, meter: Meter
) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster that lists of servers describe; rows that are no servers are left out, with a warning.

    Parameters
    ----------
    name : of the cluster

    Raises
    ------
    InvalidWorkloadError : a file is unreadable, or there is no server
    """
    frames = []
    for source in sources:
        meter.begin(source.path)
        frames.append(collect_text(source.path, rows_of(source, mapping, rebase=False)))
    rows = pl.concat(frames)
    unprintable = pl.concat_str(*_texts(rows), ignore_nulls=True).str.contains(r"\p{C}|[^ \P{Z}]")
    wanted = pl.col("left_out").is_null()
    sound = pl.col("reason").is_null() & ~unprintable
    nodes = rows.filter(wanted & sound).unique("name", keep="first", maintain_order=True)
    if nodes.is_empty():
        names = ", ".join(str(source.path) for source in sources)
        raise InvalidWorkloadError(f"{names}: no row is a server with a name and amounts; check the file")
    left_out = rows.filter(wanted).height - nodes.height
    text = f"node list: {left_out} rows without a name and amounts, or of a node again, are left out"
    return _cluster(nodes, name), (text,) if left_out else ()


def _texts(rows: pl.DataFrame) -> list[str]:
    return [column for column in ("name", "gpu_type", "vc") if column in rows.columns]


def _cluster(nodes: pl.DataFrame, name: str) -> Cluster:
    missing = [column for column in ("gpu_type", "vc", "count") if column not in nodes.columns]
    nodes = nodes.with_columns(pl.lit(None).alias(column) for column in missing)
    count = nodes["count"].cast(pl.Int64).fill_null(1)
    names = [
        server if number == 1 else f"{server}-{index}"
        for server, number in zip(nodes["name"], count, strict=True)
        for index in range(number)
    ]
    each = nodes.select(pl.all().repeat_by(count).explode()) if count.max() != 1 else nodes
    resources = {resource: column for resource, column in _RESOURCES.items() if column in nodes.columns}
    amounts = [
        capacity_quanta(each[column].fill_null(0).to_numpy(), resource)
        for resource, column in resources.items()
    ]
    return Cluster(
        name=name,
        server_names=tuple(names),
        resources=tuple(resources),
        capacity=np.column_stack(amounts),
        speed=np.ones(each.height),
        vc=tuple(each["vc"]),
        kind=(ServerKind.PLAIN,) * each.height,
        gpu_type=tuple(each["gpu_type"]),
    )
