"""Finished runs found in directories, under labels that mean one thing each."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ray_sim.experiments.availability_file import WORLD, split_world
from ray_sim.experiments.result_files import MANIFEST, read_manifest, read_summary
from ray_sim.experiments.scenario import Scenario
from ray_sim.experiments.store import PLAN, ResultStore
from ray_sim.experiments.sweep_file import Entry, PolicySpec
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.metrics import Trim
from ray_sim.model.parameters import resolve
from ray_sim.model.result import Summary

_DIGITS = 8
"""Of a SHA-256, to tell apart what bears one name."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A configuration of a sweep without a result."""

    entry: Entry
    error: str | None
    """Null where it has not run."""


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A finished run: what it is of, under which labels, and where it was found."""

    source: str
    directory: Path
    entry: Entry
    workload: str
    """Its content, whatever its name; so are the next two."""
    cluster: str
    setting: str
    policy: str
    """Name and parameters, whatever their order."""
    trim: Trim | None
    """Which of its jobs the summary counts; null for all."""
    summary: Summary

    @property
    def place(self) -> tuple[str, str, str]:
        """Runs of one place can be compared."""
        return self.workload, self.cluster, self.setting


def find_runs(sources: Iterable[str]) -> tuple[list[FoundRun], list[Missing]]:
    """All finished runs of sweeps and single runs, and the configurations without a result.

    A run counts once however often it is found, and the order of the sources does not matter. Where a
    name stands for several things the label says which: a workload or cluster gets its digest, and a
    policy with several results for the same jobs, because its code has changed, its source.

    Raises
    ------
    InvalidInputError : a source holds neither a run nor a sweep, or is damaged
    """
    found: dict[tuple[str, str], FoundRun] = {}
    absent: dict[str, Missing] = {}
    for source in sorted(set(sources)):
        runs, without = _read(source)
        for run in runs:
            found.setdefault((run.entry.content_hash, run.policy), run)
        absent |= {each.entry.content_hash: each for each in without}
    finished = {content_hash for content_hash, _ in found}
    missing = [each for content_hash, each in absent.items() if content_hash not in finished]
    return _told_apart(list(found.values())), missing


def _read(source: str) -> tuple[list[FoundRun], list[Missing]]:
    path = Path(source)
    if (path / MANIFEST).exists():
        return [_found(source, path)], []
    if (path / PLAN).exists():
        return _read_sweep(source, ResultStore(path))
    raise InvalidInputError(
        f"{source}: holds neither a run ({MANIFEST}) nor a sweep ({PLAN}); "
        "name a directory that `ray-sim run` or `ray-sim sweep` wrote"
    )


def _read_sweep(source: str, store: ResultStore) -> tuple[list[FoundRun], list[Missing]]:
    _, entries = store.read_plan()
    outcomes = {outcome.entry: outcome.error for outcome in store.outcomes(entries)}
    finished = {entry for entry, error in outcomes.items() if error is None}
    missing = [Missing(entry, outcomes.get(entry)) for entry in entries if entry not in finished]
    runs = [
        _found(source, store.run_directory(entry.content_hash), entry)
        for entry in entries
        if entry in finished
    ]
    return runs, missing


def _found(source: str, directory: Path, entry: Entry | None = None) -> FoundRun:
    """A stored run; without an entry its labels are those that a sweep would give it."""
    manifest = read_manifest(directory)
    try:
        inputs = TypeAdapter(dict[str, object]).validate_python(manifest["inputs"])
        seed = TypeAdapter(int | None).validate_python(manifest["seed"])
        scenario = Scenario.model_validate(
            {
                "workload": inputs["workload"],
                "cluster": inputs["cluster"],
                "policy": manifest["policy"],
                "params": manifest["parameters"],
                "world": manifest["world"],
                "partition": manifest["partition"],
                "trim": manifest["trim"],
            }
        )
        cluster = str(inputs["cluster_sha256"])
    except (KeyError, ValidationError) as error:
        raise InvalidInputError(f"{directory / MANIFEST}: damaged; run the scenario again") from error
    drawn = scenario.workload.model_dump(exclude={"path"}, exclude_none=True)
    world, _ = split_world(resolve("the world", WORLD, scenario.world))  # the cluster's hash has the table
    return FoundRun(
        source=source,
        directory=directory,
        entry=entry or Entry.of(scenario, str(manifest["content_hash"]), seed),
        workload=f"{_digest(inputs)} {json.dumps(drawn, sort_keys=True)}",
        cluster=cluster,
        setting=json.dumps([scenario.partition, world, manifest["trim"]], sort_keys=True),
        policy=PolicySpec(name=scenario.policy, params=dict(sorted(scenario.params.items()))).label,
        trim=None if scenario.trim is None else scenario.trim.trim,
        summary=read_summary(directory),
    )


def _digest(inputs: Mapping[str, object]) -> str:
    """Of the files that the jobs come from."""
    workload, training = str(inputs.get("workload_sha256", "")), inputs.get("training_sha256")
    return workload if training is None else hashlib.sha256(f"{workload} {training}".encode()).hexdigest()


def _told_apart(runs: Sequence[FoundRun]) -> list[FoundRun]:
    workloads, clusters, policies = (defaultdict[str, set[str]](set) for _ in range(3))
    results = defaultdict[tuple[tuple[str, str, str], str, int | None], set[str]](set)
    for run in runs:
        workloads[run.entry.workload].add(run.workload)
        clusters[run.entry.cluster].add(run.cluster)
        policies[run.policy].add(run.entry.policy)
        results[run.place, run.policy, run.entry.seed].add(run.entry.content_hash)
    changed = {policy for (_, policy, _), hashes in results.items() if len(hashes) > 1}

    def labelled(run: FoundRun) -> FoundRun:
        entry = replace(run.entry, policy=min(policies[run.policy]))
        if len(workloads[entry.workload]) > 1:
            entry = replace(entry, workload=f"{entry.workload} [{run.workload[:_DIGITS]}]")
        if len(clusters[entry.cluster]) > 1:
            entry = replace(entry, cluster=f"{entry.cluster} [{run.cluster[:_DIGITS]}]")
        if run.policy in changed:
            entry = replace(entry, policy=f"{entry.policy} [{run.source}]")
        return replace(run, entry=entry)

    return [labelled(run) for run in runs]
