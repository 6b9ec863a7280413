"""Facts of servers that a world names by file, such as availability, interference and slow links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

from pydantic import Field, ValidationError

from ray_sim.engine.kinds.rigid.jobs import FRAGMENTATION_TARGET
from ray_sim.engine.world_parameters import WORLD_PARAMETERS
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.server_changes import read_availability, read_links
from ray_sim.kernels.core.devices import DEVICE
from ray_sim.kernels.core.fragmentation import TypicalTask
from ray_sim.model.cluster import ChunkDelay, Cluster
from ray_sim.model.errors import InvalidClusterError, InvalidScenarioError
from ray_sim.model.parameters import MAX_FACTOR, Parameter
from ray_sim.model.units import MAX_TIME_S
from workloads.documents import Entry, csv_rows, dotted_problems, refusal
from workloads.sources import Source, is_url
from workloads.training.speed_tables import GAVEL, load_speeds

_Value = TypeVar("_Value")


class ServerFiles(NamedTuple):
    """Names of the files; None where a world names none. Fields are names of world parameters."""

    availability: str | None = None
    interference: str | None = None
    links: str | None = None
    delays: str | None = None
    fragmentation_target: str | None = None
    speeds: str | None = None
    pair_speeds: str | None = None


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
    Parameter(
        "speeds",
        "text",
        None,
        "measured speeds of jobs under truth=measured: gavel_simulation, gavel_physical, or a CSV file of "
        "model, batch, gpus, gpu_type, consolidated, steps_per_s; none = gavel_simulation",
        source="docs/workloads.md#measured-speeds; Narayanan et al., OSDI 2020",
    ),
    Parameter(
        "pair_speeds",
        "text",
        None,
        "CSV file, besides that of speeds, of jobs that share a GPU: gpu_type, model_a, batch_a, model_b, "
        "batch_b, steps_per_s_a, steps_per_s_b",
        source="docs/workloads.md#measured-speeds",
    ),
    replace(
        FRAGMENTATION_TARGET.parameter,
        kind="text",
        meaning="typical tasks, to which GPUs that they cannot use are fragments. trace: of the whole "
        "workload; arrived: of the jobs that have come; or a CSV file of them: cpu_milli, gpu_milli, "
        "num_gpu, gpu_types, share",
        choices=(),
    ),
)
"""World parameters that are read from files before the engine sees them."""

WORLD = (*(each for each in WORLD_PARAMETERS if each.name not in ServerFiles._fields), *FILES)
"""World parameters of a scenario: the engine's, and those of `FILES`."""


def split_world(world: Mapping[str, _Value]) -> tuple[dict[str, _Value], ServerFiles]:
    """Split world parameters into the engine's and the files that it names.

    Measured speeds have a default, which is a file too.
    """
    words = FRAGMENTATION_TARGET.parameter.choices
    of_engine = {"fragmentation_target"} if world.get("fragmentation_target") in words else set()
    rest = {name: value for name, value in world.items() if name not in {*ServerFiles._fields} - of_engine}
    named: dict[str, object] = {
        name: None if name in of_engine else world.get(name) for name in ServerFiles._fields
    }
    if world.get("truth") == "measured" and named["speeds"] is None:
        named["speeds"] = GAVEL
    return rest, ServerFiles(**{name: None if path is None else str(path) for name, path in named.items()})


def with_server_files(cluster: Cluster, files: ServerFiles) -> Cluster:
    """The cluster with the facts of these files; what no file is named for stays."""
    if files.availability is not None:
        cluster = replace(cluster, availability=read_availability(files.availability, cluster))
    if files.interference is not None:
        cluster = replace(cluster, interference=load_interference(files.interference))
    if files.links is not None:
        cluster = replace(cluster, links=read_links(files.links, cluster))
    if files.delays is not None:
        cluster = replace(cluster, delays=read_delays(files.delays))
    if files.speeds is not None:
        cluster = replace(cluster, speeds=load_speeds(files.speeds, files.pair_speeds))
    elif files.pair_speeds is not None:
        raise InvalidScenarioError("pair_speeds: goes with speeds of single jobs; set speeds=FILE too")
    if files.fragmentation_target is not None:
        cluster = replace(
            cluster, fragmentation_target=read_typical_tasks(files.fragmentation_target, cluster)
        )
    return cluster


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
    for where, cells in csv_rows(path, _Line, ("model", "server_class"), problems, InvalidClusterError):
        try:
            delay = ChunkDelay(**_Line.model_validate_strings(cells).model_dump())
        except ValidationError as failure:
            problems += dotted_problems(failure, _Line.model_fields, where)
            continue
        if delay[:2] in found:
            problems.append(f"{where}the pair '{delay.model}', '{delay.server_class}' has a line already")
        found[delay[:2]] = delay
    if problems:
        raise refusal(problems, path, InvalidClusterError)
    return tuple(found[pair] for pair in sorted(found))


class _Typical(Entry):
    cpu_milli: Annotated[int, Field(ge=0)]
    gpu_milli: Annotated[int, Field(ge=0, le=DEVICE)]
    num_gpu: Annotated[int, Field(ge=0)]
    gpu_types: str = ""
    share: Annotated[float, Field(gt=0, le=1)]


def read_typical_tasks(path: Source, cluster: Cluster) -> tuple[TypicalTask, ...]:
    """Read a CSV file, by path or URL, whose lines are typical tasks, in the order in which they are summed.

    ``gpu_milli`` is of each GPU, ``share`` that of all tasks; shares may sum to less than 1.
    """
    if not is_url(path) and not Path(path).exists():
        raise InvalidClusterError(
            f"fragmentation_target: expected trace, arrived or a CSV file, found {path}, which is no file"
        )
    types = sorted({kind for kind in cluster.gpu_type if kind})
    found: dict[tuple[int, int, int, str], TypicalTask] = {}
    problems: list[str] = []
    for where, cells in csv_rows(
        path, _Typical, ("cpu_milli", "gpu_milli", "num_gpu", "share"), problems, InvalidClusterError
    ):
        try:
            task = TypicalTask(*_Typical.model_validate_strings(cells).model_dump().values())
        except ValidationError as failure:
            problems += dotted_problems(failure, _Typical.model_fields, where)
            continue
        if (task.gpu > 0) != (task.gpus > 0):
            problems.append(
                f"{where}gpu_milli is {task.gpu} and num_gpu {task.gpus}: expected both above 0 or both 0"
            )
        if task.types and not set(types) & set(task.types.split("|")):
            problems.append(
                f"{where}gpu_types: no server is of {task.types}; types: {', '.join(types) or 'none'}"
            )
        if task[:4] in found:
            problems.append(f"{where}the same demand has a line already")
        found[task[:4]] = task
    if not found and not problems:
        problems.append("has no typical task; add lines, or set fragmentation_target=trace")
    if (total := sum(task.share for task in found.values())) > 1 + 1e-6:
        problems.append(f"shares sum to {total:g}; expected at most 1")
    if problems:
        raise refusal(problems, path, InvalidClusterError)
    return tuple(found.values())
