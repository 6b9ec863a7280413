"""Mean bounds of each policy's runs, and its gap to them, for comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.model.figures.announced import AnnouncedFigures
from ray_sim.model.result import Summary
from ray_sim.reports.compare import JCT, WELFARE, lower_is_better
from ray_sim.reports.gaps import gap_of_means

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
    """See `gap_of_means`."""
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
    values, bounds = np.array([run.value for run in runs]), np.array([run.bound for run in runs])
    names = Counter(run.largest for run in runs if run.largest is not None)
    largest = min(names, key=lambda name: (-names[name], name)) if names else None
    gap = gap_of_means(values, bounds, lower=lower)
    return PolicyBound(policy, len(runs), float(np.mean(bounds)), gap, largest)


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
