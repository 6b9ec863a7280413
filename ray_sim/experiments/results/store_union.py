"""Stored results of several sweeps, read as those of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.sweep_entries import Detail, Entry
from ray_sim.reports.tables import Place


class StoreUnion(ResultStore):
    """The stores of several sweeps; `root` is the first of their directories.

    A run that several sweeps have counts once. Where sweeps have different runs under one label, e.g. by
    other code or on a file that has changed, the setting of all runs names their directories too.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        """Read the plans; errors of `ResultStore.read_plan` pass through."""
        directories = list(dict.fromkeys(directories))
        super().__init__(directories[0])
        self._stores = [ResultStore(directory) for directory in directories]
        self._places: dict[str, ResultStore] = {}
        labelled: dict[str, tuple[Path, Entry]] = {}
        for directory, store in zip(directories, self._stores, strict=True):
            for entry in store.read_plan()[1]:
                if entry.content_hash not in labelled or not self.has(entry.content_hash):
                    self._places[entry.content_hash] = store
                    labelled[entry.content_hash] = directory, entry
        self._entries = _distinguished(list(labelled.values()))

    def read_plan(self) -> tuple[str, list[Entry]]:
        """The name of the first sweep, and the runs of all in order."""
        return self._stores[0].read_plan()[0], self._entries

    def run_directory(self, content_hash: str) -> Path:
        """Directory of the run's files, in the first sweep that has it."""
        return self._places[content_hash].run_directory(content_hash)

    def read_detail(self) -> Detail:
        """The least detail of the sweeps."""
        return "numbers" if any(store.read_detail() == "numbers" for store in self._stores) else "full"

    def outcomes(self, entries: Iterable[Entry]) -> list[ConfigurationOutcome]:
        """Outcomes of the entries that have ended."""
        of_store: dict[ResultStore, list[Entry]] = {}
        for entry in entries:
            of_store.setdefault(self._places[entry.content_hash], []).append(entry)
        return [outcome for store, own in of_store.items() for outcome in store.outcomes(own)]

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Lock all stores, each under the name of its sweep; `name` has no effect."""
        with ExitStack() as stack:
            for store in self._stores:
                stack.enter_context(store.writing(store.read_plan()[0]))
            yield


def _distinguished(found: Sequence[tuple[Path, Entry]]) -> list[Entry]:
    """The entries place by place; where several share a label, all have their directory in the setting."""
    sharing = defaultdict[str, set[str]](set)
    for _, entry in found:
        sharing[entry.label].add(entry.content_hash)
    ambiguous = any(len(hashes) > 1 for hashes in sharing.values())
    places: dict[Place, list[Entry]] = {}
    for directory, entry in found:
        setting = (
            ", ".join(filter(None, [entry.setting, f"from={directory}"])) if ambiguous else entry.setting
        )
        places.setdefault((entry.workload, entry.cluster, setting), []).append(
            replace(entry, setting=setting)
        )
    return [entry for entries in places.values() for entry in entries]
