"""Comparison of policies with a baseline over the same seeds: size and significance of the differences."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
import polars as pl

from ray_sim.model.distribution import Distribution
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.readable import number
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from ray_sim.reports.shape_samples import Samples
from ray_sim.reports.statistics import (
    LEVEL,
    ConfidenceInterval,
    cohens_d_z,
    holm,
    mean_interval,
    paired_difference,
    pairs_needed,
    ratio_interval,
    ratio_of_means,
    sign_flip_p_value,
    superiority,
)

PlaceT = TypeVar("PlaceT", bound=Hashable)


def paired_by_seed(values: Mapping[str, Mapping[int | None, float]]) -> dict[str, FloatArray]:
    """Values of each label over the seeds that all labels have; the value of seed None pairs with each."""
    cells = [(label, (None,)) for label in values]
    samples = Samples({(label, None): by_seed for label, by_seed in values.items()})
    return dict(zip(values, samples.paired(*cells), strict=True))


def completion_note(runs: Iterable[tuple[str, int | None, float]]) -> str | None:
    """Remark where policies complete different numbers of jobs over common seeds; None where equal ones.

    Each run is a label, its seed, None if it depends on none, and its number of completed jobs.
    """
    completed: dict[str, dict[int | None, float]] = {}
    for label, seed, jobs in runs:
        completed.setdefault(label, {})[seed] = jobs
    counts = paired_by_seed(completed)
    if len(np.unique(np.array([*counts.values()]), axis=0)) < 2:
        return None
    means = {label: float(each.mean()) for label, each in counts.items()}
    least, most = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return (
        f"different numbers of completed jobs, on average {number(means[least])} ({least}) to "
        f"{number(means[most])} ({most}); times are over completed jobs only"
    )


def completion_notes(runs: Iterable[tuple[PlaceT, str, int | None, float]]) -> dict[PlaceT, str]:
    """`completion_note` of the runs of each place, or value of x; those without a remark are left out."""
    places: dict[PlaceT, list[tuple[str, int | None, float]]] = {}
    for place, label, seed, completed in runs:
        places.setdefault(place, []).append((label, seed, completed))
    return {place: note for place, here in places.items() if (note := completion_note(here))}


RUNS_SCHEMA = {"policy": pl.String(), "seed": pl.Int64(), "value": pl.Float64(), "completed": pl.Int64()}
"""Columns of the runs that `compare_policies` reads."""

JCT = "jct_s.mean"
WELFARE = "welfare.welfare"

_HIGHER_IS_BETTER = (
    *("utilisation.", "jain_index", "completed", WELFARE, "welfare.revenue", "welfare.surplus"),
    *("welfare.fates.completed", "policy_figures.planned_welfare", "packing.alloc"),
)

_STREAMS = Streams(seed=0)
"""Seed of the sign flips: the same for every test, so that adding a policy changes no p-value."""


class SignificanceVerdict(StrEnum):
    """Result of the test at 5 % after Holm's correction together with the interval of the difference."""

    BETTER = "better"
    WORSE = "worse"
    NOT_DISTINGUISHABLE = "not distinguishable"
    TOO_FEW_SEEDS = "too few seeds"
    """The test cannot reach 5 %, even with all differences of one sign."""
    NOT_TESTED = "not tested"
    """Fewer than two pairs."""


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """Comparison of a policy with the baseline, in the metric's unit. Null if the pairs are too few."""

    policy: str
    runs: int
    """Number of runs of the policy, paired or not."""
    pairs: int
    """Number of seeds that both have; 1 if neither depends on a seed."""
    completed: float | None
    """Mean number of completed jobs over the pairs."""
    baseline_completed: float | None
    mean: float | None
    baseline_mean: float | None
    difference: float | None
    """Mean of policy minus baseline over the pairs."""
    interval: ConfidenceInterval | None
    relative_percent: float | None
    """Difference of the means in percent of the baseline's mean."""
    relative_interval: ConfidenceInterval | None
    effect_size: float | None
    """Cohen's d_z: mean difference in standard deviations of the differences."""
    superiority: float | None
    """Share of the pairs in which the policy is better than the baseline; a tie counts one half."""
    p_value: float | None
    p_holm: float | None
    verdict: SignificanceVerdict
    seeds_needed: int | None
    """Least number of seeds with which the test can reach 5 %; None if there are enough."""


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """Comparison of the policies of one workload, cluster and setting, best first."""

    metric: str
    baseline: str
    baseline_mean: float
    """Mean over all seeds of the baseline."""
    baseline_runs: int
    baseline_completed: float
    """Mean number of its completed jobs over all its seeds."""
    common_seeds: int
    """Number of seeds that all policies have; 1 if none depends on one."""
    policies: tuple[PolicyComparison, ...]
    notes: tuple[str, ...]
    """Remarks that limit the meaning of the numbers."""

    @property
    def completions_differ(self) -> bool:
        """Whether a policy completes another number of jobs than the baseline."""
        return any(each.completed != each.baseline_completed for each in self.policies)


