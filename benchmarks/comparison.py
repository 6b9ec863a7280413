"""Two reports side by side: what got worse, what got better, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.measurement import Findings, Measurement
from benchmarks.report import BenchReport

Verdict = Literal["worse", "better", "same", "not judged"]


@dataclass(frozen=True, slots=True)
class Change:
    """A figure beside its previous value."""

    previous: float
    ratio: float | None
    """Now over previous; null where that is 0."""
    verdict: Verdict
    """``same`` within the tolerance; a figure of which neither way is better is ``not judged``."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A report against an earlier one."""

    source: str
    """What the earlier report is called."""
    machine: tuple[str, ...]
    """In what the machines differ."""
    versions: tuple[str, ...]
    """In what the versions differ."""
    changes: Mapping[str, Mapping[str, Change]]
    """By benchmark and key."""
    left_out: tuple[str, ...]
    """Figures that are in one of the two only, or not of the same thing; and why."""

    @property
    def worse(self) -> tuple[str, ...]:
        """Names of the figures that got worse by more than their tolerance."""
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
    """Every figure of `now` beside that of `before`, a report called `source`."""
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
    """Changes by key, and what is left out of one benchmark."""
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
    """What became of a figure.

    It is worse when it is so by a factor above 1 + tolerance: a time that grew, or a speed that fell,
    by it. The same the other way round is better.
    """
    verdict: Verdict = "same"
    low, high = sorted((row.value, previous))
    if row.better == "neither":
        verdict = "not judged"
    elif high > low * (1 + row.tolerance):
        verdict = "better" if (row.value > previous) == (row.better == "larger") else "worse"
    return Change(previous, row.value / previous if previous else None, verdict)
