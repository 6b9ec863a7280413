"""Results of a sweep, read from its directory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl

from ray_sim.experiments.results.result_files import MANIFEST, read_result
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.results.stored_runs import open_store
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.result import RunResult
from ray_sim.reports.small_tables import means_table, page_table_html, page_table_text
from ray_sim.reports.sweep_report import PlaceData
from ray_sim.reports.tables import Place, RunRow, run_table, sweep_table


@dataclass(frozen=True)
class SweepResults:
    """The finished runs of a sweep, which may be running, or of a folder of runs.

    Files of single runs are read when asked for.
    """

    directory: Path
    name: str
    entries: tuple[Entry, ...] = field(repr=False)
    """All configurations, in the order of the sweep."""
    outcomes: tuple[ConfigurationOutcome, ...] = field(repr=False)
    """Outcomes of the configurations that have ended."""
    store: ResultStore = field(repr=False)

    @classmethod
    def read(cls, directory: Path, store: ResultStore) -> SweepResults:
        """Read the results of the store at the directory."""
        name, entries = store.read_plan()
        return cls(directory, name, tuple(entries), tuple(store.outcomes(entries)), store)

    @property
    def finished(self) -> list[Entry]:
        """Configurations with a result."""
        return [outcome.entry for outcome in self.outcomes if outcome.error is None]

    @cached_property
    def rows(self) -> list[RunRow]:
        """Labels and summary of each finished run."""
        return self.store.rows(self.finished)

    @property
    def runs(self) -> pl.DataFrame:
        """One row per finished run: its labels, its seed and the numbers of its summary."""
        return run_table(self.rows)

    @property
    def table(self) -> pl.DataFrame:
        """Means over seeds, one row per workload, cluster, setting and policy."""
        return sweep_table(self.rows)

    def places(self) -> Iterator[tuple[Place, PlaceData]]:
        """Jobs and timelines of the finished runs, place by place."""
        return self.store.places(self.finished)

    def result(
        self,
        policy: str,
        seed: int | None = None,
        *,
        workload: str | None = None,
        cluster: str | None = None,
        setting: str | None = None,
    ) -> RunResult:
        """One run with its jobs, events and timeline.

        Parameters
        ----------
        policy : label as in `runs`, and so the place where the sweep has several
        seed : by default the first; a run that depends on no seed has them all

        Raises
        ------
        InvalidInputError : no finished run has these labels, or runs of several places have
        """
        labels = {"policy": policy, "workload": workload, "cluster": cluster, "setting": setting}
        wanted = {key: value for key, value in labels.items() if value is not None}
        found = [
            entry
            for entry in self.finished
            if all(getattr(entry, key) == value for key, value in wanted.items())
            and (seed is None or entry.seed is None or entry.seed == seed)
        ]
        places = {entry.place for entry in found}
        if len(places) != 1:
            asked = ", ".join(f"{key}={value!r}" for key, value in {**wanted, "seed": seed}.items())
            which = f"runs of {len(places)} places have" if places else "no finished run has"
            raise InvalidInputError(
                f"{self.directory}: {which} {asked}; the columns of `runs` list the labels"
            )
        return read_result(self.store.run_directory(found[0].content_hash))

    def _repr_html_(self) -> str:
        return page_table_html(self._title(), means_table(self.table))

    def __repr__(self) -> str:
        return page_table_text(self._title(), means_table(self.table))

    def _title(self) -> str:
        failed = len(self.outcomes) - len(self.finished)
        failures = f", {failed:,} failed" if failed else ""
        counts = f"{len(self.finished):,} of {len(self.entries):,} done{failures}"
        return f"sweep {self.name}: {counts}"


def read_results(directory: Path) -> RunResult | SweepResults | None:
    """Read the directory of a run, a sweep or a plan, or of several runs; None if it is none of them."""
    if (directory / MANIFEST).is_file():
        return read_result(directory)
    store = open_store(directory)
    return None if store is None else SweepResults.read(directory, store)
