"""Mean bounds of each policy's runs, and its gap to them, for comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ray_sim.model.figures import AnnouncedFigures
from ray_sim.model.result import Summary
from ray_sim.model.text import natural
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
    """Bounds of the policies in the runs of one place, by label; none where the metric has no bound."""
    found: dict[str, list[_Bounded]] = {}
    for policy, summary in runs:
        if (bounded := _bounded(summary, metric)) is not None:
            found.setdefault(policy, []).append(bounded)
    return tuple(_of_policy(one, found[one], lower_is_better(metric)) for one in sorted(found, key=natural))


def _of_policy(policy: str, runs: list[_Bounded], lower: bool) -> PolicyBound:
    values, bounds = np.array([run.value for run in runs]), np.array([run.bound for run in runs])
    names = Counter(run.largest for run in runs if run.largest is not None)
    largest = min(names, key=lambda name: (-names[name], name)) if names else None
    gap = gap_of_means(values, bounds, lower=lower)
    return PolicyBound(policy, len(runs), float(np.mean(bounds)), gap, largest)


def _bounded(summary: Summary, metric: str) -> _Bounded | None:
    """Value and bound of a run; None where the metric has none."""
    jct, utility = summary.certificate, summary.utility_certificate
    announced = summary.figures_as(AnnouncedFigures)
    if metric == JCT and jct is not None and summary.jct_s.mean is not None:
        return _Bounded(summary.jct_s.mean, jct.bound_s, jct.binding_text)
    if metric == UTILITY and utility is not None and summary.utility is not None:
        return _Bounded(summary.utility, utility.bound, None)
    if metric == WELFARE and announced is not None:
        return _Bounded(announced.welfare.welfare, announced.welfare.bound, None)
    return None
