"""Findings on the policies of one place in sentences: the best policy, and the verdicts on the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.readable import duration, text_of
from ray_sim.model.units import FloatArray
from ray_sim.reports.compare import (
    JCT,
    RUNS_SCHEMA,
    GroupComparison,
    PolicyComparison,
    SignificanceVerdict,
    compare_policies,
    default_metric,
    lower_is_better,
)
from ray_sim.reports.statistics import ROUNDING, interval_text, mean_interval, metric_range
from ray_sim.reports.tables import Place, RunRow, sweep_table

_VERDICTS = {
    SignificanceVerdict.WORSE: "Worse than {}",
    SignificanceVerdict.BETTER: "Better than {} over common seeds",
    SignificanceVerdict.NOT_DISTINGUISHABLE: "Not distinguishable from {}",
    SignificanceVerdict.TOO_FEW_SEEDS: "Too few seeds for a verdict against {}",
    SignificanceVerdict.NOT_TESTED: "Not tested against {}",
}
"""Begin of the sentence on the policies with a verdict, in the order of the sentences."""


@dataclass(frozen=True, slots=True)
class PlaceComparison:
    """The policies of one place, or the values of an axis under one policy, compared by a metric."""

    metric: str
    values: Mapping[str, FloatArray]
    """Values of the metric by policy, one per run that has it."""
    comparison: GroupComparison | None
    """Comparison with the best policy; None with fewer than two policies."""

    @property
    def name(self) -> str:
        """Name of the metric in tables and sentences."""
        return "mean JCT" if self.metric == JCT else self.metric

    @property
    def text(self) -> Callable[[float | None], str]:
        """Formatter of values of the metric."""
        return text_of(self.metric)

    def interval(self, policy: str) -> str:
        """95 % interval of a policy's mean, or why there is none."""
        values = self.values[policy]
        return interval_text(mean_interval(values, metric_range(self.metric)), len(values), self.text)


def compare_place(rows: Sequence[RunRow], metric: str | None = None) -> PlaceComparison:
    """Compare the policies of the finished runs of one place with the best; see `default_metric`."""
    summaries = [(row, row.summary.flat()) for row in rows]
    metric = metric or default_metric([flat for _, flat in summaries])
    found = [(row.policy, row.seed, flat.get(metric), row.summary.completed) for row, flat in summaries]
    runs = pl.DataFrame(found, schema=RUNS_SCHEMA, orient="row")
    valued = runs.drop_nulls("value")
    policies = valued["policy"].unique(maintain_order=True)
    return PlaceComparison(
        metric=metric,
        values={policy: valued.filter(policy=policy)["value"].to_numpy() for policy in policies},
        comparison=compare_policies(runs, metric) if len(policies) > 1 else None,
    )


def findings(place: PlaceComparison) -> tuple[str, ...]:
    """Sentences on a place: the best policy, the verdicts on the others, and what limits the numbers."""
    compared = place.comparison
    if compared is None:
        return tuple(f"{policy}: {place.name} {_mean(place, policy)}." for policy in place.values)
    best = compared.baseline
    sentences = [f"{_best(compared, place)}: {_mean(place, best)}."]
    for verdict, begin in _VERDICTS.items():
        policies = [each for each in compared.policies if each.verdict is verdict]
        if policies:
            listed = ", ".join(_difference(each, place.text) for each in policies)
            sentences.append(f"{begin.format(best)}: {listed}.")
    return (*sentences, *(f"{note}." for note in compared.notes))


def _best(compared: GroupComparison, place: PlaceComparison) -> str:
    """Begin of the sentence on the best policy, and on those whose means are equal to its mean."""
    if not compared.common_seeds:
        return f"No seed is common to all policies, so none has the best {place.name}. {compared.baseline}"
    extreme = "least" if lower_is_better(place.metric) else "highest"
    pairs = [(each.policy, each.mean, each.baseline_mean) for each in compared.policies]
    equal = [
        policy for policy, mean, best in pairs
        if mean is not None and best is not None and math.isclose(mean, best, rel_tol=ROUNDING)
    ]  # fmt: skip
    if equal:
        return f"{' and '.join([compared.baseline, *equal])} have the same, {extreme} {place.name}"
    return f"{compared.baseline} has the {extreme} {place.name}"


