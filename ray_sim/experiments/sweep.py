"""Sweeps: run every configuration of a file, store, compare and log the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypedDict

import polars as pl

from ray_sim.experiments.fanout.connection import check_address
from ray_sim.experiments.fanout.driver import fan_out
from ray_sim.experiments.results.result_directories import remove_directory, require_result_files
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore, fault_of
from ray_sim.experiments.results.stored_runs import Dropped, find_stale, other_versions
from ray_sim.experiments.sweep_entries import Entry, Sweep
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.experiments.tracking.experiment import Logged
from ray_sim.experiments.tracking.log import log_sweep
from ray_sim.model.errors import RaySimError, RunFailedError
from ray_sim.reports.compare import completion_notes
from ray_sim.reports.page import Table
from ray_sim.reports.small_tables import means_table, page_table_html, page_table_text
from ray_sim.reports.tables import first_warnings, place_title, sweep_table
from workloads.files import refuse_url
from workloads.sources import Source

INTERRUPTED = "interrupted"

TOLD_S = 10.0
"""Seconds between two texts on what is logged."""

SweepProgress = Callable[[int, int, int], None]
"""Called with (configurations done, of these failed, all)."""


class SweepOptions(TypedDict, total=False):
    """Options of `run_sweep` that change no result."""

    address: str
    resume: bool
    max_in_flight: int | None
    progress: SweepProgress
    stop: Callable[[], bool]
    announce: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SweepReport:
    """Result of a sweep."""

    name: str
    directory: Path
    configurations: int
    resumed: int
    """Number of results that the store already had."""
    damaged: tuple[str, ...]
    """Damage of stored results, whose configurations ran again."""
    other_code: int
    """Number of configurations with a stored result of other code, which ran again."""
    other_versions: tuple[str, ...]
    """One line for each package whose version in resumed results differs from today's."""
    dropped: tuple[Dropped, ...]
    """Results in the store of configurations that the sweep no longer has."""
    pruned: bool
    """Whether the dropped results were removed."""
    repeated: int
    """Number of combinations that are the same run as an earlier one."""
    missing: int
    """Number of configurations without an outcome, because the sweep stopped."""
    stopped: str | None
    """Reason why the sweep stopped before its end."""
    failures: tuple[ConfigurationOutcome, ...]
    retried: tuple[ConfigurationOutcome, ...]
    """Configurations that took more than one attempt."""
    table: pl.DataFrame
    """Means over seeds, see `sweep_table`."""
    warnings: Mapping[str, str]
    """The first warning of each policy; by place, that policies complete different numbers of jobs."""
    logged: Logged | None
    tracking_error: str | None
    """Error that prevented logging; the results are kept."""

    @property
    def ok(self) -> bool:
        """Whether every configuration is done and logged."""
        return not (self.failures or self.missing or self.stopped or self.tracking_error)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        return {
            "name": self.name,
            "directory": str(self.directory),
            "configurations": self.configurations,
            "resumed": self.resumed,
            "damaged": list(self.damaged),
            "other_code": self.other_code,
            "other_versions": list(self.other_versions),
            "dropped": [
                {"label": each.label, "directories": list(map(str, each.directories))}
                for each in self.dropped
            ],
            "dropped_in_mlflow": self.logged.dropped if self.logged else None,
            "pruned": self.pruned,
            "repeated": self.repeated,
            "failures": [{**asdict(failure.entry), "error": failure.error} for failure in self.failures],
            "retried": [{**asdict(each.entry), "lost_attempts": list(each.lost)} for each in self.retried],
            "missing": self.missing,
            "stopped": self.stopped,
            "table": self.table.to_dicts(),
            "warnings": dict(self.warnings),
            "tracking_uri": self.logged.tracking_uri if self.logged else None,
            "tracking_error": self.tracking_error,
        }

    def _repr_html_(self) -> str:
        return page_table_html(*self._shown())

    def __repr__(self) -> str:
        return page_table_text(*self._shown())

    def _shown(self) -> tuple[str, Table]:
        done = self.configurations - self.missing - len(self.failures)
        title = f"sweep {self.name}: {done:,} of {self.configurations:,} done, in {self.directory}"
        problems = [
            *(f"failed: {each.entry.label}: {each.error}" for each in self.failures),
            *([f"stopped: {self.stopped}"] if self.stopped else []),
            *([f"not logged to MLflow: {self.tracking_error}"] if self.tracking_error else []),
            *(f"{policy}: {warning}" for policy, warning in self.warnings.items()),
        ]
        return title, replace(means_table(self.table), note="; ".join(problems))


