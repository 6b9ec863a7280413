"""Reader of cluster descriptions: a YAML file, a CSV list of servers, or the name of a bundled one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field, ValidationError

import cluster_specs
from ray_sim.engine.limits import SPEEDS
from ray_sim.experiments.inputs.server_changes import read_availability
from ray_sim.experiments.inputs.team_entries import (
    ClassEntry,
    TeamEntry,
    class_problems,
    job_classes,
    team_problems,
    teams,
)
from ray_sim.model.cluster import Cluster, ServerKind, memory_mib, slots_per_gpu
from ray_sim.model.errors import InvalidClusterError, UnknownNameError
from ray_sim.model.units import IntArray, capacity_quanta
from workloads.documents import Entry, csv_rows, dotted_problems, parse_yaml, read_text, refusal
from workloads.sources import Source, beside, check_url, is_url, name_of, unsent

SOLE = "servers"
"""Name that stands for the only entry of a file where numbers of servers are changed."""

_COUNTS = re.compile(r"(?P<file>.+)@(?P<counts>[^@,=]+\.count=\d{1,9}(?:,[^@,=]+\.count=\d{1,9})*)", re.ASCII)

MAX_SERVERS = 1_000_000
"""Largest number of servers; a larger one is taken for a typing error."""

MAX_AMOUNT = 1e9
"""Largest amount of a resource on one server. `MAX_SERVERS` of them still fit in int64 quanta."""

MAX_SLOTS = 2**20
"""Largest number of workers or parameter servers on one server."""

FIELD_OF_RESOURCE = {
    "gpu": "gpus",
    "cpu": "cpus",
    **{name: name for name in ("memory_gib", "disk_gib", "cpu_norm", "memory_norm", "disk_norm")},
}
"""The file's key for each resource, in the order of a cluster's resource axis."""


def _printable(text: str) -> str:
    if not text.isprintable() or text != text.strip():
        raise ValueError("must be printable text without spaces around it")
    return text


Label = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Amount = Annotated[float, Field(ge=0, le=MAX_AMOUNT, allow_inf_nan=False)]
Slots = Annotated[int, Field(ge=0, le=MAX_SLOTS)]
Speed = Annotated[float, Field(ge=SPEEDS[0], le=SPEEDS[1], allow_inf_nan=False)]


class _GpuType(Entry):
    speed: Speed = 1.0


class _Servers(Entry):
    """`count` identical servers."""

    name: Label
    count: Annotated[int, Field(ge=1, le=MAX_SERVERS)] = 1
    gpus: Amount
    cpus: Amount | None = None
    memory_gib: Amount | None = None
    disk_gib: Amount | None = None
    cpu_norm: Amount | None = None
    memory_norm: Amount | None = None
    disk_norm: Amount | None = None
    gpu_type: Label | None = None
    vc: Label | None = None
    kind: Annotated[ServerKind, Field(strict=False)] = ServerKind.PLAIN
    workers: Slots | None = None
    ps: Slots | None = None
    worker_memory_gib: Amount | None = None
    ps_memory_gib: Amount | None = None
    sockets: Annotated[int, Field(ge=1, le=MAX_SLOTS)] | None = None
    server_class: Label | None = None
    price: Annotated[float, Field(gt=0, le=MAX_AMOUNT, allow_inf_nan=False)] | None = None

    def server_names(self) -> list[str]:
        return [self.name] if self.count == 1 else [f"{self.name}-{i}" for i in range(self.count)]


class _CsvServers(_Servers):
    """A line of a CSV list. It states the speed itself, since a CSV list has no table of GPU types."""

    speed: Speed = 1.0


class _ClusterFile(Entry):
    """A YAML file. The loader checks its servers one by one, so that it finds every problem."""

    name: Label
    gpu_types: dict[Label, _GpuType] = Field(default_factory=dict)
    availability: Label | None = None
    classes: dict[Label, ClassEntry] = Field(default_factory=dict)
    teams: dict[Label, TeamEntry] = Field(default_factory=dict)
    servers: Annotated[list[object], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class _Group:
    """Identical servers, and the place in the file that describes them."""

    where: str
    """Prefix of a key in messages: ``servers[2].`` or ``line 5, ``."""
    servers: _Servers
    speed: float


def load_cluster(ref: Source) -> Cluster:
    """Read a cluster from a YAML file, a CSV list of servers, or the bundled descriptions.

    Parameters
    ----------
    ref : a path or URL ending in .yaml, .yml or .csv, or the bare name of a bundled cluster; where both
        exist, the file is read. Numbers of servers may follow, see `with_counts`

    Raises
    ------
    InvalidClusterError : the file cannot be read or breaks its rules; every problem is listed
    UnknownNameError : neither a file nor a bundled cluster
    """
    file, counts = split_counts(ref) if "@" in str(ref) else (ref, {})
    path = _find(file)
    if name_of(path).suffix in (".yaml", ".yml"):
        return _load_yaml(path, counts)
    if name_of(path).suffix == ".csv":
        return _load_csv(path, counts)
    raise InvalidClusterError(f"{path}: a cluster file must end in .yaml, .yml or .csv")


def bundled_clusters() -> dict[str, Path]:
    """Paths of the bundled descriptions by name."""
    folder = Path(next(iter(cluster_specs.__path__)))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def with_counts(ref: Source, counts: Mapping[str, int]) -> str:
    """Reference of a cluster with other numbers of servers, such as ``pool-368@server.count=12``.

    Parameters
    ----------
    counts : number by the name of an entry of the file, or by `SOLE`; they replace those of ``ref``
    """
    file, given = split_counts(ref)
    found = f"{file}@{','.join(f'{name}.count={count}' for name, count in {**given, **counts}.items())}"
    if split_counts(found)[1] != {**given, **counts}:
        raise InvalidClusterError(
            f"{', '.join(counts)}: expected entries with names without '@', ',' and '='"
        )
    return found


def split_counts(ref: Source) -> tuple[Source, dict[str, int]]:
    """File or bundled name of a reference, and its numbers of servers by entry."""
    found = _COUNTS.fullmatch(str(ref))
    if found is None:
        return ref, {}
    pairs = (each.rsplit(".count=", 1) for each in found["counts"].split(","))
    return found["file"], {name: int(count) for name, count in pairs}


def _find(ref: Source) -> Source:
    if is_url(ref):
        check_url(str(ref), InvalidClusterError)
        return ref
    path = Path(ref)
    try:
        exists, is_file = path.exists(), path.is_file()
    except OSError:  # a name too long, or a folder closed to us
        exists = is_file = False
    if is_file:
        return path
    bundled = bundled_clusters()
    if str(ref) in bundled:
        return bundled[str(ref)]
    if exists:
        raise InvalidClusterError(f"{path}: is not a file; name a .yaml or .csv file")
    if path.suffix in (".yaml", ".yml", ".csv") or len(path.parts) > 1:
        names = ", ".join(bundled)
        raise InvalidClusterError(f"{path}: no such file{unsent(path)}. Bundled clusters: {names}")
    raise UnknownNameError("cluster", str(ref), bundled)


def _load_yaml(path: Source, counts: Mapping[str, int]) -> Cluster:
    data = parse_yaml(read_text(path, InvalidClusterError), str(path), InvalidClusterError)
    problems: list[str] = []
    head = None
    try:
        head = _ClusterFile.model_validate(data)
    except ValidationError as failure:
        problems += dotted_problems(failure, _ClusterFile.model_fields)
    entries = data.get("servers") if isinstance(data, dict) else None
    groups = []
    for i, entry in enumerate(entries if isinstance(entries, list) else []):
        where = f"servers[{i}]."
        try:
            servers = _Servers.model_validate(entry)
        except ValidationError as failure:
            problems += dotted_problems(failure, _Servers.model_fields, where)
            continue
        speed = 1.0
        if head is not None and servers.gpu_type is not None:
            if servers.gpu_type in head.gpu_types:
                speed = head.gpu_types[servers.gpu_type].speed
            else:
                unknown = UnknownNameError("GPU type", servers.gpu_type, head.gpu_types)
                problems.append(f"{where}gpu_type: {unknown} (declared under gpu_types)")
        groups.append(_Group(where, servers, speed))
    if head is not None:
        types = {group.servers.gpu_type for group in groups if group.servers.gpu_type is not None}
        problems += class_problems(head.classes)
        problems += team_problems(head.teams, _declared_resources(groups), types)
    cluster = _build(head.name if head else "", groups, problems, path, counts)
    if head is None:
        return cluster
    cluster = replace(cluster, classes=job_classes(head.classes), teams=teams(head.teams))
    if head.availability is None:
        return cluster
    return replace(cluster, availability=read_availability(beside(path, head.availability), cluster))


def _load_csv(path: Source, counts: Mapping[str, int]) -> Cluster:
    problems: list[str] = []
    groups = []
    for where, cells in csv_rows(path, _CsvServers, ("name", "gpus"), problems, InvalidClusterError):
        try:
            servers = _CsvServers.model_validate_strings(cells)
        except ValidationError as failure:
            problems += dotted_problems(failure, _CsvServers.model_fields, where)
        else:
            groups.append(_Group(where, servers, servers.speed))
    return _build(name_of(path).stem, groups, problems, path, counts)


def _build(
    name: str, groups: Sequence[_Group], problems: list[str], path: Source, changed: Mapping[str, int]
) -> Cluster:
    """Build the cluster of these groups; the error lists `problems` and those found across groups."""
    if changed and not problems:
        groups, name = _recounted(groups, changed, path), with_counts(name, changed)
    resources = _declared_resources(groups)
    problems = [*problems, *_gaps(groups, resources), *_slot_problems(groups), *_name_problems(groups)]
    if problems:
        raise refusal(problems, path, InvalidClusterError)
    counts = np.array([group.servers.count for group in groups], dtype=np.int64)
    capacity = np.stack(
        [capacity_quanta([_declared(g, r) or 0.0 for g in groups], r) for r in resources], axis=1
    )
    if not capacity.any():
        raise InvalidClusterError(f"{path}: no server offers anything; give one of them GPUs or CPUs")
    each = [group.servers for group in groups for _ in range(group.servers.count)]
    capacity_of_each = np.repeat(capacity, counts, axis=0)
    gpu = resources.index("gpu")
    return Cluster(
        name=name,
        server_names=tuple(name for group in groups for name in group.servers.server_names()),
        resources=resources,
        capacity=capacity_of_each,
        speed=np.repeat(np.array([group.speed for group in groups], dtype=np.float64), counts),
        vc=tuple(servers.vc for servers in each),
        kind=tuple(servers.kind for servers in each),
        gpu_type=tuple(servers.gpu_type for servers in each),
        workers=_slots([servers.workers for servers in each], capacity_of_each[:, gpu]),
        ps=_slots([servers.ps for servers in each], capacity_of_each[:, gpu]),
        worker_memory=memory_mib([servers.worker_memory_gib for servers in each]),
        ps_memory=memory_mib([servers.ps_memory_gib for servers in each]),
        sockets=_sockets([servers.sockets for servers in each]),
        server_class=tuple(servers.server_class for servers in each),
        entry=tuple(servers.name for servers in each),
        price=tuple(filter(None, (servers.price for servers in each))) or None,
    )


def _recounted(groups: Sequence[_Group], counts: Mapping[str, int], path: Source) -> list[_Group]:
    """The groups with these numbers of servers; those with 0 are left out."""
    names = [group.servers.name for group in groups]
    new: dict[int, int] = {}
    for name, count in counts.items():
        sought = names[0] if name == SOLE and SOLE not in names and len(names) == 1 else name
        if names.count(sought) != 1:
            sole = f", or {SOLE}.count" if len(names) == 1 else ""
            raise InvalidClusterError(
                f"{path}: {name}.count={count}: expected the name of one entry, found {names.count(sought)} "
                f"of this name; entries: {', '.join(dict.fromkeys(names))}{sole}"
            )
        if names.index(sought) in new:
            raise InvalidClusterError(f"{path}: {SOLE}.count and {sought}.count are the same entry; give one")
        new[names.index(sought)] = count
    kept = [
        replace(group, servers=group.servers.model_copy(update={"count": new.get(i, group.servers.count)}))
        for i, group in enumerate(groups)
        if new.get(i) != 0
    ]
    if not kept:
        raise InvalidClusterError(f"{path}: with these counts there is no server")
    return kept


def _slots(declared: Sequence[int | None], milli_gpus: IntArray) -> IntArray | None:
    """Slots that each server declares, or one per whole GPU; None where no server declares any."""
    if all(slots is None for slots in declared):
        return None
    given = np.array([-1 if slots is None else slots for slots in declared], dtype=np.int64)
    return np.where(given < 0, slots_per_gpu(milli_gpus), given)


def _sockets(declared: Sequence[int | None]) -> IntArray | None:
    """Sockets that each server declares, or one; None where no server declares any."""
    if all(sockets is None for sockets in declared):
        return None
    return np.array([1 if sockets is None else sockets for sockets in declared], dtype=np.int64)


def _declared(group: _Group, resource: str) -> float | None:
    amount: float | None = getattr(group.servers, FIELD_OF_RESOURCE[resource])
    return amount


def _declared_resources(groups: Sequence[_Group]) -> tuple[str, ...]:
    """GPUs, and every resource that some server declares."""
    return tuple(
        resource
        for resource in FIELD_OF_RESOURCE
        if resource == "gpu" or any(_declared(group, resource) is not None for group in groups)
    )


def _gaps(groups: Sequence[_Group], resources: Iterable[str]) -> Iterator[str]:
    """Yield a problem for each resource, and each price, that some servers declare and others do not."""
    priced = any(group.servers.price is not None for group in groups)
    for group in groups:
        for resource in resources:
            if _declared(group, resource) is None:
                field = FIELD_OF_RESOURCE[resource]
                yield f"{group.where}{field}: is missing, but other servers declare it; 0 means none"
        if priced and group.servers.price is None:
            yield f"{group.where}price: is missing, but other servers declare it"


def _slot_problems(groups: Sequence[_Group]) -> Iterator[str]:
    for group in groups:
        for field in ("workers", "ps"):
            if group.servers.kind == ServerKind.CLOUD and getattr(group.servers, field) is not None:
                yield f"{group.where}{field}: a cloud offers an unlimited number; leave it out"


def _name_problems(groups: Sequence[_Group]) -> Iterator[str]:
    total = sum(group.servers.count for group in groups)
    if total > MAX_SERVERS:
        yield f"servers: at most {MAX_SERVERS:,} in all, got {total:,}"
        return
    owners: dict[str, _Group] = {}
    for group in groups:
        twice = next((name for name in group.servers.server_names() if name in owners), None)
        if twice is not None:
            first = owners[twice].where.rstrip("., ")
            yield f"{group.where}name: a server '{twice}' is already in {first}"
        owners.update(dict.fromkeys(group.servers.server_names(), group))
