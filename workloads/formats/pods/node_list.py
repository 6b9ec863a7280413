"""Convert the list of nodes that belongs to a list of pods to a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import capacity_quanta
from workloads.checks import number, value_fault
from workloads.formats.text import TextSource, with_blanks
from workloads.meter import Meter
from workloads.schema import BY_NAME

NODE_HEADER = ("sn", "cpu_milli", "memory_mib", "gpu", "model")

_AMOUNTS = {"gpu": ("gpu", 1), "cpu": ("cpu_milli", 1000), "memory_gib": ("memory_mib", 1024)}
"""Column of the list and its divisor, by our resource."""

_MAXIMA = {"gpu": "num_gpus", "cpu": "cpu_per_task", "memory_gib": "memory_gib_per_task"}
"""Workload column with the same bounds, by our resource."""


@dataclass(frozen=True, slots=True)
class NodeList:
    """Nodes as servers."""

    cluster: Cluster
    warnings: tuple[str, ...]


def is_node_list(source: TextSource) -> bool:
    """Whether a table is of nodes and not of pods."""
    return set(NODE_HEADER) <= set(source.header)


def read_nodes(sources: Sequence[TextSource], meter: Meter) -> NodeList:
    """Read node lists; rows that are no nodes are left out, with a warning.

    Raises
    ------
    InvalidWorkloadError : a file is unreadable, or there is no node
    """
    frames = []
    for source in sources:
        meter.begin(source.path)
        frames.append(source.collect(_query(source)))
    rows = pl.concat(frames)
    sound = rows.filter("sound").unique("sn", keep="first", maintain_order=True)
    if sound.is_empty():
        names = ", ".join(str(source.path) for source in sources)
        raise InvalidWorkloadError(f"{names}: no row is a node with a name and amounts; check the file")
    left_out = rows.height - sound.height
    warning = f"node list: {left_out} rows without a name and amounts, or of a node again, are left out"
    return NodeList(_cluster(sound), (warning,) if left_out else ())


def _query(source: TextSource) -> pl.LazyFrame:
    texts = source.rows({f"text of {name}": name for name in NODE_HEADER})
    amounts = {name: number(pl.col(f"text of {theirs}")) / unit for name, (theirs, unit) in _AMOUNTS.items()}
    name, model = pl.col("text of sn"), with_blanks("text of model")
    unprintable = pl.concat_str(name, model, ignore_nulls=True).str.contains(r"\p{C}|[^ \P{Z}]")
    right = [pl.col("fault").is_null(), name.is_not_null(), ~unprintable]
    for resource in _AMOUNTS:
        fault = value_fault(BY_NAME[_MAXIMA[resource]], pl.col(resource))
        right.append(pl.col(resource).is_not_null() & fault.is_null())
    return texts.with_columns(**amounts).select(
        *_AMOUNTS, sn=name, gpu_type=model, sound=pl.all_horizontal(right)
    )


def _cluster(nodes: pl.DataFrame) -> Cluster:
    capacity = [capacity_quanta(nodes[name].to_numpy(), name) for name in _AMOUNTS]
    return Cluster(
        name="gpu-pods",
        server_names=tuple(nodes["sn"]),
        resources=tuple(_AMOUNTS),
        capacity=np.column_stack(capacity),
        speed=np.ones(nodes.height),
        vc=(None,) * nodes.height,
        kind=(ServerKind.PLAIN,) * nodes.height,
        gpu_type=tuple(nodes["gpu_type"]),
    )
