"""Result of a published figure on our runs: its points, the verdicts on its shape, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ray_sim.model.readable import first_and_others
from ray_sim.reports.shape_samples import X
from ray_sim.reports.shapes import JudgedCheck, ShapeVerdict
from ray_sim.reports.statistics import ConfidenceInterval


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a figure."""

    label: str
    unit: str | None = None
    log: bool = False

    @property
    def title(self) -> str:
        """Label with its unit."""
        return self.label if self.unit is None else f"{self.label} ({self.unit})"


@dataclass(frozen=True, slots=True)
class Point:
    """Mean of a series at one x over its seeds."""

    series: str
    x: X
    seeds: int
    mean: float
    interval: ConfidenceInterval | None
    published: float | None


@dataclass(frozen=True, slots=True)
class FigureChoice:
    """What the paper leaves open, and what the figure does."""

    id: str
    ours: str
    source: str
    """Source of the doubt."""
    alternatives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FigureResult:
    """A figure on our runs. Without verdicts if it is quick or has no runs."""

    name: str
    given: str
    """Text that names it on the command line."""
    title: str
    source: str
    x: Axis
    y: Axis
    xs: tuple[X, ...]
    series: tuple[str, ...]
    points: tuple[Point, ...]
    checks: tuple[JudgedCheck, ...]
    facts: tuple[str, ...]
    """Numbers of the paper that are not points."""
    planned: int
    """Number of runs of the figure."""
    done: int
    missing: Mapping[str, str]
    """Where each file comes from that is not here, by name; the figure did not run if there is any."""
    choices: tuple[FigureChoice, ...] = ()
    error: str | None = None
    """Why the figure cannot be judged."""
    completions: str | None = None
    """Remark on series that complete different numbers of jobs at the same x; null where there are none."""

    @property
    def off_scale(self) -> tuple[Point, ...]:
        """Points at or below 0 on a logarithmic axis, which has no place for them."""
        return tuple(
            point
            for point in self.points
            if (self.y.log and point.mean <= 0)
            or (self.x.log and isinstance(point.x, int | float) and point.x <= 0)
        )

    @property
    def coinciding(self) -> tuple[tuple[str, ...], ...]:
        """Groups of two and more series with the same mean at every x, so that one curve hides the others."""
        same: dict[frozenset[tuple[X, float]], list[str]] = {}
        for series in self.series:
            curve = frozenset((point.x, point.mean) for point in self.points if point.series == series)
            if curve:
                same.setdefault(curve, []).append(series)
        return tuple(tuple(group) for group in same.values() if len(group) > 1)

    def count(self, verdict: ShapeVerdict) -> int:
        """Number of checks with a verdict."""
        return sum(check.verdict is verdict for check in self.checks)

    @property
    def answer(self) -> str:
        """The answer in a sentence or two."""
        if self.missing:
            sources = dict.fromkeys(self.missing.values())
            of = {each: [name for name in self.missing if self.missing[name] == each] for each in sources}
            where = "; ".join(f"{first_and_others(names)}: {source}" for source, names in of.items())
            return f"Not run, as data is missing. {where}"
        if self.error is not None:
            return f"Failed. {self.error}"
        remarks = [f"{self.completions}."] if self.completions else []
        if not self.checks:
            return " ".join([f"{self.done} of {self.planned} runs finished; no verdict.", *remarks])
        parts = [
            f"{verdict.capitalize()}: {'; '.join(names)}."
            for verdict in ShapeVerdict
            if (names := [_with_remark(check) for check in self.checks if check.verdict is verdict])
        ]
        if self.done < self.planned:
            parts.append(f"{self.planned - self.done} of {self.planned} runs are missing.")
        return " ".join([*parts, *remarks])

    @property
    def remark(self) -> str:
        """Remark on data, runs or verdicts that are missing; empty if all are there."""
        if self.missing:
            return f"not run: {first_and_others([*self.missing])} missing"
        if self.error is not None:
            return "failed: see its answer"
        missing = self.planned - self.done
        if missing:
            return f"{missing:,} of {self.planned:,} runs missing"
        return "" if self.checks else "no verdict"

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict for JSON."""
        return {**asdict(self), "answer": self.answer}


def _with_remark(check: JudgedCheck) -> str:
    if check.verdict is ShapeVerdict.DEPENDS:
        return f"{check.name} ({', '.join(check.turned_by)})"
    if check.verdict is not ShapeVerdict.UNDECIDED:
        return check.name
    return f"{check.name} ({check.seeds} seeds; {seeds_text(check.seeds_needed)})"


def seeds_text(needed: int | None) -> str:
    """Number of seeds that would decide a check, in words."""
    return "no number of seeds is known to decide it" if needed is None else f"{needed:,} would decide it"
