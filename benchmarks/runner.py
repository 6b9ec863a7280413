"""Runner of the benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from benchmarks import (
    a_online,
    conversion,
    crash,
    environment,
    fleets,
    growth,
    harmony,
    learning,
    loop,
    optimus,
    overhead,
    pd_ors,
    posted_price,
    replay,
    scale,
    shares,
    startup,
)
from benchmarks.measurement import Findings, SkippedError, Step
from benchmarks.report import BenchReport, Machine
from ray_sim.experiments.run_identity import versions
from ray_sim.model.errors import RaySimError, UnknownNameError

Progress = Callable[[str], None]
"""Callback that gets one line of text per step."""

Ended = Callable[[str, Findings], None]
"""Callback that gets the name and the findings of each benchmark when it ends."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark of `ray-sim bench`."""

    measures: str
    rough_s: int
    """Approximate duration in seconds on two cores."""
    run: Callable[[Step], Findings]


BENCHMARKS: dict[str, Benchmark] = {
    "replay": Benchmark("jobs per CPU second in the engine, and relative to a bare loop", 10, replay.run),
    "loop": Benchmark("policies in Python, elastic jobs, and sites in one process", 90, loop.run),
    "startup": Benchmark("wall time of whole commands: --help, and a run of a week", 15, startup.run),
    "phases": Benchmark("time of that run by phase", 15, startup.run_phases),
    "environment": Benchmark(
        "placements, resets and a vector of environments of gymnasium", 20, environment.run
    ),
    "harmony": Benchmark("decisions of the bundled network of harmony for five new jobs", 10, harmony.run),
    "learning": Benchmark(
        "learned placement: placements of the batched world, errors of the reward model, actors",
        160,
        learning.run,
    ),
    "optimus": Benchmark("rounds of Optimus on up to 16,000 servers, and its fits", 20, optimus.run),
    "pd_ors": Benchmark("a job of PD-ORS on up to 1,000 servers, against linear programmes", 30, pd_ors.run),
    "posted_price": Benchmark("posted prices: 100,000 announced jobs, growth, plans", 180, posted_price.run),
    "conversion": Benchmark("conversion of a trace, against a bare pass over the file", 90, conversion.run),
    "a_online": Benchmark("A_online: a dispatch over 10,000 workers, and a week of jobs", 15, a_online.run),
    "shares": Benchmark("a round of drf and of tetris, 4,000 jobs on up to 16,000 servers", 10, shares.run),
    "growth": Benchmark("time and memory of ten times the jobs, up to a million", 50, growth.run),
    "fleets": Benchmark("sites in Ray actors, relative to sites in one process", 180, fleets.run),
    "overhead": Benchmark("overhead of a sweep over its simulations", 150, overhead.run),
    "crash": Benchmark("results lost or duplicated when sweeps are killed and resumed", 90, crash.run),
    "scale": Benchmark("speed and driver memory of sweeps of 1,000 and 10,000 short runs", 300, scale.run),
}
"""Benchmarks in the order of execution, short ones first."""


def choose(names: Iterable[str]) -> dict[str, Benchmark]:
    """The benchmarks of these names, in the order of execution; all if no name is given.

    Raises
    ------
    UnknownNameError : no benchmark of that name
    """
    wanted = set(names)
    for name in sorted(wanted - set(BENCHMARKS)):
        raise UnknownNameError("benchmark", name, BENCHMARKS)
    return {name: benchmark for name, benchmark in BENCHMARKS.items() if name in wanted or not wanted}


def run_benchmarks(
    chosen: Mapping[str, Benchmark],
    progress: Progress = lambda line: None,
    ended: Ended | None = None,
) -> BenchReport:
    """Run benchmarks one after the other; a failure is reported, and the others still run."""
    began = time.monotonic()
    found: dict[str, Findings] = {}
    for position, (name, benchmark) in enumerate(chosen.items(), 1):

        def step(what: str, label: str = f"{name} ({position} of {len(chosen)})") -> None:
            progress(f"{time.monotonic() - began:5.0f} s  {label}: {what}")

        step(f"takes about {benchmark.rough_s} s")
        found[name] = _outcome(benchmark, step)
        if ended is not None:
            ended(name, found[name])
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
    """Versions of Python, and of the packages whose speed affects the figures."""
    return versions() | {name: version(name) for name in ("ray", "mlflow")}
