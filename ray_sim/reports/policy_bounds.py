"""Mean bounds of each policy's runs, and its gap to them, for comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ray_sim.model.figures.announced import AnnouncedFigures
from ray_sim.model.result import Summary
from ray_sim.reports.compare import JCT, WELFARE, lower_is_better

UTILITY = "utility"


@dataclass(frozen=True, slots=True)
class PolicyBound:
    """The certificates of a policy's runs at one place; docs/certificates.md says what the bounds are."""

    policy: str
    runs: int
    """Number of runs with a bound."""
    bound: float
    """Mean bound of these runs: below their values for completion times, above for utility and welfare."""
    gap: float | None
    """Mean value / mean bound - 1 for completion times, mean bound / mean value - 1 for utility and welfare;
    None where that divides by 0."""
    largest: str | None
    """The bound that counts, with its resource and partition, e.g. ``B2 of gpu``, in most runs."""


class _Bounded(NamedTuple):
    value: float
    bound: float
    largest: str | None


def policy_bounds(runs: Iterable[tuple[str, Summary]], metric: str) -> tuple[PolicyBound, ...]:
    """Bounds of each policy in the order of their labels; none where the metric has no bound.

    Parameters
    ----------
    runs : label of the policy and summary of each run of one place
    """
    read = _BOUNDS.get(metric)
    found: dict[str, list[_Bounded]] = {}
    for policy, summary in runs:
        if read is not None and (bounded := read(summary)) is not None:
            found.setdefault(policy, []).append(bounded)
    return tuple(_of_policy(policy, found[policy], lower_is_better(metric)) for policy in sorted(found))


def _of_policy(policy: str, runs: list[_Bounded], lower: bool) -> PolicyBound:
    value = sum(run.value for run in runs) / len(runs)
    bound = sum(run.bound for run in runs) / len(runs)
    above, below = (value, bound) if lower else (bound, value)
    names = Counter(run.largest for run in runs if run.largest is not None)
    largest = min(names, key=lambda name: (-names[name], name)) if names else None
    return PolicyBound(policy, len(runs), bound, above / below - 1 if below else None, largest)


def _jct(summary: Summary) -> _Bounded | None:
    mean_s, found = summary.jct_s.mean, summary.certificate
    if mean_s is None or found is None:
        return None
    return _Bounded(mean_s, found.bound_s, found.binding_text)


def _utility(summary: Summary) -> _Bounded | None:
    found = summary.utility_certificate
    if summary.utility is None or found is None:
        return None
    return _Bounded(summary.utility, found.bound, None)


def _welfare(summary: Summary) -> _Bounded | None:
    found = summary.figures_as(AnnouncedFigures)
    return None if found is None else _Bounded(found.welfare.welfare, found.welfare.bound, None)


_BOUNDS: Mapping[str, Callable[[Summary], _Bounded | None]] = {
    JCT: _jct,
    UTILITY: _utility,
    WELFARE: _welfare,
}
