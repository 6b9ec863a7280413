"""The benchmarks, and running them one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from benchmarks import (
    a_online,
    conversion,
    crash,
    fleets,
    growth,
    optimus,
    overhead,
    pd_ors,
    phases,
    replay,
    scale,
    shares,
    startup,
)
from benchmarks.machine import Machine
from benchmarks.measurement import Findings, SkippedError, Step
from benchmarks.report import BenchReport
from ray_sim.experiments.content import versions
from ray_sim.model.errors import RaySimError, UnknownNameError

Progress = Callable[[str], None]
"""Told in a line what goes on."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One thing that `ray-sim bench` measures."""

    measures: str
    rough_s: int
    """How long it takes on two cores, about."""
    run: Callable[[Step], Findings]


BENCHMARKS: dict[str, Benchmark] = {
    "replay": Benchmark("jobs per CPU second in the engine, beside a bare loop", 10, replay.run),
    "startup": Benchmark("wall time of whole commands: --help, and a run of a week", 15, startup.run),
    "phases": Benchmark("where the time of that run goes", 15, phases.run),
    "optimus": Benchmark("rounds of Optimus on up to 16,000 servers, and its fits", 20, optimus.run),
    "pd_ors": Benchmark("a job of PD-ORS on up to 1,000 servers, beside linear programmes", 30, pd_ors.run),
    "conversion": Benchmark("converting a trace, beside a bare pass over the file", 90, conversion.run),
    "a_online": Benchmark("A_online: a dispatch over 10,000 workers, and a week of jobs", 15, a_online.run),
    "shares": Benchmark("a round of drf and of tetris, 4,000 jobs on up to 16,000 servers", 10, shares.run),
    "growth": Benchmark("time and memory of ten times the jobs, up to a million", 50, growth.run),
    "fleets": Benchmark("sites in Ray actors beside sites in one process", 180, fleets.run),
    "overhead": Benchmark("what a sweep costs beside its simulations", 150, overhead.run),
    "crash": Benchmark("nothing lost, nothing twice when sweeps are killed and resumed", 90, crash.run),
    "scale": Benchmark("sweeps of 1,000 and 10,000 short runs, and what their driver needs", 300, scale.run),
}
"""In the order they run: the short ones first."""


def choose(names: Iterable[str]) -> dict[str, Benchmark]:
    """The benchmarks of these names, in the order they run; all where there is none.

    Raises
    ------
    UnknownNameError : no benchmark of that name
    """
    wanted = set(names)
    for name in sorted(wanted - set(BENCHMARKS)):
        raise UnknownNameError("benchmark", name, BENCHMARKS)
    return {name: benchmark for name, benchmark in BENCHMARKS.items() if name in wanted or not wanted}


def run_benchmarks(chosen: Mapping[str, Benchmark], progress: Progress = lambda line: None) -> BenchReport:
    """Run benchmarks one after the other; one that fails is reported, and the others still run."""
    began = time.monotonic()
    found: dict[str, Findings] = {}
    for position, (name, benchmark) in enumerate(chosen.items(), 1):

        def step(what: str, label: str = f"{name} ({position} of {len(chosen)})") -> None:
            progress(f"{time.monotonic() - began:5.0f} s  {label}: {what}")

        step(f"takes about {benchmark.rough_s} s")
        found[name] = _outcome(benchmark, step)
    progress(f"{time.monotonic() - began:5.0f} s  done")
    return BenchReport(machine=Machine.here(), versions=_versions(), benchmarks=found)


def _outcome(benchmark: Benchmark, step: Step) -> Findings:
    try:
        return benchmark.run(step)
    except SkippedError as reason:
        return Findings(input="", skipped=str(reason))
    except RaySimError as error:
        return Findings(input="", failed=str(error))


def _versions() -> dict[str, str]:
    """Of Python, and of the packages whose speed is measured along."""
    return versions() | {name: version(name) for name in ("ray", "mlflow")}