def compare_places(rows: Iterable[RunRow], metric: str | None = None) -> dict[Place, PlaceComparison]:
    """`compare_place` of the runs of each workload, cluster and setting, in order of appearance."""
    return {place: compare_place(runs, metric) for place, runs in _by_place(rows).items()}


def sweep_findings(
    comparisons: Mapping[Place, PlaceComparison], rows: Iterable[RunRow]
) -> dict[Place, tuple[str, ...]]:
    """`findings` and the sentence on the certificate by place."""
    means = {place: sweep_table(runs) for place, runs in _by_place(rows).items()}
    return {
        place: tuple(filter(None, [*findings(compared), certificate_text(means[place])]))
        for place, compared in comparisons.items()
    }


def _by_place(rows: Iterable[RunRow]) -> dict[Place, list[RunRow]]:
    places: dict[Place, list[RunRow]] = {}
    for row in rows:
        places.setdefault(row.place, []).append(row)
    return places


def certificate_text(means: pl.DataFrame) -> str:
    """Sentence on the bound of the completion times in a sweep table; empty where no run has one."""
    if not {"certificate.bound_s", "certificate.gap"} <= {*means.columns}:
        return ""
    bounded = means.drop_nulls(["certificate.bound_s", "certificate.gap"]).sort("certificate.gap", "policy")
    if bounded.is_empty():
        return ""
    best = bounded.row(0, named=True)
    return bound_text(best["policy"], best["certificate.bound_s"], best["certificate.gap"])


_MET = 1e-6
"""A gap below this is that of the tolerance of bounds, such as 1e-9 of B1."""


def bound_text(policy: str, bound_s: float, gap: float) -> str:
    """Sentence on the bound of a policy's mean completion time and on its gap to it."""
    jobs = f"the jobs that {policy} completed"
    first = f"No schedule of {jobs} has a mean completion time below {duration(bound_s)}"
    if gap < _MET:
        return f"{first}, which {policy} reaches: no policy can be faster."
    return (
        f"{first}; that of {policy} is {100 * gap:.3g} % above this bound, so no policy can be "
        f"more than {100 * gap / (1 + gap):.3g} % faster."
    )


def percent_text(each: PolicyComparison) -> str:
    """Difference to the baseline in percent with its 95 % interval in brackets; a dash for none."""
    if each.relative_percent is None:
        return "-"
    return f"{_percent(each.relative_percent)} ({_relative_interval(each)})"


def _relative_interval(each: PolicyComparison) -> str:
    return interval_text(each.relative_interval, each.pairs, _percent)


def _mean(place: PlaceComparison, policy: str) -> str:
    """Mean of a policy, with its interval and its number of runs."""
    values = place.values[policy]
    mean, runs = place.text(float(np.mean(values))), len(values)
    return f"{mean} (one run)" if runs == 1 else f"{mean} ({place.interval(policy)}; {runs} seeds)"


def _difference(each: PolicyComparison, text: Callable[[float], str]) -> str:
    """Name of a policy, and its difference to the baseline: in percent, else in the metric's unit."""
    difference = "" if each.difference is None else f" by {text(each.difference)}"
    if each.relative_percent is not None:
        ends = _relative_interval(each)
        difference = f" {_percent(each.relative_percent)} %" + ("" if ends == "-" else f" ({ends})")
    needed = "" if each.seeds_needed is None else f", {each.seeds_needed} seeds needed"
    return f"{each.policy}{difference}{needed}"


def _percent(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+.3g}"