def default_metric(metrics: Sequence[Collection[str]]) -> str:
    """Metric of a comparison that names none, given those of each run.

    The welfare if every run has one: a mean JCT favours policies that turn jobs away. Else the mean JCT.
    """
    return WELFARE if metrics and all(WELFARE in each for each in metrics) else JCT


def no_value(metric: str, known: Collection[str]) -> InvalidInputError:
    """Error on a metric that no run, or not every run, has, given those that they have."""
    if metric in {f"{times}.{each.name}" for times in ("jct_s", "queue_s") for each in fields(Distribution)}:
        return InvalidInputError(
            f"metric '{metric}' has no value in these runs; times have none where no job completed"
        )
    return UnknownNameError("metric", metric, known)


def lower_is_better(metric: str) -> bool:
    """Whether a lower value of a metric, a key of `Summary.flat`, is better."""
    return metric != "utility" and not metric.startswith(_HIGHER_IS_BETTER)


def compare_policies(
    runs: pl.DataFrame, metric: str, baseline: str | None = None, *, lower: bool | None = None
) -> GroupComparison:
    """Compare every policy of a group with the baseline over common seeds.

    Parameters
    ----------
    runs : columns of `RUNS_SCHEMA`: policy, seed (null if the run depends on no seed), value (of the metric;
        null where no job completed), completed (jobs); one row per run, at least two policies with values
    baseline : label of a policy; by default the policy with the best mean over the seeds of all policies
    lower : whether lower values are better; by default as the metric has it

    Raises
    ------
    UnknownNameError : no such baseline
    """
    sign = 1.0 if (lower_is_better(metric) if lower is None else lower) else -1.0
    parts = runs.drop_nulls("value").sort("policy", "seed").partition_by("policy", as_dict=True)
    by_policy = {str(policy): frame for (policy,), frame in parts.items()}
    common = _common_seeds(by_policy)
    base = _best(by_policy, common, sign) if baseline is None else find_baseline(baseline, by_policy)
    pairs = {
        policy: paired_rows(frame, by_policy[base], ["seed"])
        for policy, frame in by_policy.items()
        if policy != base
    }
    compared = _with_verdicts(
        [_compare(policy, by_policy[policy].height, rows, sign) for policy, rows in pairs.items()], sign
    )
    compared.sort(key=lambda each: (each.difference is None, sign * (each.difference or 0.0), each.policy))
    completions = completion_note(runs.select("policy", "seed", "completed").iter_rows())
    return GroupComparison(
        metric=metric,
        baseline=base,
        baseline_mean=_mean(by_policy[base]["value"]),
        baseline_runs=by_policy[base].height,
        baseline_completed=_mean(by_policy[base]["completed"]),
        common_seeds=1 if common is None else len(common),
        policies=tuple(compared),
        notes=(*_seed_notes(by_policy, base, pairs), *([completions] if completions else [])),
    )


def find_baseline(
    name: str, policies: Iterable[str], others: Mapping[str, str] | None = None, kind: str = "baseline"
) -> str:
    """Find the policy with this label, or the only one with this name before its parameters.

    `others` are further names of policies, such as ``sjf(backfill=True)`` of one with a label of its own.

    Raises
    ------
    UnknownNameError : no policy matches, or the bare name matches several
    """
    labels = {label: label for label in policies}
    names = {**{other: label for other, label in (others or {}).items() if label in labels}, **labels}
    bare: dict[str, set[str]] = {}
    for each, label in names.items():
        bare.setdefault(re.split(r"[({]", each, maxsplit=1)[0], set()).add(label)
    accepted = {one: next(iter(found)) for one, found in bare.items() if len(found) == 1} | names
    if name not in accepted:
        raise UnknownNameError(kind, name, accepted)
    return accepted[name]


