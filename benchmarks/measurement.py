"""What a benchmark finds: figures with a key, a unit, a direction and perhaps a budget."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ray_sim.model.errors import RaySimError

Better = Literal["larger", "smaller", "neither"]
Result = Literal["passed", "FAILED", "no budget"]

Step = Callable[[str], None]
"""Told what a benchmark does next."""

TOLERANCE = 0.25
"""By how much a figure may get worse by default: timings on shared machines are noisy."""


class SkippedError(RaySimError):
    """A benchmark cannot be run here; the message says why."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure; its key is the same in every report."""

    case: str
    metric: str
    """What was measured, with its unit where it is not a count: ``cpu_s``."""
    value: float
    """At least 0."""
    unit: str
    better: Better
    """Which way is better; ``neither`` for circumstances."""
    budget: float | None = None
    """The least or the most that is wanted."""
    tolerance: float = TOLERANCE
    """Share by which it may get worse until a comparison says so."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise ValueError(f"{self.key}: must be a finite number >= 0, got {self.value}")

    @property
    def key(self) -> str:
        """Case and metric: what it is known by within its benchmark."""
        return f"{self.case}.{self.metric}"

    @property
    def result(self) -> Result:
        """Whether the budget is met."""
        if self.budget is None:
            return "no budget"
        met = self.value >= self.budget if self.better == "larger" else self.value <= self.budget
        return "passed" if met else "FAILED"

    def to_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return {"key": self.key, **asdict(self), "result": self.result}


@dataclass(frozen=True, slots=True)
class Findings:
    """The figures of one benchmark, or why there are none."""

    input: str
    """What was measured on. Figures compare only with those of the same input."""
    rows: tuple[Measurement, ...] = ()
    skipped: str | None = None
    failed: str | None = None

    def __post_init__(self) -> None:
        if twice := [key for key, count in Counter(row.key for row in self.rows).items() if count > 1]:
            raise ValueError(f"figures that are there twice: {', '.join(twice)}")

    @property
    def ok(self) -> bool:
        """Whether it did not fail and missed no budget."""
        return self.failed is None and all(row.result != "FAILED" for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return {
            "input": self.input,
            "rows": [row.to_dict() for row in self.rows],
            "skipped": self.skipped,
            "failed": self.failed,
        }
