"""The verdict on a check, written again from docs/reproduce.md with plain lists and all patterns of signs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from statistics import fmean
from typing import Any

from scipy import stats

Values = Mapping[tuple[str, Any], Mapping[int, float]]


def verdict(kind: str, spec: Any, values: Values, xs: Sequence[Any], *, lower: bool) -> str:
    """Verdict on a check of this kind at every x."""
    tests = list(_tests(kind, spec, values, xs, -1 if lower else 1))
    p_values = [_p_value(test) for test in tests]
    findings = [_finding(test, p) for test, p in zip(tests, _holm(p_values), strict=True)]
    if "against" in findings:
        return "does not appear"
    return "appears" if all(each == "for" for each in findings) else "undecided"


def _finding(test: list[float], p_holm: float) -> str:
    low, high = stats.ttest_1samp(test, 0.0).confidence_interval(0.95)
    if p_holm > 0.05 or low <= 0 <= high:
        return "open"
    return "for" if fmean(test) > 0 else "against"


def _p_value(test: list[float]) -> float:
    """Share of sign patterns whose sum is at least as far from 0."""
    reached = abs(sum(test))
    sums = [
        sum(s * t for s, t in zip(signs, test, strict=True)) for signs in product((1, -1), repeat=len(test))
    ]
    return sum(abs(each) >= reached * (1 - 1e-12) for each in sums) / len(sums)


def _holm(p_values: list[float]) -> list[float]:
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(order):
        worst = max(worst, (len(order) - rank) * p_values[index])
        adjusted[index] = min(1.0, worst)
    return adjusted


def _tests(kind: str, spec: Any, values: Values, xs: Sequence[Any], sign: int) -> Iterator[list[float]]:
    def at(series: str, x: object) -> list[float]:
        return [values[series, x][seed] for seed in sorted(values[series, x])]

    def between(
        a: list[float], b: list[float], low: float | None, high: float | None
    ) -> Iterator[list[float]]:
        if low is not None:
            yield [one - low * other for one, other in zip(a, b, strict=True)]
        if high is not None:
            yield [high * other - one for one, other in zip(a, b, strict=True)]

    def minus(a: list[float], b: list[float], factor: int = 1) -> list[float]:
        return [factor * (one - other) for one, other in zip(a, b, strict=True)]

    match kind:
        case "order":
            for x in xs:
                for better, worse in pairwise(spec):
                    yield minus(at(better, x), at(worse, x), sign)
        case "beats":
            for x in xs:
                for other in spec["others"]:
                    yield minus(at(spec["of"], x), at(other, x), sign)
        case "ratio":
            for x in xs:
                yield from between(at(spec["of"], x), at(spec["over"], x), *spec["between"])
        case "range":
            for x in xs:
                values_here = at(spec["of"], x)
                yield from between(values_here, [1.0] * len(values_here), *spec["between"])
        case "equal":
            for x in xs:
                w = spec["within"]
                yield from between(at(spec["of"], x), at(spec["to"], x), 1 - w, 1 + w)
        case "stays":
            for x in xs[1:]:
                yield from between(
                    at(spec["of"], x), at(spec["of"], xs[0]), 1 - spec["within"], 1 + spec["within"]
                )
        case "monotone":
            up = 1 if spec["direction"] == "rises" else -1
            slopes = []
            for before, after in pairwise(xs):
                step = minus(at(spec["of"], after), at(spec["of"], before), up)
                slopes.append([each / (after - before) for each in step])
                yield step
            if spec.get("flattens"):
                yield minus(slopes[0], slopes[-1])
        case "linear":
            low, high = at(spec["of"], xs[0]), at(spec["of"], xs[-1])
            for x in xs[1:-1]:
                share = (x - xs[0]) / (xs[-1] - xs[0])
                line = [a + share * (b - a) for a, b in zip(low, high, strict=True)]
                yield from between(at(spec["of"], x), line, 1 - spec["within"], 1 + spec["within"])
        case "grows":
            up = 1 if spec.get("direction", "rises") == "rises" else -1
            for before, after in pairwise(xs):
                now, then = (
                    _gap(spec["gap"], at(spec["of"], x), at(spec["over"], x)) for x in (before, after)
                )
                yield minus(then, now, up)
        case "best_at":
            for x in spec["against"]:
                yield minus(at(spec["of"], spec["x"]), at(spec["of"], x), sign)


def _gap(gap: str, a: list[float], b: list[float]) -> list[float]:
    """Difference seed by seed, or the ratio of means with the effect of each seed."""
    if gap == "difference":
        return [one - other for one, other in zip(a, b, strict=True)]
    r = fmean(a) / fmean(b)
    return [r + (one - r * other) / fmean(b) for one, other in zip(a, b, strict=True)]
