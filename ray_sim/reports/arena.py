"""Tables of an arena: standings of the policies for each question, worth of knowledge, conclusions that hold.

All take scores: a frame with one row per run and the columns ``place``, ``policy``, ``seed`` (null if the run
depends on none), ``jobs``, ``completed``, one column for each `Question`, and the bounds that questions name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import polars as pl

from ray_sim.reports.compare import PolicyComparison, SignificanceVerdict, compare_policies
from ray_sim.reports.gaps import Gap
from ray_sim.reports.statistics import LEVEL, ROUNDING


@dataclass(frozen=True, slots=True)
class Question:
    """A measure by which policies are ranked; `key` is its column in the scores."""

    key: str
    title: str
    unit: str
    lower: bool = True
    """Whether lower values are better."""
    of_completed: bool = False
    """Whether it counts completed jobs only; then a policy that completes fewer than others has no rank."""
    bound: str | None = None
    """Column of the bound that no policy can pass in that run."""


QUESTIONS = (
    Question("jct_mean_s", "Mean completion time", "s", of_completed=True, bound="jct_bound_s"),
    Question("jct_p99_s", "99th percentile of completion times", "s", of_completed=True),
    Question("makespan_s", "Makespan", "s", of_completed=True),
    Question("utility", "Utility", "units", lower=False, bound="utility_bound"),
    Question("welfare", "Welfare", "units", lower=False, bound="welfare_bound"),
    Question("due_share", "Jobs done by their due time", "share", lower=False),
    Question("fairness", "Fairness: Jain's index of run time over completion time", "index", lower=False),
    Question("restarts", "Restarts and preemptions per job", "count"),
    Question("cross_server_gb", "Traffic between servers", "GB", of_completed=True),
    Question("decision_ms", "Decision time per job", "ms"),
)

SENSITIVE = ("jct_mean_s", "utility", "due_share", "fairness")
"""Questions whose conclusions are tested for sensitivity."""
_SENSITIVE = [each for each in QUESTIONS if each.key in SENSITIVE]

_TEXT, _WHOLE, _REAL, _PLACES = pl.String(), pl.Int64(), pl.Float64(), pl.List(pl.String())

STANDINGS_SCHEMA = {
    "place": _TEXT,
    "question": _TEXT,
    "policy": _TEXT,
    "runs": _WHOLE,
    "completed_share": _REAL,
    "mean": _REAL,
    "rank": _WHOLE,
    "percent_to_best": _REAL,
    "percent_low": _REAL,
    "percent_high": _REAL,
    "verdict": _TEXT,
    "bound": _REAL,
    "gap": _REAL,
}
"""Columns of `standings`; without a rank, `verdict` is null too."""

LEVEL_WITH_BEST = ("best", "level with the best")
"""Verdicts on the best policy, and on those whose difference to it is not significant."""

_VERDICTS = {
    SignificanceVerdict.WORSE: "behind",
    SignificanceVerdict.NOT_DISTINGUISHABLE: LEVEL_WITH_BEST[1],
    SignificanceVerdict.BETTER: LEVEL_WITH_BEST[1],
    SignificanceVerdict.TOO_FEW_SEEDS: "untested",
    SignificanceVerdict.NOT_TESTED: "untested",
}
"""Verdict on a policy whose mean is behind the best, by the verdict of the comparison of the two."""

KNOWLEDGE_SCHEMA = {
    "place": _TEXT,
    "question": _TEXT,
    "what": _TEXT,
    "blind": _TEXT,
    "told": _TEXT,
    "percent": _REAL,
    "percent_low": _REAL,
    "percent_high": _REAL,
    "verdict": _TEXT,
}
"""Columns of `worth_of_knowledge`: change of the told policy's mean to the blind one's."""

CONCLUSIONS_SCHEMA = {
    "question": _TEXT,
    "place": _TEXT,
    "better": _TEXT,
    "worse": _TEXT,
    "percent": _REAL,
    "holds": pl.Boolean(),
    "fades_in": _PLACES,
    "turns_in": _PLACES,
    "absent_in": _PLACES,
}
"""Columns of `conclusions`: the places in which the difference is not significant, in which it turns, and in
which one of the two has no run or no rank. It holds if some place compares both, and none fades or turns."""


def standings(scores: pl.DataFrame) -> pl.DataFrame:
    """Means, ranks, differences to the best and bounds, by place and question; `STANDINGS_SCHEMA`.

    Differences are paired by seed, p-values are those of `compare_policies` after Holm within a place and
    question.
    """
    rows = [
        row
        for (place,), here in scores.group_by("place", maintain_order=True)
        for question in QUESTIONS
        for row in _standing(str(place), here, question)
    ]
    return pl.DataFrame(rows, schema=STANDINGS_SCHEMA)


def _standing(place: str, here: pl.DataFrame, question: Question) -> Iterator[dict[str, object]]:
    values = here.drop_nulls(question.key)
    compared = _against_best(_ranked(here, question), question)
    for policy, runs in values.group_by("policy", maintain_order=True):
        name, mean = str(policy[0]), runs[question.key].mean()
        found = compared.get(name)
        yield {
            "place": place,
            "question": question.key,
            "policy": name,
            "runs": runs.height,
            "completed_share": float(runs["completed"].sum()) / float(runs["jobs"].sum()),
            "mean": mean,
            **(found or {"rank": None}),
            **_gap(runs, question),
        }


def _ranked(runs: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Runs with a value of the policies with a rank: with each seed they complete as many jobs as any policy.

    Policies without any value are not compared. A run without a completed job has no value, and counts.
    """
    values = runs.drop_nulls(question.key)
    if not question.of_completed:
        return values
    judged = runs.join(values, on="policy", how="semi", maintain_order="left")
    most = pl.col("completed").max()
    if judged["seed"].null_count() == 0:  # without a seed a run has the same jobs as all others
        most = most.over("seed")
    judged = judged.with_columns(all_done=pl.col("completed") == most)
    return judged.filter(pl.col("all_done").all().over("policy")).drop("all_done").drop_nulls(question.key)


