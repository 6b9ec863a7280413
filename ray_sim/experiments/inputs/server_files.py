"""Facts of servers that a world names by file: availability, interference, slow links, delays of chunks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from ray_sim.engine.world_parameters import WORLD_PARAMETERS
from ray_sim.experiments.inputs.availability_file import with_availability
from ray_sim.experiments.inputs.delays_file import read_delays
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.links_file import read_links
from ray_sim.model.cluster import Cluster
from ray_sim.model.parameters import Parameter

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
    """The cluster with the facts of these files; what no file is named for stays.

    Raises
    ------
    InvalidInputError : a file cannot be read or breaks its rules
    """
    if files.availability is not None:
        cluster = with_availability(cluster, files.availability)
    if files.interference is not None:
        cluster = replace(cluster, interference=load_interference(files.interference))
    if files.links is not None:
        cluster = replace(cluster, links=read_links(files.links, cluster))
    return cluster if files.delays is None else replace(cluster, delays=read_delays(files.delays))
