"""A cluster as files that `load_cluster` reads: YAML, and a CSV table of when servers come and go."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ray_sim.experiments.availability_file import write_failures
from ray_sim.experiments.cluster_file import FIELD_OF_RESOURCE
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import QUANTA_PER_UNIT
from workloads.files import replacing, require_folder_of


def check_cluster_path(path: Path) -> None:
    """Raise unless a cluster can be written there.

    Raises
    ------
    InvalidInputError
    """
    if path.suffix not in (".yaml", ".yml"):
        raise InvalidInputError(f"{path}: a cluster is written as YAML; name a file that ends in .yaml")
    require_folder_of(path)


def write_cluster(cluster: Cluster, path: Path) -> None:
    """Write servers of no GPU type, one by one; beside it `availability_path`, if they come and go.

    Each file appears whole or not at all.

    Raises
    ------
    InvalidInputError : a file cannot be written
    """
    check_cluster_path(path)
    lines = [f"name: {json.dumps(cluster.name)}"]
    if cluster.availability is not None:
        table = availability_path(path)
        write_failures(table, cluster, cluster.availability, ("add", "remove"))
        lines.append(f"availability: {json.dumps(table.name)}")
    with replacing(path) as temporary:
        text = "\n".join([*lines, "servers:", *_servers(cluster), ""])
        temporary.write_text(text, encoding="utf-8", newline="\n")


def availability_path(path: Path) -> Path:
    """``C.availability.csv`` for ``C.yaml``."""
    return path.with_name(f"{path.stem}.availability.csv")


def _servers(cluster: Cluster) -> Iterator[str]:
    fields = [(FIELD_OF_RESOURCE[name], QUANTA_PER_UNIT[name]) for name in cluster.resources]
    for name, quanta in zip(cluster.server_names, cluster.capacity.tolist(), strict=True):
        amounts = (
            f"{field}: {count / unit:.15g}" for (field, unit), count in zip(fields, quanta, strict=True)
        )
        yield f"  - {{name: {json.dumps(name)}, {', '.join(amounts)}}}"
