"""Results of a benchmark: figures with a key, a unit, a direction and an optional budget."""

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
"""Callback that gets the next step of a benchmark as text."""

TOLERANCE = 0.25
"""Default share by which a figure may become worse; timings on shared machines are noisy."""


class SkippedError(RaySimError):
    """A benchmark cannot run on this system; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure, with the same key in every report."""

    case: str
    metric: str
    """Measured quantity, with its unit unless it is a count, e.g. ``cpu_s``."""
    value: float
    """Value, at least 0."""
    unit: str
    better: Better
    """Better direction; ``neither`` for circumstances."""
    budget: float | None = None
    """Budget: the least or largest acceptable value."""
    tolerance: float = TOLERANCE
    """Share by which the figure may become worse before a comparison reports it."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise ValueError(f"{self.key}: must be a finite number >= 0, got {self.value}")

    @property
    def key(self) -> str:
        """Key within the benchmark: case and metric."""
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
    """Figures of one benchmark, or the reason why there are none."""

    input: str
    """Description of the input; only figures of the same input are compared."""
    rows: tuple[Measurement, ...] = ()
    skipped: str | None = None
    failed: str | None = None

    def __post_init__(self) -> None:
        if twice := [key for key, count in Counter(row.key for row in self.rows).items() if count > 1]:
            raise ValueError(f"figures that are there twice: {', '.join(twice)}")

    @property
    def ok(self) -> bool:
        """Whether the benchmark ran and met all budgets."""
        return self.failed is None and all(row.result != "FAILED" for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain dict for JSON."""
        return {
            "input": self.input,
            "rows": [row.to_dict() for row in self.rows],
            "skipped": self.skipped,
            "failed": self.failed,
        }
