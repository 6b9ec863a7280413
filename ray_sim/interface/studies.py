"""Studies from Python: runs, sweeps, comparisons and plans, as the commands of the same names."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.experiments.capacity.evaluation import RunOptions
from ray_sim.experiments.capacity.goal import parse_goal
from ray_sim.experiments.capacity.plan import run_plan
from ray_sim.experiments.capacity.report import PlanReport
from ray_sim.experiments.capacity.request import PlanRequest, parse_choices
from ray_sim.experiments.compare import ComparisonReport, Results, compare_in_memory, compare_results
from ray_sim.experiments.prepare import FinishedRun, prepare
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run import run_to_directory
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario, parse_scenario, read_scenario
from ray_sim.experiments.sweep import SweepReport, run_sweep
from ray_sim.experiments.sweep_entries import same_failures, seeds_warning
from ray_sim.experiments.sweep_file import parse_sweep, read_sweep, without_figure
from ray_sim.experiments.sweep_info import LiveNote, Standings
from ray_sim.experiments.sweep_results import SweepResults
from ray_sim.interruption import interruptible
from ray_sim.model.arguments import expect, in_range
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.result import RunResult
from ray_sim.progress import shown_progress
from workloads.describe import Workload
from workloads.sources import Source


def plain(value: object) -> object:
    """The value with texts for paths, lists for other sequences, and Python's numbers for those of numpy.

    A loaded workload becomes its path, a class of policies the name by which other processes import it.

    Raises
    ------
    InvalidScenarioError : a class that other processes cannot import
    """
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | range | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Workload):
        return value.path
    return _importable(value) if isinstance(value, type) and issubclass(value, Policy) else value


def _importable(policy: type[Policy]) -> str:
    name = f"{policy.__module__}:{policy.__qualname__}"
    if policy.__module__ == "__main__" or "." in policy.__qualname__:
        raise InvalidScenarioError(
            f"policy {policy.__qualname__}: other processes run it and cannot import it from here; write it "
            f"to a file, in a notebook with %%writefile my_policies.py, and name it as "
            f"'my_policies:{policy.__name__}'"
        )
    return name


MOST_SEEDS = 100_000
"""Largest number of seeds of a plan, as of the command."""

Stored = str | Path | SweepResults | SweepReport | PlanReport
"""Results on disk: their directory, or what `load`, `sweep` or `plan` returned."""


def run(
    scenario: Source | Mapping[str, object],
    out: str | Path | None = None,
    *,
    address: str = "local",
    resume: bool = False,
    snapshot_s: float = 60.0,
    stop_after_s: float | None = None,
    progress: bool = True,
) -> FinishedRun:
    """Run a scenario and write its result, as `ray-sim run`; Ctrl-C keeps a snapshot to resume from.

    Parameters
    ----------
    scenario : the scenario file, by path or URL, or its content as a mapping
    out : directory of the result; by default ``runs/POLICY-HASH``
    address, resume, snapshot_s, stop_after_s : the options of the command
    progress : show the progress in a notebook or on a terminal

    Returns
    -------
    The `RunResult` as ``result``, and the ``directory`` of its files; raises as `run_to_directory`
    """
    expect("out", out, (str, Path, NoneType), "a path")
    expect("snapshot_s", snapshot_s, (int, float), "a number of seconds")
    expect("stop_after_s", stop_after_s, (int, float, NoneType), "a number of seconds")
    parsed = _scenario(scenario)
    said: list[str] = []
    try:
        with interruptible() as interruption, shown_progress("run, jobs", progress) as report:
            return run_to_directory(
                prepare(parsed),
                None if out is None else Path(out),
                address=address,
                resume=resume,
                snapshot_s=snapshot_s,
                stop_after_s=stop_after_s,
                progress=report,
                stop=interruption.asked,
                announce=lambda text: report(0, 1, text),
                say=said.append,
            )
    finally:
        for text in said:
            warnings.warn(text.removeprefix("warning: "), stacklevel=2)


def sweep(
    content: Source | Mapping[str, object],
    out: str | Path | None = None,
    *,
    address: str = "local",
    resume: bool = False,
    prune: bool = False,
    max_in_flight: int | None = None,
    progress: bool = True,
) -> SweepReport:
    """Run every combination of a sweep on Ray, as `ray-sim sweep`.

    A run that fails is in the report, and the others continue.

    Parameters
    ----------
    content : the sweep file, by path or URL, or its content as a mapping
    out : directory of the results; by default ``results/<name of the sweep>``
    address, resume, prune, max_in_flight : the options of the command
    progress : show the progress in a notebook or on a terminal

    Raises
    ------
    InvalidInputError : the sweep has problems, all listed, or the directory is one of something else
    """
    if max_in_flight is not None:
        in_range("max_in_flight", max_in_flight, 1)
    if isinstance(content, Mapping):
        planned = parse_sweep(without_figure(plain(content)), "the sweep", HashedInputs())
    else:
        planned = read_sweep(content)
    entries = [each.entry for each in planned.configurations]
    for warning in filter(None, (seeds_warning(entries), same_failures(planned))):
        warnings.warn(warning, stacklevel=2)
    directory = Path(out) if out is not None else Path("results") / planned.name
    note = LiveNote(Standings(ResultStore(directory), entries))
    with shown_progress("sweep, runs", progress) as report:
        return run_sweep(
            planned,
            directory,
            address=address,
            resume=resume,
            prune=prune,
            max_in_flight=max_in_flight,
            progress=lambda done, failed, total: report(done, total, note.text(failed, last=done == total)),
            announce=lambda text: report(0, len(entries), text),
        )


def compare(
    *results: Stored | Results,
    metric: str | None = None,
    baseline: str | None = None,
    by: Iterable[str] = (),
    across: str | None = None,
    settings: bool = False,
    policy: str | None = None,
    progress: bool = True,
) -> ComparisonReport:
    """Compare policies over the same seeds, as `ray-sim compare`.

    Parameters
    ----------
    results : directories of runs or sweeps, or what `load` and `sweep` returned; or one mapping from labels
        to results in memory, ``{"fifo": a, "las": b}``, where a list has one result for each seed
    metric, baseline, by, across, settings, policy : the options of the command; all but the first two for
        stored results
    progress : show the progress in a notebook or on a terminal

    Raises
    ------
    InvalidInputError : nothing to compare, or a source holds no results
    UnknownNameError : no such metric, baseline, kind of class or axis
    """
    expect("metric", metric, (str, NoneType), "the name of a metric")
    expect("baseline", baseline, (str, NoneType), "the name of a policy")
    if any(isinstance(each, RunResult) for each in results):
        raise InvalidInputError("results in memory have no names: expected a mapping, {'fifo': a, 'las': b}")
    in_memory = [each for each in results if isinstance(each, Mapping)]
    if in_memory:
        if len(results) > 1 or list(by) or across or settings or policy:
            raise InvalidInputError("results in memory: expected one mapping, without `by` and `across`")
        return compare_in_memory(in_memory[0], metric, baseline)
    stored = [_directory(each) for each in results if not isinstance(each, Mapping)]
    with shown_progress("compare", progress, compiles=False) as report:
        return compare_results(
            stored, metric, baseline, by, across=across, settings=settings, policy=policy, progress=report
        )


def _directory(stored: Stored) -> str:
    kinds = (str, Path, SweepResults, SweepReport, PlanReport)
    expect("results", stored, kinds, "directories, or what `load`, `sweep` or `plan` returned")
    return str(stored if isinstance(stored, str | Path) else stored.directory)


def plan(
    scenario: Source | Mapping[str, object],
    goal: str,
    vary: Mapping[str, tuple[int, int] | str | Sequence[str]],
    *,
    price: Mapping[str, float] | None = None,
    seeds: int = 5,
    out: str | Path | None = None,
    address: str = "local",
    resume: bool = False,
    max_in_flight: int | None = None,
    progress: bool = True,
) -> PlanReport:
    """Find the cheapest servers, or the policies, with which a scenario meets a goal, as `ray-sim plan`.

    Parameters
    ----------
    scenario : the scenario file, by path or URL, or its content as a mapping
    goal : limit on a metric, such as ``p95_jct_s<7200`` or ``mean_queue_s <= 0.5 x now``
    vary : ``{"NAME.count": (FROM, TO)}`` for an entry of the cluster file, ``{"policy": ["fifo", "sjf"]}``
    price : price of a server of an entry; by default that of the cluster file, else 1
    seeds : number of seeds, common to all runs
    out, address, resume, max_in_flight : the options of the command
    progress : show the progress in a notebook or on a terminal

    Raises
    ------
    InvalidInputError : the scenario, the goal or a choice is invalid
    """
    in_range("seeds", seeds, 1, MOST_SEEDS)
    if max_in_flight is not None:
        in_range("max_in_flight", max_in_flight, 1)
    expect("goal", goal, str, "a text such as 'p95_jct_s<7200'")
    expect("vary", vary, Mapping, "a mapping such as {'servers.count': (1, 40)}")
    expect("price", price, (Mapping, NoneType), "a mapping from names to prices")
    prices = [f"{name}={value}" for name, value in (price or {}).items()]
    varied = [f"{key}={_values_text(values)}" for key, values in vary.items()]
    parsed = _scenario(scenario)
    choices = parse_choices(varied, prices, parsed.cluster)
    request = PlanRequest(parsed, parse_goal(goal), choices, seeds)
    with shown_progress("plan, runs", progress) as report:
        options = RunOptions(
            address, resume, max_in_flight, progress=report, announce=lambda text: report(0, 1, text)
        )
        return run_plan(request, None if out is None else Path(out), options)


def _scenario(scenario: Source | Mapping[str, object]) -> Scenario:
    if isinstance(scenario, Mapping):
        return parse_scenario(plain(scenario), "the scenario")
    return read_scenario(scenario)


def _values_text(values: object) -> str:
    """Values of a choice as the command line takes them: ``1:40``, or names with commas."""
    given = plain(values)
    if not isinstance(given, list):
        return str(given)
    numeric = all(isinstance(each, int) for each in given)
    return (":" if numeric else ",").join(map(str, given))
