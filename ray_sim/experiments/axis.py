"""Values of an axis of a sweep as numbers: settings by name, and servers, GPUs and price of clusters.

`compare --across`, reports, notebooks and MLflow place runs by them.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path

from ray_sim.experiments.figures.cells import flat_entries
from ray_sim.experiments.inputs.cluster_file import split_counts
from ray_sim.experiments.inputs.server_files import WORLD
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.results.stored_runs import RunManifest, read_run_manifest
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import RaySimError
from ray_sim.model.parameters import resolve
from ray_sim.model.units import QUANTA_PER_UNIT
from ray_sim.reports.across import Across, Scale, scale_of, turned
from workloads.sources import is_url

Settings = Mapping[str, object]
"""Settings of a place by dotted name, such as ``workload.load_scale`` or ``cluster.server.count``."""

_PARTS = {Across.WORKLOAD: ("workload.",), Across.WORLD: ("world.", "partition", "trim")}
"""Beginnings of the names of the settings that an axis consists of."""


def place_settings(entry: Entry, scenario: Scenario) -> Settings:
    """Settings that the policies of a place share; those that are not given have their defaults."""
    world = scenario.world if entry.shared_world is None else json.loads(entry.shared_world)
    file, counts = split_counts(scenario.cluster)
    return {
        **flat_entries("workload", scenario.workload.model_dump()),
        "cluster": str(file),
        **{f"cluster.{name}.count": count for name, count in counts.items()},
        **flat_entries("world", resolve("the world", WORLD, world)),
        "partition": scenario.partition,
        **flat_entries("trim", scenario.trim and scenario.trim.model_dump()),
    }


def varying(places: Iterable[Settings]) -> list[str]:
    """Names of the settings that differ among the places, in order."""
    values: dict[str, list[object]] = {}
    for settings in places:
        for name, value in settings.items():
            values.setdefault(name, []).append(value)
    return [name for name, found in values.items() if any(value != found[0] for value in found)]


def sweep_scale(across: Across, store: ResultStore, finished: Iterable[Entry]) -> Scale | None:
    """`find_scale` of runs of one sweep, whose labels are unambiguous."""
    runs = []
    for entry in finished:
        place, line, value = turned(entry.place, entry.policy, across)
        runs.append(((place, line), value, entry, store.run_directory(entry.content_hash)))
    return find_scale(across, runs)


def find_scale(across: Across, runs: Iterable[tuple[Hashable, str, Entry, Path]]) -> Scale | None:
    """Scale of the values of an axis; None where no line has two of them.

    Parameters
    ----------
    runs : line, value of the axis, labels and directory of each finished run, in the order of the sweep
    """
    lines: dict[Hashable, dict[str, tuple[Entry, Path]]] = {}
    for line, value, entry, directory in runs:
        lines.setdefault(line, {}).setdefault(value, (entry, directory))
    found: dict[str, tuple[Entry, Path]] = {}
    for values in lines.values():
        found = {**found, **values, **found} if len(values) > 1 else found
    if not found:
        return None
    inputs, facts = HashedInputs(), dict[str, Settings]()
    for value, (entry, directory) in found.items():
        facts[value] = _facts(across, entry, read_run_manifest(directory), inputs)
    names = varying(facts.values())
    names = ["price", "servers", "GPUs"] if across is Across.CLUSTER else names if len(names) == 1 else []
    return scale_of(across, facts, names)


def _facts(across: Across, entry: Entry, manifest: RunManifest, inputs: HashedInputs) -> Settings:
    """Settings of a run that belong to an axis."""
    if across is Across.PARAMS:
        return manifest.parameters
    if across is Across.CLUSTER:
        return cluster_numbers(manifest, inputs)
    settings = place_settings(entry, manifest.scenario)
    return {name: value for name, value in settings.items() if name.startswith(_PARTS[across])}


def cluster_numbers(manifest: RunManifest, inputs: HashedInputs) -> dict[str, float]:
    """Price, if it has one, servers and GPUs of a run's cluster; nothing if its file is not as it was."""
    ref, known = manifest.inputs.cluster, manifest.inputs.cluster_sha256
    try:
        if is_url(ref) or inputs.cluster_sha256(ref, manifest.world) != known:
            return {}
    except RaySimError:  # not where it was
        return {}
    cluster = inputs.cluster(ref)
    gpus = int(cluster.capacity[:, cluster.resources.index("gpu")].sum()) / QUANTA_PER_UNIT["gpu"]
    price = {} if cluster.price is None else {"price": sum(cluster.price)}
    return {**price, "servers": len(cluster), "GPUs": gpus}
