"""Verdicts on the shape of a figure: whether each statement appears in the runs, and by which numbers.

The rule is written down in docs/reproduce.md, section "The verdict".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import numpy as np

from ray_sim.model.streams import Streams
from ray_sim.reports.shape_samples import Comparison, Test
from ray_sim.reports.statements import Check
from ray_sim.reports.statistics import LEVEL, ConfidenceInterval, holm, pairs_to_decide, sign_flip_p_value

_STREAMS = Streams(seed=0)
"""Seed of the sign flips: the same for every test, so that adding a check changes no p-value."""


class ShapeVerdict(StrEnum):
    """Whether a statement about a figure appears in the runs."""

    APPEARS = "appears"
    DOES_NOT_APPEAR = "does not appear"
    DEPENDS = "depends on a choice"
    """It appears or does not, and the opposite holds under an alternative to one of the figure's choices."""
    UNDECIDED = "undecided"


class Finding(StrEnum):
    """What a comparison says about the statement."""

    FOR = "for"
    AGAINST = "against"
    OPEN = "open"


_VERDICTS = {
    Finding.FOR: ShapeVerdict.APPEARS,
    Finding.AGAINST: ShapeVerdict.DOES_NOT_APPEAR,
    Finding.OPEN: ShapeVerdict.UNDECIDED,
}


@dataclass(frozen=True, slots=True)
class JudgedComparison:
    """A comparison of a check with its finding."""

    text: str
    estimate: float | None
    interval: ConfidenceInterval | None
    means: tuple[float, ...]
    seeds: int
    """Number of seeds; 1 if none of its runs depends on one, 0 if runs are missing."""
    p_holm: float | None
    """Largest p-value of its tests after Holm; None for fewer than two seeds."""
    finding: Finding
    seeds_needed: int | None
    """Number of seeds that would decide it, where it is open; None if no number is known."""
    untested: bool
    """Whether it has values but no test, since a mean that it divides by is not above 0."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A statement on some runs."""

    verdict: ShapeVerdict
    seeds: int
    """Least number of seeds of a comparison."""
    seeds_needed: int | None
    """Number of seeds that would decide an undecided one; None if it is decided or no number is known."""
    comparisons: tuple[JudgedComparison, ...]


@dataclass(frozen=True, slots=True)
class JudgedAlternative(Judged):
    """A statement under an alternative to a choice of its figure."""

    choice: str
    """Id of the choice."""
    name: str


@dataclass(frozen=True, slots=True)
class JudgedCheck(Judged):
    """A check with its verdict."""

    name: str
    kind: str
    published: str | None
    because: str | None
    turned_by: tuple[str, ...]
    """Ids of the choices on which it depends."""
    alternatives: tuple[JudgedAlternative, ...]

    @property
    def open_alternatives(self) -> int:
        """Number of alternatives under which it is undecided."""
        return sum(each.verdict is ShapeVerdict.UNDECIDED for each in self.alternatives)


@dataclass(frozen=True, slots=True)
class _Test(Test):
    """A test of a comparison with its p-value."""

    p_value: float | None
    exact: bool
    p_holm: float | None = None

    @property
    def finding(self) -> Finding:
        if self.exact and len(self.values):
            return Finding.FOR if self.values[0] > 0 else Finding.AGAINST
        interval = self.interval
        if self.p_holm is None or interval is None or self.p_holm > LEVEL:
            return Finding.OPEN
        if interval.low > 0:
            return Finding.FOR
        return Finding.AGAINST if interval.high < 0 else Finding.OPEN


def judge(
    check: Check,
    compared: Sequence[Comparison],
    alternatives: Mapping[tuple[str, str], Sequence[Comparison]] = MappingProxyType({}),
) -> JudgedCheck:
    """Verdict of a check on the comparisons of its figure.

    `alternatives` are comparisons of the same statement by the id of a choice and the name of its
    alternative; Holm's correction is over all of them.
    """
    (own,) = _judged([compared])
    others = _judged([*alternatives.values()])
    opposite = {ShapeVerdict.APPEARS, ShapeVerdict.DOES_NOT_APPEAR}
    turned_by = [
        choice
        for (choice, _), other in zip(alternatives, others, strict=True)
        if {own.verdict, other.verdict} == opposite
    ]
    return JudgedCheck(
        **{**_fields(own), "verdict": ShapeVerdict.DEPENDS if turned_by else own.verdict},
        name=check.name,
        kind=check.statement,
        published=check.published,
        because=check.because,
        turned_by=tuple(dict.fromkeys(turned_by)),
        alternatives=tuple(
            JudgedAlternative(**_fields(other), choice=choice, name=name)
            for (choice, name), other in zip(alternatives, others, strict=True)
        ),
    )


