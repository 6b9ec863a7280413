"""Facts of servers that a world names by file: availability, interference, slow links, delays of chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from ray_sim.engine.world_parameters import WORLD_PARAMETERS
from ray_sim.experiments.inputs.cluster_file import MAX_PROBLEMS, csv_rows
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.server_changes import read_availability, read_links, refusal
from ray_sim.model.cluster import ChunkDelay, Cluster
from ray_sim.model.parameters import MAX_FACTOR, Parameter
from ray_sim.model.units import MAX_TIME_S
from workloads.documents import Entry, dotted_problems
from workloads.sources import Source

_Value = TypeVar("_Value")


class ServerFiles(NamedTuple):
    """Names of the files; None where a world names none. Fields are names of world parameters."""

    availability: str | None = None
    interference: str | None = None
    links: str | None = None
    delays: str | None = None


FILES = (
    Parameter(
        "availability",
        "text",
        None,
        "CSV file of the changes of servers: time_s, server, event (add, remove, fail or repair)",
        source="docs/engine.md#servers-that-come-and-go",
    ),
    Parameter(
        "interference",
        "text",
        None,
        "how elastic jobs on one server slow each other: a bundled profile (harmony_types, and its variants "
        "harmony_types_weak and harmony_types_strong), or a YAML file; none = they do not",
        source="docs/models/interference.md; Bao et al., INFOCOM 2019",
    ),
    Parameter(
        "links",
        "text",
        None,
        "CSV file of the bandwidth of servers' network interfaces: time_s, server, bandwidth (share of the "
        "nominal one)",
        source="docs/models/interference.md#slow-links",
    ),
    Parameter(
        "delays",
        "text",
        None,
        "CSV file of delays of chunks by pair: model (of the job), server_class, upload_s, processing_factor",
        source="docs/models/a_online.md#our-choices, C9",
    ),
)
"""World parameters that are read from files before the engine sees them."""

WORLD = (*WORLD_PARAMETERS, *FILES)
"""World parameters of a scenario: the engine's, and those of `FILES`."""


def split_world(world: Mapping[str, _Value]) -> tuple[dict[str, _Value], ServerFiles]:
    """Split world parameters into the engine's and the files that it names."""
    rest = {name: value for name, value in world.items() if name not in ServerFiles._fields}
    named = {name: world.get(name) for name in ServerFiles._fields}
    return rest, ServerFiles(**{name: None if path is None else str(path) for name, path in named.items()})


def with_server_files(cluster: Cluster, files: ServerFiles) -> Cluster:
    """The cluster with the facts of these files; what no file is named for stays."""
    if files.availability is not None:
        cluster = replace(cluster, availability=read_availability(files.availability, cluster))
    if files.interference is not None:
        cluster = replace(cluster, interference=load_interference(files.interference))
    if files.links is not None:
        cluster = replace(cluster, links=read_links(files.links, cluster))
    return cluster if files.delays is None else replace(cluster, delays=read_delays(files.delays))


class _Line(Entry):
    model: str = ""
    server_class: str = ""
    upload_s: Annotated[float, Field(ge=0, le=MAX_TIME_S)] | None = None
    processing_factor: Annotated[float, Field(ge=1 / MAX_FACTOR, le=MAX_FACTOR)] = 1.0


def read_delays(path: Source) -> tuple[ChunkDelay, ...]:
    """Read a CSV file, by path or URL, whose columns are the fields of `ChunkDelay`.

    An empty or missing ``upload_s`` is the workload's own, such a ``processing_factor`` 1.
    """
    found: dict[tuple[str, str], ChunkDelay] = {}
    problems: list[str] = []
    for where, cells in csv_rows(path, _Line, ("model", "server_class"), problems):
        try:
            delay = ChunkDelay(**_Line.model_validate_strings(cells).model_dump())
        except ValidationError as failure:
            problems += dotted_problems(failure, _Line.model_fields, where)
            continue
        if delay[:2] in found:
            problems.append(f"{where}the pair '{delay.model}', '{delay.server_class}' has a line already")
        found[delay[:2]] = delay
    if problems:
        raise refusal(problems, path, MAX_PROBLEMS)
    return tuple(found[pair] for pair in sorted(found))