def run_sweep(
    sweep: Source | Sweep,
    directory: Path | None = None,
    *,
    address: str = "local",
    resume: bool = False,
    prune: bool = False,
    max_in_flight: int | None = None,
    stop_after_s: float | None = None,
    progress: SweepProgress = lambda done, failed, total: None,
    under_way: Callable[[int], None] = lambda count: None,
    stop: Callable[[], bool] = lambda: False,
    announce: Callable[[str], None] = lambda text: None,
) -> SweepReport:
    """Run every configuration of a sweep, or with `resume` those without a sound result of this code.

    A configuration that fails is reported, and the others continue. After Ctrl-C, `stop` or a full disk, the
    finished results remain.

    Parameters
    ----------
    sweep : the file, or the result of `read_sweep`
    directory : for the results, and for MLflow's data unless MLFLOW_TRACKING_URI names a server;
        by default ``results/<name of the sweep>``
    prune : remove results of configurations that the sweep no longer has, in MLflow too
    address, max_in_flight, stop_after_s, under_way, stop, announce : see `fan_out`

    Raises
    ------
    InvalidInputError : the file has problems, the store is in use, or no Ray runs at the address
    StoreFullError : the disk has no room for the list of configurations
    """
    check_address(address, or_none=True)
    if not isinstance(sweep, Sweep):
        sweep = read_sweep(sweep)
    entries = [configuration.entry for configuration in sweep.configurations]
    directory = directory or Path("results") / sweep.name
    refuse_url(directory)
    store = ResultStore(directory)
    with store.writing(sweep.name):
        stale = find_stale(store, entries)
        dropped = [path for each in stale.dropped for path in each.directories] if prune else []
        damaged = store.damaged(entries) if resume else []
        faults = [fault_of(path) for path in chain(*stale.other_code.values())] if resume else []
        unsound = {outcome.entry.content_hash for outcome in damaged}
        sound = [entry for entry in entries if resume and entry.content_hash not in unsound]
        outcomes = [ConfigurationOutcome(entry) for entry in sound if store.has(entry.content_hash)]
        resumed = {outcome.entry.content_hash for outcome in outcomes}
        versions = other_versions(store, [outcome.entry for outcome in outcomes])
        todo = [each for each in sweep.configurations if each.entry.content_hash not in resumed]
        replaced = [store.run_directory(each.entry.content_hash) for each in todo]
        for path in (*replaced, *dropped, *chain(*stale.other_code.values())):
            require_result_files(path)  # check before changing anything
        for path in (*map(store.run_directory, unsound), *dropped):
            remove_directory(path)
        store.write_plan(sweep.name, entries, sweep.log)
        store.write_failures([])
        running = fan_out(
            todo, sweep.inputs, store, address, max_in_flight, stop, announce, stop_after_s, under_way
        )
        with _Log(sweep, store, entries, outcomes, prune) as log, closing(running):
            stopped = _gather(
                running, outcomes, store, log, lambda done, failed: progress(done, failed, len(entries))
            )
            log.finish(announce)
        done = {outcome.entry.content_hash for outcome in outcomes if outcome.error is None}
        finished = [entry for entry in entries if entry.content_hash in done]
        for entry in finished:  # only now: until here the older result is the only one
            for path in stale.other_code.get(entry.scenario_hash, ()):
                remove_directory(path)
    missing = len(entries) - len(outcomes)
    rows = list(store.rows(finished))
    completed = completion_notes(
        (place_title(row.place), row.policy, row.seed, row.summary.completed) for row in rows
    )
    return SweepReport(
        name=sweep.name,
        directory=directory,
        configurations=len(entries),
        resumed=len(resumed),
        damaged=(*(str(outcome.error) for outcome in damaged), *filter(None, faults)),
        other_code=sum(each.entry.scenario_hash in stale.other_code for each in todo),
        other_versions=tuple(versions),
        dropped=stale.dropped,
        pruned=prune,
        repeated=sweep.repeated,
        missing=missing,
        stopped=stopped or (INTERRUPTED if missing else None),
        failures=tuple(outcome for outcome in outcomes if outcome.error is not None),
        retried=tuple(outcome for outcome in outcomes if outcome.lost),
        table=sweep_table(rows),
        warnings={**completed, **first_warnings(rows)},
        logged=log.logged,
        tracking_error=log.error,
    )


def _gather(
    running: Iterable[ConfigurationOutcome],
    outcomes: list[ConfigurationOutcome],
    store: ResultStore,
    log: _Log,
    progress: Callable[[int, int], None],
) -> str | None:
    """Collect the outcomes; returns the reason if they stop before the end."""
    failures: list[ConfigurationOutcome] = []
    noted = 0
    try:
        progress(len(outcomes), 0)
        for outcome in running:
            outcomes.append(outcome)
            log.put(outcome)
            if outcome.error is not None:
                failures.append(outcome)
            if len(failures) >= max(1, 2 * noted):  # few writes, since each contains all failures
                store.write_failures(failures)
                noted = len(failures)
            progress(len(outcomes), len(failures))
    except KeyboardInterrupt:
        return INTERRUPTED
    except RunFailedError as error:  # the disk is full, or Ray is lost
        return str(error)
    finally:
        store.write_failures(failures)
    return None


class _Log:
    """Thread that logs to MLflow while runs continue; its calls wait for a database, not for a core."""

    def __init__(
        self,
        sweep: Sweep,
        store: ResultStore,
        entries: Sequence[Entry],
        outcomes: Iterable[ConfigurationOutcome],
        prune: bool,
    ) -> None:
        self._queue: SimpleQueue[ConfigurationOutcome | None] = SimpleQueue()
        for outcome in outcomes:
            self._queue.put(outcome)
        self._begun = 0
        self._arguments = (sweep.name, store, entries, self._outcomes(), sweep.log, prune)
        self.logged: Logged | None = None
        self.error: str | None = None

    def _outcomes(self) -> Iterator[ConfigurationOutcome]:
        for outcome in iter(self._queue.get, None):
            self._begun += 1
            yield outcome

    def put(self, outcome: ConfigurationOutcome) -> None:
        """Queue an outcome for logging, in order."""
        self._queue.put(outcome)

    def finish(self, announce: Callable[[str], None]) -> None:
        """Wait until all is logged, and tell how much is, at first and every `TOLD_S` seconds."""
        total = self._begun + self._queue.qsize()
        self._queue.put(None)
        while True:
            announce(f"logging to MLflow: {self._begun:,} of {total:,} runs")
            if wait([self._future], TOLD_S).done:
                return

    def __enter__(self) -> Self:
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._future = self._thread.submit(log_sweep, *self._arguments)
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        try:
            self.logged = self._future.result()
        except RaySimError as error:
            self.error = str(error)
        finally:
            self._thread.shutdown()