def _fields(judged: Judged) -> dict[str, Any]:
    return {each.name: getattr(judged, each.name) for each in fields(judged)}


def _judged(groups: Sequence[Sequence[Comparison]]) -> list[Judged]:
    """Verdict of each group of comparisons, after Holm over the tests of all groups."""
    compared = [each for group in groups for each in group]
    tests = _adjusted(compared)
    count = sum(len(each.tests) for each in compared if not each.exact)
    return [
        _verdict_of(group, [[next(tests) for _ in each.tests] for each in group], count) for group in groups
    ]


def _verdict_of(compared: Sequence[Comparison], tests: Sequence[Sequence[_Test]], count: int) -> Judged:
    judged = tuple(_compared(each, found, count) for each, found in zip(compared, tests, strict=True))
    verdict = _VERDICTS[_together([each.finding for each in judged])]
    undecided = verdict is ShapeVerdict.UNDECIDED
    return Judged(
        verdict=verdict,
        seeds=min((each.seeds for each in judged), default=0),
        seeds_needed=_seeds_needed([each for found in tests for each in found], count) if undecided else None,
        comparisons=judged,
    )


def _together(findings: Sequence[Finding]) -> Finding:
    """Finding of several: against if one is, for if all are."""
    if Finding.AGAINST in findings:
        return Finding.AGAINST
    return Finding.FOR if findings and set(findings) == {Finding.FOR} else Finding.OPEN


def _adjusted(compared: Sequence[Comparison]) -> Iterator[_Test]:
    """Yield the tests with p-values after Holm over all; exact ones, whose p would be 0, change nothing.

    A test of fewer than two seeds has no p-value, and counts as 1.
    """
    tests = [_tested(test, exact=each.exact) for each in compared for test in each.tests]
    counted = [1.0 if test.p_value is None else test.p_value for test in tests if not test.exact]
    adjusted = iter(holm(np.array(counted, np.float64)))
    for test in tests:
        p_holm = None if test.exact else float(next(adjusted))
        yield test if test.p_value is None else replace(test, p_holm=p_holm)


def _tested(test: Test, *, exact: bool) -> _Test:
    several = len(test.values) > 1
    p_value = sign_flip_p_value(test.values, _STREAMS.generator("sign-flip")) if several else None
    return _Test(test.values, test.interval, p_value, exact)


def _compared(compared: Comparison, tests: Sequence[_Test], count: int) -> JudgedComparison:
    findings = [test.finding for test in tests]
    finding = _together(findings)
    p_holm = [test.p_holm for test in tests if test.p_holm is not None]
    seeds = min((len(test.values) for test in tests), default=0)
    return JudgedComparison(
        text=compared.text,
        estimate=compared.estimate,
        interval=compared.interval,
        means=compared.means,
        seeds=seeds,
        p_holm=max(p_holm, default=None),
        finding=finding,
        seeds_needed=_seeds_needed(tests, count) if finding is Finding.OPEN else None,
        untested=compared.untested,
    )


def _seeds_needed(tests: Sequence[_Test], count: int) -> int | None:
    """Seeds with which one open test would be significant against, or where none points there, all for."""
    opened = [test.values for test in tests if test.finding is Finding.OPEN]
    found = [(each, pairs_to_decide(each, count) if len(each) > 1 else None) for each in opened]
    known = [(each, max(needed, len(each) + 1)) for each, needed in found if needed is not None]
    if against := [seeds for each, seeds in known if np.mean(each) < 0]:
        return min(against)
    return max(seeds for _, seeds in known) if known and len(known) == len(opened) else None