def _against_best(ranked: pl.DataFrame, question: Question) -> Mapping[str, dict[str, object]]:
    runs = _values(ranked, question)
    ranks = _ranks(runs, question)
    if len(ranks) < 2:
        return {name: {"rank": 1, "verdict": "best"} for name in ranks}
    best = min(ranks, key=lambda name: (ranks[name], name))
    rows: dict[str, dict[str, object]] = {best: {"verdict": "best", "percent_to_best": 0.0}}
    for each in compare_policies(runs, question.key, best, lower=question.lower).policies:
        rows[each.policy] = {"verdict": _VERDICTS[each.verdict], **_percents(each, "percent_to_best")}
    return {name: {"rank": ranks[name], **row} for name, row in rows.items()}


def _ranks(runs: pl.DataFrame, question: Question) -> dict[str, int]:
    """Rank of each policy by its mean; equal means, up to `ROUNDING`, share the better rank."""
    sign = 1 if question.lower else -1
    costs = {
        str(name): sign * math.fsum(values["value"]) / values.height
        for (name,), values in runs.group_by("policy", maintain_order=True)
    }
    return {
        name: 1
        + sum(other < cost and not math.isclose(other, cost, rel_tol=ROUNDING) for other in costs.values())
        for name, cost in costs.items()
    }


