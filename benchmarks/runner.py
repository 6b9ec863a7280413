"""Running benchmarks by name, with what is needed to compare two runs of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks import crash, growth, overhead, replay, scale
from ray_sim.experiments.content import versions
from ray_sim.model.errors import UnknownNameError


class Report(Protocol):
    """What a benchmark found."""

    @property
    def workload(self) -> str:
        """What was measured on."""
        ...

    def headings(self) -> list[str]:
        """Columns of the table."""
        ...

    def cells(self) -> list[tuple[object, ...]]:
        """Rows of the table."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        ...


BENCHMARKS: dict[str, Callable[[], Report]] = {
    "crash": crash.run,
    "growth": growth.run,
    "overhead": overhead.run,
    "replay": replay.run,
    "scale": scale.run,
}


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Measured figures and the circumstances."""

    machine: dict[str, str]
    versions: dict[str, str]
    benchmarks: dict[str, Report]

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "machine": self.machine,
            "versions": self.versions,
            "benchmarks": {name: report.to_dict() for name, report in self.benchmarks.items()},
        }


def run_benchmarks(name: str | None = None) -> BenchReport:
    """One benchmark, or all.

    Raises
    ------
    UnknownNameError : no benchmark of that name
    """
    if name is not None and name not in BENCHMARKS:
        raise UnknownNameError("benchmark", name, BENCHMARKS)
    chosen = list(BENCHMARKS) if name is None else [name]
    return BenchReport(
        machine={
            "processor": platform.machine(),
            "cores": str(os.cpu_count()),
            "system": platform.system(),
        },
        versions=versions(),
        benchmarks={key: BENCHMARKS[key]() for key in chosen},
    )
