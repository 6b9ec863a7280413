"""Finished runs: search in directories, unambiguous labels, and the lines that are printed of one."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ray_sim.experiments.inputs.server_files import WORLD, split_world
from ray_sim.experiments.results.result_files import MANIFEST, PLAN, REMEDY, read_manifest, read_summary
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import versions
from ray_sim.experiments.scenario import Scenario
from ray_sim.experiments.source_digest import code_sha256
from ray_sim.experiments.sweep_entries import Entry, PolicySpec
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.metrics import Trim
from ray_sim.model.parameters import resolve
from ray_sim.model.result import Summary
from ray_sim.reports.tables import summary_rows
from workloads.describe import tally_rows
from workloads.progress import Progress, silent
from workloads.realisation import Tally

SOURCE = "source of ray_sim"
"""Name of the digest of our code among versions."""
_DIGITS = 8
"""Digits of a SHA-256 in the labels of different inputs with the same name."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """Manifest and summary of a result directory, without the per-job tables."""

    manifest: Mapping[str, object]
    summary: Summary

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict for JSON."""
        return {"manifest": dict(self.manifest), "summary": self.summary.to_dict()}

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of the printed table."""
        shown = (
            "policy",
            "parameters",
            "world",
            "partition",
            "trim",
            "seed",
            "loop",
            "loop_reason",
            "content_hash",
        )
        try:
            tally = TypeAdapter(Tally).validate_python(self.manifest["jobs"])
        except ValidationError as error:
            raise InvalidInputError(f"{MANIFEST}: jobs: damaged; {REMEDY}") from error
        return [
            *((name, self.manifest[name]) for name in shown if self.manifest[name] not in (None, {})),
            *tally_rows(tally),
            *summary_rows(self.summary),
        ]


@dataclass(frozen=True, slots=True)
class Missing:
    """A configuration of a sweep without a result."""

    entry: Entry
    error: str | None
    """Error of the run; None if it has not run."""


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A finished run: its inputs, labels and directory."""

    source: str
    directory: Path
    entry: Entry
    workload: str
    """Digest of the workload's content; the next two fields are also independent of names."""
    cluster: str
    setting: str
    policy: str
    """Name and parameters of the policy, in any order."""
    trim: Trim | None
    """Trim of the jobs that the summary counts; None counts all."""
    made_with: Mapping[str, str]
    """Versions of packages, and the first digits of the digest of ray_sim's source."""
    summary: Summary

    @property
    def place(self) -> tuple[str, str, str]:
        """Key of the place; runs with the same key can be compared."""
        return self.workload, self.cluster, self.setting


def find_runs(sources: Iterable[str], progress: Progress = silent) -> tuple[list[FoundRun], list[Missing]]:
    """Find all finished runs of sweeps and single runs, and the configurations without a result.

    A run that is found several times counts once, and the order of the sources does not matter. Where a
    name is ambiguous, the label gets a suffix: the digest of a workload or cluster, and the directory of a
    policy that has several results for the same jobs because its code has changed.

    Parameters
    ----------
    progress : called with the number of runs read of each sweep, and of sources

    Raises
    ------
    InvalidInputError : a source holds neither a run nor a sweep, or is damaged
    """
    found: dict[tuple[str, str], FoundRun] = {}
    absent: dict[str, Missing] = {}
    names = sorted(set(sources))
    for done, source in enumerate(names, start=1):
        runs, without = _read(source, progress)
        for run in runs:
            found.setdefault((run.entry.content_hash, run.policy), run)
        absent |= {each.entry.content_hash: each for each in without}
        progress(done, len(names), "directories")
    finished = {content_hash for content_hash, _ in found}
    missing = [each for content_hash, each in absent.items() if content_hash not in finished]
    return _distinguished(list(found.values())), missing


def _read(source: str, progress: Progress) -> tuple[list[FoundRun], list[Missing]]:
    path = Path(source)
    if (path / MANIFEST).exists():
        return [_found(source, path)], []
    if (path / PLAN).exists():
        return _read_sweep(source, ResultStore(path), progress)
    raise InvalidInputError(
        f"{source}: holds neither a run ({MANIFEST}) nor a sweep ({PLAN}); "
        "name a directory that `ray-sim run` or `ray-sim sweep` wrote"
    )


