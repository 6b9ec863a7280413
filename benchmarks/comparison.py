"""Comparison of two reports: figures that are worse, better, or not comparable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.measurement import Findings, Measurement
from benchmarks.report import BenchReport

Verdict = Literal["worse", "better", "same", "not judged"]


@dataclass(frozen=True, slots=True)
class Change:
    """A figure and its previous value."""

    previous: float
    ratio: float | None
    """Current value divided by the previous one; null if that is 0."""
    verdict: Verdict
    """``same`` within the tolerance; ``not judged`` if neither direction is better."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of a report with an earlier one."""

    source: str
    """Name of the earlier report."""
    machine: tuple[str, ...]
    """Differences of the machines."""
    versions: tuple[str, ...]
    """Differences of the versions."""
    changes: Mapping[str, Mapping[str, Change]]
    """Changes by benchmark and key."""
    left_out: tuple[str, ...]
    """Figures that are in one report only, or of different inputs or units, with the reason."""

    @property
    def worse(self) -> tuple[str, ...]:
        """Names of the figures that are worse by more than their tolerance."""
        return tuple(
            f"{benchmark}.{key}"
            for benchmark, changes in self.changes.items()
            for key, change in changes.items()
            if change.verdict == "worse"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        return {**asdict(self), "worse": self.worse}


def compare(now: BenchReport, before: BenchReport, source: str) -> Comparison:
    """Compare every figure of `now` with that of `before`, a report with the name `source`."""
    left_out = [
        *(f"{name}: not in {source}" for name in now.benchmarks if name not in before.benchmarks),
        *(f"{name}: in {source}, not run now" for name in before.benchmarks if name not in now.benchmarks),
    ]
    changes: dict[str, dict[str, Change]] = {}
    for name, findings in now.benchmarks.items():
        if name in before.benchmarks:
            changes[name], reasons = _compare(findings, before.benchmarks[name], source)
            left_out += [f"{name}{reason}" for reason in reasons]
    return Comparison(
        source=source,
        machine=_differences(now.machine.to_dict(), before.machine.to_dict()),
        versions=_differences(now.versions, before.versions),
        changes=changes,
        left_out=tuple(left_out),
    )


def _differences(now: Mapping[str, object], before: Mapping[str, object]) -> tuple[str, ...]:
    names = [*before, *(name for name in now if name not in before)]
    return tuple(
        f"{name}: {before.get(name, 'none')} then, {now.get(name, 'none')} now"
        for name in names
        if now.get(name) != before.get(name)
    )


def _compare(now: Findings, before: Findings, source: str) -> tuple[dict[str, Change], list[str]]:
    """Changes by key of one benchmark, and the figures left out."""
    for findings, when in ((before, f"in {source}"), (now, "now")):
        if reason := findings.skipped or findings.failed:
            return {}, [f": without figures {when}: {reason}"]
    if now.input != before.input:
        return {}, [f": measured on '{before.input}' then, on '{now.input}' now"]
    rows, previous = ({row.key: row for row in each.rows} for each in (now, before))
    reasons = [
        *(f".{key}: not in {source}" for key in rows if key not in previous),
        *(f".{key}: only in {source}" for key in previous if key not in rows),
        *(
            f".{key}: in {previous[key].unit} then, in {rows[key].unit} now"
            for key in rows
            if key in previous and rows[key].unit != previous[key].unit
        ),
    ]
    changes = {
        key: change(row, previous[key].value)
        for key, row in rows.items()
        if key in previous and row.unit == previous[key].unit
    }
    return changes, reasons


def change(row: Measurement, previous: float) -> Change:
    """Compare a figure with its previous value.

    It is worse if a time grew, or a speed fell, by a factor above 1 + tolerance, and better in the opposite
    case.
    """
    verdict: Verdict = "same"
    low, high = sorted((row.value, previous))
    if row.better == "neither":
        verdict = "not judged"
    elif high > low * (1 + row.tolerance):
        verdict = "better" if (row.value > previous) == (row.better == "larger") else "worse"
    return Change(previous, row.value / previous if previous else None, verdict)
