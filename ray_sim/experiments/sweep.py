"""A sweep from its file to results that are stored, compared and logged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

import polars as pl

from ray_sim.experiments.fanout import check_address, fan_out
from ray_sim.experiments.result_files import remove_directory, require_result_files
from ray_sim.experiments.stale_runs import Dropped, find_stale, other_versions
from ray_sim.experiments.store import Outcome, ResultStore, fault_of
from ray_sim.experiments.sweep_file import Entry, Sweep, read_sweep
from ray_sim.experiments.tracking import Logged, log_sweep
from ray_sim.model.errors import RaySimError, RunFailedError
from ray_sim.reports.tables import first_warnings, sweep_table
from workloads.sources import Source

INTERRUPTED = "interrupted"

SweepProgress = Callable[[int, int, int], None]
"""Called with (configurations done, of these failed, all)."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """How a sweep ended."""

    name: str
    directory: Path
    configurations: int
    resumed: int
    """Results that were in the store already."""
    damaged: tuple[str, ...]
    """What was wrong with results that were in the store, and were run again."""
    other_code: int
    """Configurations with a result of other code in the store, which were run again."""
    other_versions: tuple[str, ...]
    """Packages of which resumed results have other versions than there are now, a line for each."""
    dropped: tuple[Dropped, ...]
    """Results in the store of configurations that the sweep no longer has."""
    pruned: bool
    """Whether these were removed."""
    repeated: int
    """Combinations of the file that are the same run as an earlier one."""
    missing: int
    """Configurations without an outcome, because the sweep was stopped."""
    stopped: str | None
    """Why it was stopped before its end."""
    failures: tuple[Outcome, ...]
    retried: tuple[Outcome, ...]
    """Configurations that took more than one attempt."""
    table: pl.DataFrame
    """Means over seeds, see `sweep_table`."""
    warnings: Mapping[str, str]
    """The first warning of each policy."""
    logged: Logged | None
    tracking_error: str | None
    """Why the results, which are kept, could not be logged."""

    @property
    def ok(self) -> bool:
        """Whether all is done and logged."""
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


def run_sweep(
    sweep: Source | Sweep,
    directory: Path | None = None,
    *,
    address: str = "local",
    resume: bool = False,
    prune: bool = False,
    max_in_flight: int | None = None,
    progress: SweepProgress = lambda done, failed, total: None,
    stop: Callable[[], bool] = lambda: False,
    announce: Callable[[str], None] = lambda text: None,
) -> SweepReport:
    """Run every configuration of a sweep, or with `resume` those without a sound result of this code.

    A configuration that fails is reported and never takes others with it. Ctrl-C, `stop` and a full
    disk keep what is done.

    Parameters
    ----------
    sweep : the file, or what `read_sweep` makes of it
    directory : for the results, and for MLflow's data unless MLFLOW_TRACKING_URI says otherwise;
        by default ``results/<name of the sweep>``
    prune : remove results of configurations that the sweep no longer has, in MLflow too
    address, max_in_flight, stop, announce : see `fan_out`

    Raises
    ------
    InvalidInputError : the file has problems, the store is taken, or there is no Ray at the address
    StoreFullError : there is no room even for the list of configurations
    """
    check_address(address)
    if not isinstance(sweep, Sweep):
        sweep = read_sweep(sweep)
    entries = [configuration.entry for configuration in sweep.configurations]
    directory = directory or Path("results") / sweep.name
    store = ResultStore(directory)
    with store.writing(sweep.name):
        stale = find_stale(store, entries)
        dropped = [path for each in stale.dropped for path in each.directories] if prune else []
        damaged = store.damaged(entries) if resume else []
        faults = [fault_of(path) for path in chain(*stale.other_code.values())] if resume else []
        unsound = {outcome.entry.content_hash for outcome in damaged}
        sound = [entry for entry in entries if resume and entry.content_hash not in unsound]
        outcomes = [Outcome(entry) for entry in sound if store.has(entry.content_hash)]
        resumed = {outcome.entry.content_hash for outcome in outcomes}
        versions = other_versions(store, [outcome.entry for outcome in outcomes])
        todo = [each for each in sweep.configurations if each.entry.content_hash not in resumed]
        replaced = [store.run_directory(each.entry.content_hash) for each in todo]
        for path in (*replaced, *dropped, *chain(*stale.other_code.values())):
            require_result_files(path)  # before anything is changed
        for path in (*map(store.run_directory, unsound), *dropped):
            remove_directory(path)
        store.write_plan(sweep.name, entries, sweep.log)
        store.write_failures([])
        running = fan_out(todo, sweep.inputs, store, address, max_in_flight, stop, announce)
        with _Log(sweep, store, entries, outcomes, prune) as log, closing(running):
            stopped = _gather(
                running, outcomes, store, log, lambda done, failed: progress(done, failed, len(entries))
            )
        done = {outcome.entry.content_hash for outcome in outcomes if outcome.error is None}
        finished = [entry for entry in entries if entry.content_hash in done]
        for entry in finished:  # not before: until then the older result is all there is
            for path in stale.other_code.get(entry.scenario_hash, ()):
                remove_directory(path)
    missing = len(entries) - len(outcomes)
    rows = list(store.rows(finished))
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
        warnings=first_warnings(rows),
        logged=log.logged,
        tracking_error=log.error,
    )


def _gather(
    running: Iterable[Outcome],
    outcomes: list[Outcome],
    store: ResultStore,
    log: _Log,
    progress: Callable[[int, int], None],
) -> str | None:
    """Take the outcomes as they come; says why they stopped coming before the end."""
    failures: list[Outcome] = []
    noted = 0
    try:
        progress(len(outcomes), 0)
        for outcome in running:
            outcomes.append(outcome)
            log.put(outcome)
            if outcome.error is not None:
                failures.append(outcome)
            if len(failures) >= max(1, 2 * noted):  # seldom enough for thousands, though each writes them all
                store.write_failures(failures)
                noted = len(failures)
            progress(len(outcomes), len(failures))
    except KeyboardInterrupt:
        return INTERRUPTED
    except RunFailedError as error:  # no room for results, or no Ray to make them
        return str(error)
    finally:
        store.write_failures(failures)
    return None


class _Log:
    """MLflow kept up with beside the runs: its calls wait on a database, not on a core."""

    def __init__(
        self,
        sweep: Sweep,
        store: ResultStore,
        entries: Sequence[Entry],
        outcomes: Iterable[Outcome],
        prune: bool,
    ) -> None:
        self._queue: SimpleQueue[Outcome | None] = SimpleQueue()
        for outcome in outcomes:
            self._queue.put(outcome)
        self._arguments = (sweep.name, store, entries, iter(self._queue.get, None), sweep.log, prune)
        self.logged: Logged | None = None
        self.error: str | None = None

    def put(self, outcome: Outcome) -> None:
        """Log this one, after those before it."""
        self._queue.put(outcome)

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