def _values(scores: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Runs in the form of `compare_policies`."""
    return scores.select("policy", "seed", "completed", value=pl.col(question.key).cast(pl.Float64))


def _percents(each: PolicyComparison, name: str) -> dict[str, object]:
    interval = each.relative_interval
    return {
        name: each.relative_percent,
        "percent_low": interval and interval.low,
        "percent_high": interval and interval.high,
    }


def _gap(runs: pl.DataFrame, question: Question) -> dict[str, float | None]:
    """Mean bound of the runs that have one, and the gap of these runs."""
    if question.bound is None:
        return {"bound": None, "gap": None}
    bound = runs[question.bound].mean()
    gap = Gap(question.key, question.bound, question.lower).of(runs)
    return {"bound": bound if isinstance(bound, float) else None, "gap": gap}


def worth_of_knowledge(scores: pl.DataFrame, pairs: Sequence[tuple[str, str, str]]) -> pl.DataFrame:
    """Difference between policies that are told something and those that are not; `KNOWLEDGE_SCHEMA`.

    Each of the pairs is a blind policy, one that is told something, and what it is told.
    """
    rows: list[dict[str, object]] = []
    for (place,), here in scores.group_by("place", maintain_order=True):
        for question, (blind, told, what) in product(_SENSITIVE, pairs):
            each = _difference(here.drop_nulls(question.key), told, blind, question)
            if each is not None:
                names = {"place": place, "question": question.key, "what": what, "blind": blind, "told": told}
                rows.append({**names, **_percents(each, "percent"), "verdict": str(each.verdict)})
    return pl.DataFrame(rows, schema=KNOWLEDGE_SCHEMA)


def conclusions(scores: pl.DataFrame, variants: Mapping[str, Sequence[str]]) -> pl.DataFrame:
    """Differences between two policies at a place, and whether they hold in all of its variants.

    A difference counts where its p-value (sign flips, one pair of policies) is at most 5 % and its 95 %
    interval leaves out 0. Holding in every variant is the protection against chance, so there is no
    correction for the number of pairs. See `CONCLUSIONS_SCHEMA`.

    `variants` are places that change one thing, by the place of which they do.
    """
    rows: list[dict[str, object]] = []
    for place, others in variants.items():
        for question in _SENSITIVE:
            base = _ranked(scores.filter(place=place), question)
            elsewhere = {other: scores.filter(place=other) for other in others}
            names = base["policy"].unique(maintain_order=True).to_list()
            for one, two in combinations(names, 2):
                row = _conclusion(base, elsewhere, one, two, question)
                if row is not None:
                    rows.append({"place": place, "question": question.key, **row})
    return pl.DataFrame(rows, schema=CONCLUSIONS_SCHEMA)


def _conclusion(
    base: pl.DataFrame, elsewhere: Mapping[str, pl.DataFrame], one: str, two: str, question: Question
) -> dict[str, object] | None:
    found = _difference(base, one, two, question)
    if found is None or (sign := _sign(found)) == 0:
        return None
    wanted = -1 if question.lower else 1
    better, worse = (one, two) if sign == wanted else (two, one)
    if better != one:
        found = _difference(base, better, worse, question)
        assert found is not None, "the pair has been compared the other way round"
    others = {
        place: _difference(_ranked(here, question), better, worse, question)
        for place, here in elsewhere.items()
    }
    signs = {place: _sign(other) for place, other in others.items() if other is not None}
    fades, turns = ([place for place in signs if signs[place] == each] for each in (0, -wanted))
    holds = bool(signs) and not fades and not turns
    absent = [place for place in others if place not in signs]
    places = {"fades_in": fades, "turns_in": turns, "absent_in": absent}
    return {"better": better, "worse": worse, "percent": found.relative_percent, "holds": holds, **places}


def _difference(runs: pl.DataFrame, one: str, two: str, question: Question) -> PolicyComparison | None:
    """Comparison of ``one`` with ``two`` as the baseline; None where one of them has no run."""
    both = runs.filter(pl.col("policy").is_in([one, two]))
    if both["policy"].n_unique() < 2:
        return None
    return compare_policies(_values(both, question), question.key, two, lower=question.lower).policies[0]


def _sign(found: PolicyComparison) -> int:
    """Sign of a significant difference; 0 where it is not significant."""
    if found.p_value is None or found.p_value > LEVEL or found.interval is None:
        return 0
    return int(found.interval.low > 0) - int(found.interval.high < 0)