def _read_sweep(source: str, store: ResultStore, progress: Progress) -> tuple[list[FoundRun], list[Missing]]:
    _, entries = store.read_plan()
    outcomes = {outcome.entry: outcome.error for outcome in store.outcomes(entries)}
    finished = {entry for entry, error in outcomes.items() if error is None}
    missing = [Missing(entry, outcomes.get(entry)) for entry in entries if entry not in finished]
    runs: list[FoundRun] = []
    for entry in entries:
        if entry in finished:
            runs.append(_found(source, store.run_directory(entry.content_hash), entry))
            progress(len(runs), len(finished), f"runs of {source}")
    return runs, missing


def stored_entry(directory: Path) -> Entry:
    """Entry of a stored run: its hashes, and the labels that a sweep would give it; raises as `find_runs`."""
    return _described(directory).entry


def stored_scenario(directory: Path) -> Scenario:
    """Scenario of a stored run, with its seed, or 0 where any seed gives the same; raises as `find_runs`."""
    described = _described(directory)
    return described.scenario.model_copy(update={"seed": described.entry.seed or 0})


@dataclass(frozen=True, slots=True)
class _Described:
    """Fields of a manifest that identify a run."""

    entry: Entry
    scenario: Scenario
    inputs: Mapping[str, object]
    made_with: Mapping[str, str]


def versions_of(directory: Path) -> dict[str, str]:
    """Versions of packages, and of our code, that made a result; raises as `find_runs`."""
    return dict(_described(directory).made_with)


def present_versions() -> dict[str, str]:
    """Versions with which a run would be made now."""
    return {**versions(), SOURCE: code_sha256()[:_DIGITS]}


def _described(directory: Path) -> _Described:
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
        code = TypeAdapter(dict[str, str | None]).validate_python(manifest["code"])
        packages = TypeAdapter(dict[str, str]).validate_python(manifest["versions"])
        made_with = {**packages, SOURCE: str(code["code_sha256"])[:_DIGITS]}
        hashes = str(manifest["content_hash"]), seed, str(manifest["scenario_hash"])
        return _Described(Entry.of(scenario, *hashes), scenario, inputs, made_with)
    except (KeyError, ValidationError) as error:
        raise InvalidInputError(f"{directory / MANIFEST}: damaged; run the scenario again") from error


def _found(source: str, directory: Path, entry: Entry | None = None) -> FoundRun:
    """Read a stored run; without an entry it has the labels that a sweep would give it."""
    described = _described(directory)
    scenario, inputs = described.scenario, described.inputs
    trim = scenario.trim
    drawn = scenario.workload.model_dump(exclude={"path"}, exclude_none=True)
    entry = entry or described.entry
    world = full_world = resolve("the world", WORLD, scenario.world)
    if entry.shared_world is not None:
        world = resolve("the world", WORLD, json.loads(entry.shared_world))
    own = {key: value for key, value in scenario.world.items() if full_world[key] != world[key]}
    world, _ = split_world(world)  # the cluster's hash covers the files
    return FoundRun(
        source=source,
        directory=directory,
        entry=entry,
        workload=f"{_digest(inputs)} {json.dumps(drawn, sort_keys=True)}",
        cluster=str(inputs.get("cluster_sha256")),
        setting=json.dumps([scenario.partition, world, trim and trim.model_dump()], sort_keys=True),
        policy=PolicySpec(
            name=scenario.policy,
            params=dict(sorted(scenario.params.items())),
            world=dict(sorted(own.items())),
        ).label,
        trim=None if trim is None else trim.trim,
        made_with=described.made_with,
        summary=read_summary(directory),
    )


def _digest(inputs: Mapping[str, object]) -> str:
    """Digest of the files that the jobs come from."""
    workload = str(inputs.get("workload_sha256", ""))
    kinds = ("training_sha256", "announcement_sha256", "layers_sha256")
    drawn = next((inputs[kind] for kind in kinds if inputs.get(kind)), None)
    return workload if drawn is None else hashlib.sha256(f"{workload} {drawn}".encode()).hexdigest()


def _distinguished(runs: Sequence[FoundRun]) -> list[FoundRun]:
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


def differing_versions(runs: Iterable[FoundRun]) -> list[str]:
    """One line per package, or source, of which a run has another version than it would have now."""
    now = present_versions()
    counts = defaultdict[str, Counter[str]](Counter)
    for run in runs:
        for name, version in run.made_with.items():
            counts[name][version] += 1
    return [
        f"{name}: "
        + ", ".join(f"{version} in {number} runs" for version, number in sorted(found.items()))
        + f", {now.get(name, 'none')} now"
        for name, found in sorted(counts.items())
        if {*found} != {now.get(name)}
    ]