def paired_rows(rows: pl.DataFrame, baseline: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Join a policy's rows with the baseline's of the same keys, which include ``seed``.

    If one of the two depends on no seed, its only run is paired with every seed of the other.

    Returns
    -------
    rows in the order of `rows`, then of `baseline`; columns of the baseline end in ``_baseline``
    """
    seeded = rows["seed"].count() and baseline["seed"].count()
    keys = [key for key in keys if seeded or key != "seed"]
    if not keys:
        both = rows.join(baseline, how="cross", suffix="_baseline")
    else:
        both = rows.join(baseline, on=keys, suffix="_baseline", maintain_order="left_right")
    return both if seeded else both.with_columns(seed=pl.coalesce("seed", "seed_baseline"))


def _common_seeds(by_policy: Mapping[str, pl.DataFrame]) -> list[int] | None:
    """Seeds that all policies have whose runs depend on one; None if there is no such policy."""
    seeded = [set(frame["seed"]) for frame in by_policy.values() if frame["seed"].count()]
    return sorted(set.intersection(*seeded)) if seeded else None


def _best(by_policy: Mapping[str, pl.DataFrame], common: Sequence[int] | None, sign: float) -> str:
    """The policy with the best mean over the common seeds, or over its own seeds if none are common."""

    def score(policy: str) -> tuple[float, str]:
        frame = by_policy[policy]
        shared = frame.filter(pl.col("seed").is_null() | pl.col("seed").is_in(common or []))
        return sign * _mean((shared if shared.height else frame)["value"]), policy

    return min(by_policy, key=score)


def _compare(policy: str, runs: int, pairs: pl.DataFrame, sign: float) -> PolicyComparison:
    value, base = _floats(pairs["value"]), _floats(pairs["value_baseline"])
    difference = paired_difference(value, base)
    some, several = len(value) > 0, len(value) > 1
    ratio, ratios = ratio_of_means(value, base), ratio_interval(value, base)
    return PolicyComparison(
        policy=policy,
        runs=runs,
        pairs=len(value),
        completed=_mean(pairs["completed"]) if some else None,
        baseline_completed=_mean(pairs["completed_baseline"]) if some else None,
        mean=float(np.mean(value)) if some else None,
        baseline_mean=float(np.mean(base)) if some else None,
        difference=float(np.mean(difference)) if some else None,
        interval=mean_interval(difference),
        relative_percent=None if ratio is None else _percent(ratio),
        relative_interval=ratios and ConfidenceInterval(_percent(ratios.low), _percent(ratios.high)),
        effect_size=cohens_d_z(difference),
        superiority=superiority(sign * difference) if some else None,
        p_value=sign_flip_p_value(difference, _STREAMS.generator("sign-flip")) if several else None,
        p_holm=None,
        verdict=SignificanceVerdict.NOT_TESTED,
        seeds_needed=None,
    )


def _with_verdicts(compared: Sequence[PolicyComparison], sign: float) -> list[PolicyComparison]:
    p_values = [each.p_value for each in compared if each.p_value is not None]
    adjusted = iter(holm(np.array(p_values)))
    needed = pairs_needed(max(1, len(p_values)))

    def judged(each: PolicyComparison) -> PolicyComparison:
        if each.p_value is None or each.difference is None:
            return each
        p_holm = float(next(adjusted))
        differs = each.interval is not None and not each.interval.low <= 0 <= each.interval.high
        equal = each.difference == 0 and each.effect_size is None  # more seeds would hardly change that
        if p_holm <= LEVEL and differs:
            verdict = SignificanceVerdict.BETTER if sign * each.difference < 0 else SignificanceVerdict.WORSE
        elif each.pairs < needed and not equal:
            verdict = SignificanceVerdict.TOO_FEW_SEEDS
        else:
            verdict = SignificanceVerdict.NOT_DISTINGUISHABLE
        more = needed if verdict is SignificanceVerdict.TOO_FEW_SEEDS else None
        return replace(each, p_holm=p_holm, verdict=verdict, seeds_needed=more)

    return [judged(each) for each in compared]


def _seed_notes(
    by_policy: Mapping[str, pl.DataFrame], base: str, pairs: Mapping[str, pl.DataFrame]
) -> Iterator[str]:
    if any(rows.height == 1 for rows in pairs.values()):
        yield "n = 1: a difference without an interval and without a test"
    free = [policy for policy, frame in by_policy.items() if not frame["seed"].count()]
    if len(free) == len(by_policy):
        yield "seed-free: no run here depends on a seed"
    elif free:
        yield f"seed-free, paired with every seed of the others: {', '.join(free)}"
    for policy, rows in pairs.items():
        if policy in free or base in free:
            continue
        for one, other in ((policy, base), (base, policy)):
            left_out = by_policy[one].height - rows.height
            if left_out:
                yield f"{left_out} of {by_policy[one].height} seeds of {one} left out: {other} lacks them"


def _floats(column: pl.Series) -> FloatArray:
    return column.to_numpy().astype(np.float64)


def _mean(column: pl.Series) -> float:
    return float(np.mean(_floats(column)))


def _percent(ratio: float) -> float:
    return 100 * (ratio - 1)
