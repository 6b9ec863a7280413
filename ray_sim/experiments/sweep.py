"""A sweep from its file to results that are stored, compared and logged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

import polars as pl

from ray_sim.experiments.content import Inputs
from ray_sim.experiments.fanout import check_address, fan_out
from ray_sim.experiments.store import Outcome, ResultStore
from ray_sim.experiments.sweep_file import Entry, read_sweep
from ray_sim.experiments.tracking import Logged, log_sweep
from ray_sim.model.errors import RunFailedError
from ray_sim.reports.tables import sweep_table

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
    repeated: int
    """Combinations of the file that are the same run as an earlier one."""
    missing: int
    """Configurations without an outcome, because the sweep was interrupted."""
    failures: tuple[Outcome, ...]
    table: pl.DataFrame
    """Means over seeds, see `sweep_table`."""
    logged: Logged | None
    tracking_error: str | None
    """Why the results, which are kept, could not be logged."""

    @property
    def ok(self) -> bool:
        """Whether all is done and logged."""
        return not (self.failures or self.missing or self.tracking_error)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        return {
            "name": self.name,
            "directory": str(self.directory),
            "configurations": self.configurations,
            "resumed": self.resumed,
            "repeated": self.repeated,
            "failures": [{**asdict(failure.entry), "error": failure.error} for failure in self.failures],
            "missing": self.missing,
            "table": self.table.to_dicts(),
            "tracking_uri": self.logged.tracking_uri if self.logged else None,
            "tracking_error": self.tracking_error,
        }


def run_sweep(
    path: Path,
    directory: Path | None = None,
    *,
    address: str = "local",
    resume: bool = False,
    max_in_flight: int | None = None,
    progress: SweepProgress | None = None,
) -> SweepReport:
    """Run every configuration of a sweep file, or with `resume` those without a result yet.

    A configuration that fails is reported and never takes others with it. Ctrl-C keeps what is done.

    Parameters
    ----------
    directory : for the results, and for MLflow's data unless MLFLOW_TRACKING_URI says otherwise;
        by default ``results/<name of the sweep>``
    address, max_in_flight : see `fan_out`

    Raises
    ------
    InvalidInputError : the file has problems, the store is taken, or there is no Ray at the address
    """
    check_address(address)
    inputs = Inputs()
    sweep = read_sweep(path, inputs)
    entries = [configuration.entry for configuration in sweep.configurations]
    directory = directory or Path("results") / sweep.name
    store = ResultStore(directory)
    with store.writing(sweep.name):
        store.write_plan(sweep.name, entries)
        outcomes = [Outcome(entry) for entry in entries if resume and store.has(entry.content_hash)]
        resumed = {outcome.entry.content_hash for outcome in outcomes}
        todo = [each for each in sweep.configurations if each.entry.content_hash not in resumed]
        with _Log(sweep.name, store, entries, outcomes) as log:
            try:
                for outcome in fan_out(todo, inputs, store, address, max_in_flight):
                    outcomes.append(outcome)
                    log.put(outcome)
                    if progress:
                        progress(
                            len(outcomes), sum(each.error is not None for each in outcomes), len(entries)
                        )
            except KeyboardInterrupt:
                pass  # the report says what is missing
        failures = [outcome for outcome in outcomes if outcome.error is not None]
        store.write_failures(failures)
    return SweepReport(
        name=sweep.name,
        directory=directory,
        configurations=len(entries),
        resumed=len(resumed),
        repeated=sweep.repeated,
        missing=len(entries) - len(outcomes),
        failures=tuple(failures),
        table=sweep_table(store.rows(entries)),
        logged=log.logged,
        tracking_error=log.error,
    )


class _Log:
    """MLflow kept up with beside the runs: its calls wait on a database, not on a core."""

    def __init__(
        self, name: str, store: ResultStore, entries: Sequence[Entry], outcomes: Iterable[Outcome]
    ) -> None:
        self._queue: SimpleQueue[Outcome | None] = SimpleQueue()
        for outcome in outcomes:
            self._queue.put(outcome)
        self._arguments = (name, store, entries, iter(self._queue.get, None))
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
        except RunFailedError as error:
            self.error = str(error)
        finally:
            self._thread.shutdown()
