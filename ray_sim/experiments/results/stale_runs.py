"""Stale results in the store of a sweep: results of other code, and of dropped configurations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.results.stored_runs import present_versions, stored_entry, versions_of
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import InvalidInputError

DAMAGED = "results that cannot be read"


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
            entry = stored_entry(directory)
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
        there = versions_of(store.run_directory(entry.content_hash))
        counts.update(item for item in there.items() if item[1] != now.get(item[0]))
    return [
        f"{name} {version} in {number} of {len(entries)}, {now.get(name, 'none')} now"
        for (name, version), number in sorted(counts.items())
    ]
