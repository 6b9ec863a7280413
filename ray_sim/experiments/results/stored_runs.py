"""Finished runs: manifests, search in directories, unambiguous labels, and stale results of a sweep."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from ray_sim.experiments.inputs.server_files import WORLD, split_world
from ray_sim.experiments.results.result_files import MANIFEST, PLAN, REMEDY, read_manifest, read_summary
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.run_identity import versions
from ray_sim.experiments.scenario import Partition, Scenario, TrimSpec, Value, WorkloadSpec
from ray_sim.experiments.source_digest import code_sha256
from ray_sim.experiments.sweep_entries import Entry, PolicySpec
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.metrics import Trim
from ray_sim.model.parameters import resolve
from ray_sim.model.result import Summary
from ray_sim.model.text import natural
from ray_sim.reports.tables import in_human_units, summary_rows
from workloads.describe import tally_rows
from workloads.progress import Progress, silent
from workloads.realisation import Tally

SOURCE = "source of ray_sim"
"""Name of the digest of our code among versions."""
_DIGITS = 8
"""Digits of a SHA-256 in the labels of different inputs with the same name."""

DAMAGED = "results that cannot be read"


class RunInputs(BaseModel):
    """Workload and cluster of a run, with the SHA-256 of each that there is."""

    workload: WorkloadSpec
    cluster: str
    workload_sha256: str | None = None
    training_sha256: str | None = None
    announcement_sha256: str | None = None
    layers_sha256: list[str] | None = None
    cluster_sha256: str

    @property
    def jobs_digest(self) -> str:
        """Digest of the files that the jobs come from."""
        workload = self.workload_sha256 or ""
        drawn = self.training_sha256 or self.announcement_sha256 or self.layers_sha256
        return workload if not drawn else hashlib.sha256(f"{workload} {drawn}".encode()).hexdigest()


class RunCode(BaseModel):
    """SHA-256 of the code that made a run, and of a user's policy."""

    code_sha256: str
    policy_source_sha256: str | None


class RunManifest(BaseModel):
    """Origin of a run: inputs, policy, world, seed, versions and hashes."""

    model_config = ConfigDict(strict=True)

    content_hash: str
    scenario_hash: str
    inputs: RunInputs
    policy: str
    parameters: dict[str, Value]
    label: str | None = None
    world: dict[str, Value]
    partition: Partition
    trim: TrimSpec | None
    seed: int | None
    code: RunCode
    versions: dict[str, str]
    files: dict[str, str]

    @property
    def policy_label(self) -> str:
        """The policy's label, or the policy with its parameters, as in tables."""
        return self.label or PolicySpec(name=self.policy, params=self.parameters).configuration

    @property
    def scenario(self) -> Scenario:
        """The scenario with the run's seed, or 0 where any seed gives the same."""
        return Scenario(
            workload=self.inputs.workload,
            cluster=self.inputs.cluster,
            policy=self.policy,
            params=self.parameters,
            label=self.label,
            world=self.world,
            partition=self.partition,
            trim=self.trim,
            seed=self.seed or 0,
        )

    @property
    def entry(self) -> Entry:
        """Hashes of the run, and the labels that a sweep would give it."""
        return Entry.of(self.scenario, self.content_hash, self.seed, self.scenario_hash)

    @property
    def made_with(self) -> dict[str, str]:
        """Versions of packages, and the first digits of the digest of ray_sim's source."""
        return {**self.versions, SOURCE: self.code.code_sha256[:_DIGITS]}


def read_run_manifest(directory: Path) -> RunManifest:
    """Read manifest.json of a run, after checking it against its own SHA-256."""
    try:
        return RunManifest.model_validate(read_manifest(directory))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidInputError(
            f"{directory / MANIFEST}: damaged: {place}: {first['msg']}; run the scenario again"
        ) from error


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
            "label",
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
            *((name, self.manifest[name]) for name in shown if self.manifest.get(name) not in (None, {})),
            *tally_rows(tally),
            *in_human_units(summary_rows(self.summary)),
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
    name is ambiguous, the label gets a suffix: the digest of a workload or cluster, the parameters of
    policies with the same label, and the directory of a policy that has several results for the same jobs
    because its code has changed. Runs of a sweep are in its order; single runs by their labels, numbers in
    these by their values.
    """
    found: dict[tuple[str, str], FoundRun] = {}
    absent: dict[str, Missing] = {}
    names = sorted({name for source in sources for name in _results_in(Path(source))})
    for done, source in enumerate(names, start=1):
        runs, without = _read(source, progress)
        for run in runs:
            found.setdefault((run.entry.content_hash, run.policy), run)
        absent |= {each.entry.content_hash: each for each in without}
        progress(done, len(names), "directories")
    finished = {content_hash for content_hash, _ in found}
    missing = [each for content_hash, each in absent.items() if content_hash not in finished]
    runs = _distinguished(list(found.values()))
    if all(Path(run.source) == run.directory for run in runs):
        runs.sort(key=lambda run: list(map(natural, (*run.entry.place, run.entry.policy))))
    return runs, missing


class RunFolder(ResultStore):
    """Single runs in a folder, read as a sweep of its name; sweeps in it add theirs."""

    def __init__(self, directory: Path) -> None:
        """Read the runs, see `find_runs`."""
        super().__init__(directory)
        self._runs = {run.entry.content_hash: run for run in find_runs([str(directory)])[0]}

    def read_plan(self) -> tuple[str, list[Entry]]:
        """Name of the folder, and its runs."""
        return self.root.resolve().name, [run.entry for run in self._runs.values()]

    def run_directory(self, content_hash: str) -> Path:
        """Directory of the run's files."""
        return self._runs[content_hash].directory

    def has(self, content_hash: str) -> bool:
        """Whether the folder has the run."""
        return content_hash in self._runs

    def outcomes(self, entries: Iterable[Entry]) -> list[ConfigurationOutcome]:
        """Outcomes of the entries, which are all finished."""
        return list(map(ConfigurationOutcome, entries))


