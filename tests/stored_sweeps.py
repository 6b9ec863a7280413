"""Sweeps whose results are written by hand: three jobs on one GPU, of which the last completion is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ray_sim.experiments.results.result_files import encode_result
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.scenario import Scenario
from ray_sim.experiments.sweep_entries import Detail, Entry
from ray_sim.model.result import RunResult
from tests.results_by_hand import three_jobs
from tests.stored_by_hand import manifest

WORKLOAD_SHA256 = "0123456789abcdef" * 4


def entry_of(scenario: Scenario, number: int) -> Entry:
    """Entry of the scenario with its seed, under a hash made of a number from 0 to 65,535."""
    content_hash = f"{number:04x}" * 16
    return Entry.of(scenario, content_hash, scenario.seed, content_hash)


def scenarios(policies: Iterable[str], seeds: int, **given: object) -> list[Scenario]:
    """Scenarios of policies with seeds; ``given`` replaces the workload, the cluster, ..."""
    content = {"workload": "week.parquet", "cluster": "edge", **given}
    return [
        Scenario.model_validate({**content, "policy": policy, "seed": seed})
        for policy in policies
        for seed in range(seeds)
    ]


def scaled(policies: Iterable[str], scales: Iterable[float], seeds: int) -> list[Scenario]:
    """Scenarios at several load scales."""
    return [
        each
        for scale in scales
        for each in scenarios(policies, seeds, workload={"path": "week.parquet", "load_scale": scale})
    ]


def store_sweep(
    root: Path,
    name: str,
    entries: dict[Entry, Scenario],
    detail: Detail = "numbers",
    first_s: float = 40.0,
    results: Sequence[RunResult | None] | None = None,
) -> ResultStore:
    """Store results for a sweep: the i-th run has a mean JCT of (10 + `first_s` + i) / 2 seconds.

    With ``results`` the i-th run has the i-th of these, or is not finished.
    """
    store = ResultStore(root)
    with store.writing(name):
        store.write_plan(name, entries, detail)
        for index, (entry, scenario) in enumerate(entries.items()):
            result = three_jobs(first_s + index) if results is None else results[index]
            if result is not None:
                store.put(entry.content_hash, encode_result(result, _manifest(entry, scenario)))
    return store


def store_results(root: Path, name: str, results: Mapping[str, Sequence[RunResult | None]]) -> ResultStore:
    """Store results by policy and, in their order, seed; None is a run that is missing."""
    found = [each for policy, runs in results.items() for each in scenarios([policy], len(runs))]
    flat = [result for runs in results.values() for result in runs]
    return store_sweep(root, name, numbered(found), results=flat)


def numbered(found: Iterable[Scenario], begin: int = 0) -> dict[Entry, Scenario]:
    """Entries of scenarios with hashes of consecutive numbers."""
    return {entry_of(each, begin + index): each for index, each in enumerate(found)}


def _manifest(entry: Entry, scenario: Scenario) -> dict[str, object]:
    return manifest(
        entry.content_hash,
        scenario.policy,
        inputs={
            "workload": scenario.workload.plain(),
            "workload_sha256": WORKLOAD_SHA256,
            "cluster": scenario.cluster,
            "cluster_sha256": "c" * 64,
        },
        parameters=scenario.params,
        world=scenario.world,
        partition=scenario.partition,
        seed=entry.seed,
    )
