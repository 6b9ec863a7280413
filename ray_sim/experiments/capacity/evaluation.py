"""Runs of a plan: small sweeps in one directory, whose results are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ray_sim.experiments.capacity.request import PlanRequest
from ray_sim.experiments.fanout.connection import cluster
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario
from ray_sim.experiments.sweep import SweepReport, run_sweep
from ray_sim.experiments.sweep_entries import Configuration, Sweep
from ray_sim.experiments.sweep_file import seed_configurations
from ray_sim.model.errors import InvalidInputError


class PlanProgress(Protocol):
    """Callback for the progress of a plan; `note` says what runs."""

    def __call__(self, done: int, total: int, note: str = "") -> None: ...


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How the runs of a plan are carried out; see `run_sweep`."""

    address: str = "local"
    resume: bool = False
    max_in_flight: int | None = None
    progress: PlanProgress = lambda done, total, note="": None
    stop: Callable[[], bool] = lambda: False
    announce: Callable[[str], None] = lambda text: None


class PlanEndedError(Exception):
    """A sweep of the plan did not finish; the plan ends with what it has."""

    def __init__(self, report: SweepReport) -> None:
        super().__init__(report.stopped or "runs failed")
        self.report = report


class PlanRuns:
    """Evaluation of scenarios on Ray, over common seeds. Use it as a context: it keeps Ray running.

    The directory is that of a sweep with all configurations so far, so that `compare`, `report` and `log`
    read it.

    Raises
    ------
    InvalidInputError : the directory is of another sweep, or has results and the options do not resume
    """

    def __init__(
        self, request: PlanRequest, name: str, directory: Path, inputs: HashedInputs, options: RunOptions
    ) -> None:
        self._request = request
        self._name = name
        self._directory = directory
        self._inputs = inputs
        self._options = options
        self._store = ResultStore(directory)
        self._stack = ExitStack()
        self._configurations: dict[str, Configuration] = {}
        self.report: SweepReport | None = None
        """Report of the last sweep; None before the first."""
        with self._store.writing(name):
            pass  # refuses the directory of another sweep before any work
        if not options.resume and self._store.unplanned([]):
            raise InvalidInputError(
                f"{directory}: has the results of an earlier plan; go on with --resume, or choose another -o"
            )

    def __enter__(self) -> PlanRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def values(self, scenarios: Sequence[Scenario], note: str) -> list[list[float]]:
        """Values of the goal's metric in the runs of each scenario, in the order of the seeds.

        Raises
        ------
        PlanEndedError : a run failed, or the plan was stopped
        """
        each = [list(seed_configurations(one, self._request.seeds, self._inputs)) for one in scenarios]
        for configuration in (one for group in each for one in group):
            self._configurations.setdefault(configuration.entry.content_hash, configuration)
        self._sweep(note)
        goal = self._request.goal
        trims = [None if one.trim is None else one.trim.trim for one in scenarios]
        return [
            [goal.value_of(self._store.run_directory(run.entry.content_hash), trim) for run in group]
            for group, trim in zip(each, trims, strict=True)
        ]

    def _sweep(self, note: str) -> None:
        """Run the configurations without a result; those of the plan so far are in the sweep's list."""
        options = self._options
        if self.report is None and not all(map(self._store.has, self._configurations)):
            self._stack.enter_context(cluster(options.address, options.announce))
        sweep = Sweep(self._name, tuple(self._configurations.values()), 0, self._inputs, "numbers")
        self.report = run_sweep(
            sweep,
            self._directory,
            address=options.address,
            resume=True,  # without --resume the directory was empty when the plan began
            max_in_flight=options.max_in_flight,
            progress=lambda done, failed, total: options.progress(
                done, total, f"({failed} failed)" if failed else f"({note})"
            ),
            stop=options.stop,
        )
        if self.report.failures or self.report.missing or self.report.stopped:
            raise PlanEndedError(self.report)