def open_store(directory: Path) -> ResultStore | None:
    """Results of a sweep, or those of a folder of runs; None if the directory has neither."""
    if (directory / PLAN).is_file():
        return ResultStore(directory)
    return RunFolder(directory) if any(directory.glob(f"*/{MANIFEST}")) else None


def _results_in(path: Path) -> list[str]:
    """The directory itself if it is that of a run or a sweep, else those in it."""
    for begin in ("", "*/"):
        if found := [each for name in (MANIFEST, PLAN) for each in path.glob(begin + name)]:
            return [str(each.parent) for each in found]
    raise InvalidInputError(
        f"{path}: holds neither a run ({MANIFEST}) nor a sweep ({PLAN}), nor folders of these; "
        "name a directory that `ray-sim run` or `ray-sim sweep` wrote"
    )


def _read(source: str, progress: Progress) -> tuple[list[FoundRun], list[Missing]]:
    path = Path(source)
    if (path / MANIFEST).exists():
        return [_found(source, path)], []
    return _read_sweep(source, ResultStore(path), progress)


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


def present_versions() -> dict[str, str]:
    """Versions with which a run would be made now."""
    return {**versions(), SOURCE: code_sha256()[:_DIGITS]}


def _found(source: str, directory: Path, entry: Entry | None = None) -> FoundRun:
    """Read a stored run; without an entry it has the labels that a sweep would give it."""
    manifest = read_run_manifest(directory)
    inputs, trim, entry = manifest.inputs, manifest.trim, entry or manifest.entry
    drawn = inputs.workload.model_dump(exclude={"path"}, exclude_none=True)
    world = full_world = resolve("the world", WORLD, manifest.world)
    if entry.shared_world is not None:
        world = resolve("the world", WORLD, json.loads(entry.shared_world))
    own = {key: value for key, value in manifest.world.items() if full_world[key] != world[key]}
    world, _ = split_world(world)  # the cluster's hash covers the files
    return FoundRun(
        source=source,
        directory=directory,
        entry=entry,
        workload=f"{inputs.jobs_digest} {json.dumps(drawn, sort_keys=True)}",
        cluster=inputs.cluster_sha256,
        setting=json.dumps([manifest.partition, world, trim and trim.model_dump()], sort_keys=True),
        policy=PolicySpec(
            name=manifest.policy,
            params=dict(sorted(manifest.parameters.items())),
            world=dict(sorted(own.items())),
        ).configuration,
        trim=None if trim is None else trim.trim,
        made_with=manifest.made_with,
        summary=read_summary(directory),
    )


def _distinguished(runs: Sequence[FoundRun]) -> list[FoundRun]:
    workloads, clusters, named = (defaultdict[str, set[str]](set) for _ in range(3))
    policies = defaultdict[str, set[tuple[bool, str]]](set)
    results = defaultdict[tuple[tuple[str, str, str], str, int | None], set[str]](set)
    for run in runs:
        workloads[run.entry.workload].add(run.workload)
        clusters[run.entry.cluster].add(run.cluster)
        policies[run.policy].add((run.entry.labelled is None, run.entry.policy))
        results[run.place, run.policy, run.entry.seed].add(run.entry.content_hash)
    names = {policy: min(found)[1] for policy, found in policies.items()}  # a label before none
    for policy, name in names.items():
        named[name].add(policy)
    changed = {policy for (_, policy, _), hashes in results.items() if len(hashes) > 1}

    def labelled(run: FoundRun) -> FoundRun:
        entry = replace(run.entry, policy=names[run.policy])
        if len(named[entry.policy]) > 1:
            entry = replace(entry, policy=f"{entry.policy} [{run.policy}]")
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


@dataclass(frozen=True, slots=True)
class Dropped:
    """Results of a configuration that the sweep no longer has, all seeds together."""

    label: str
    directories: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class StaleRuns:
    """Results in the store that belong to none of the sweep's configurations."""

    other_code: Mapping[str, Sequence[Path]]
    """Results of other code for the same scenario, by scenario hash of the sweep's configurations."""
    dropped: tuple[Dropped, ...]


def find_stale(store: ResultStore, entries: Iterable[Entry]) -> StaleRuns:
    """Find the store's results that belong to none of these entries."""
    planned = list(entries)
    scenarios = {entry.scenario_hash for entry in planned}
    other_code = defaultdict[str, list[Path]](list)
    dropped = defaultdict[str, list[Path]](list)
    for directory in store.unplanned(planned):
        try:
            entry = read_run_manifest(directory).entry
        except InvalidInputError:
            dropped[DAMAGED].append(directory)
            continue
        if entry.scenario_hash in scenarios:
            other_code[entry.scenario_hash].append(directory)
        else:
            dropped[replace(entry, seed=None).label].append(directory)
    return StaleRuns(
        other_code, tuple(Dropped(label, tuple(directories)) for label, directories in dropped.items())
    )


def other_versions(store: ResultStore, entries: Sequence[Entry]) -> list[str]:
    """One line per package, or source, whose version in results of these entries differs from today's."""
    now = present_versions()
    counts = Counter[tuple[str, str]]()
    for entry in entries:
        there = read_run_manifest(store.run_directory(entry.content_hash)).made_with
        counts.update(item for item in there.items() if item[1] != now.get(item[0]))
    return [
        f"{name} {version} in {number} of {len(entries)}, {now.get(name, 'none')} now"
        for (name, version), number in sorted(counts.items())
    ]
