"""Figures of a benchmark, which pytest-benchmark times for `ray-sim bench`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

TOLERANCE = 0.25
"""Default share by which a figure may become worse; timings on shared machines are noisy."""

MEMORY_TOLERANCE = 0.1


class Figures:
    """Figures of one benchmark, and the timer that gives them."""

    def __init__(self, benchmark: BenchmarkFixture, small: bool) -> None:
        self._benchmark = benchmark
        self.small = small
        """Whether inputs are tiny, as in tests; keys are those of the whole size."""
        benchmark.extra_info["rows"] = []

    def input(self, text: str) -> None:
        """Describe the input; figures of other inputs are not compared."""
        self._benchmark.extra_info["input"] = text

    def median_s(
        self, work: Callable[[], object], rounds: int, before_each: Callable[[], None] | None = None
    ) -> float:
        """Median seconds of the benchmark's timer, after one call that compiles; once a benchmark.

        Parameters
        ----------
        before_each : called before each round, the first included; not timed
        """
        if before_each:
            before_each()
        work()
        return self._timed(work, setup=before_each, rounds=1 if self.small else rounds)

    def once_s(self, work: Callable[[], object]) -> float:
        """Seconds of the benchmark's timer for one call."""
        return self._timed(work)

    def _timed(self, work: Callable[[], object], **how: object) -> float:
        benchmark: Any = self._benchmark  # without types of its own
        benchmark.pedantic(work, **how)
        return float(benchmark.stats.stats.median)

    def add(
        self,
        key: str,
        value: float,
        unit: str,
        better: str,
        budget: float | None = None,
        tolerance: float = TOLERANCE,
    ) -> None:
        """Report a figure.

        Parameters
        ----------
        key : case and metric, e.g. ``fifo.jobs_per_cpu_s``
        better : ``larger``, ``smaller``, or ``neither`` for circumstances
        budget : the least or largest acceptable value
        """
        case, _, metric = key.partition(".")
        row: dict[str, Any] = {"key": key, "case": case, "metric": metric, "value": value, "unit": unit}
        row |= {"better": better, "budget": budget, "tolerance": tolerance}
        self._benchmark.extra_info["rows"].append(row)


def wall_clock(function: Callable[..., None]) -> Callable[..., None]:
    """Mark a benchmark whose timer counts wall seconds; others count CPU seconds of this process."""
    marked: Callable[..., None] = pytest.mark.benchmark(timer=time.perf_counter)(function)
    return marked
