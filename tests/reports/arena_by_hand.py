"""Tables of an arena in plain Python: slow, and by the sentences of docs/arena.md and docs/compare.md.

Scores are dicts, by place, policy and seed, of the numbers of each run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations, product
from statistics import mean, variance

import polars as pl
import pytest
from scipy import stats

from ray_sim.reports import arena

Score = Mapping[str, float | None]
Scores = Mapping[tuple[str, str, int], Score]
Row = dict[str, object]

HIGHER = ("utility", "welfare", "due_share", "fairness")
OF_COMPLETED = ("jct_mean_s", "jct_p99_s", "makespan_s", "cross_server_gb")
BOUNDS = {"jct_mean_s": "jct_bound_s", "utility": "utility_bound", "welfare": "welfare_bound"}
QUESTIONS = (*OF_COMPLETED, *HIGHER, "restarts", "decision_ms")
CONCLUSIONS = ("jct_mean_s", "utility", "due_share", "fairness")


def sign_flips(difference: Sequence[float]) -> float:
    """P-value by all sign patterns."""
    sums = [
        abs(math.fsum(sign * each for sign, each in zip(signs, difference, strict=True)))
        for signs in product((1, -1), repeat=len(difference))
    ]
    least = abs(math.fsum(difference)) - 1e-9 * sum(map(abs, difference))
    return sum(each >= least for each in sums) / len(sums)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P-values after Holm: the least times their number, the next times one less, and never falling."""
    adjusted: dict[str, float] = {}
    most = 0.0
    for index, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        most = max(most, min(1.0, p_values[name] * (len(p_values) - index)))
        adjusted[name] = most
    return adjusted


def _leaves_out_0(difference: Sequence[float]) -> bool:
    half = stats.t.ppf(0.975, len(difference) - 1) * math.sqrt(variance(difference) / len(difference))
    return bool(abs(mean(difference)) > half)


def percents(
    policy: Sequence[float], base: Sequence[float]
) -> tuple[float | None, float | None, float | None]:
    """The policy's mean over the base's minus 1 in per cent, and the roots of Fieller's equation."""
    count, over, under = len(policy), mean(policy), mean(base)
    if not under:
        return None, None, None
    percent = 100 * (over / under - 1)
    if count < 5:
        return percent, None, None
    squared_t = stats.t.ppf(0.975, count - 1) ** 2 / count / (count - 1)

    def product_of(one: Sequence[float], other: Sequence[float]) -> float:
        centred = [(a - mean(one)) * (b - mean(other)) for a, b in zip(one, other, strict=True)]
        return float(squared_t * math.fsum(centred))

    # (over - r under)^2 = t^2 / n x variance of (policy - r base), as a r^2 - 2 b r + c = 0.
    a = under**2 - product_of(base, base)
    b = over * under - product_of(policy, base)
    c = over**2 - product_of(policy, policy)
    if a <= 0:
        return percent, None, None
    root = math.sqrt(max(0.0, b * b - a * c))
    low = (b - root) / a
    if min(*policy, *base) >= 0:
        low = max(low, 0.0)
    return percent, 100 * (low - 1), 100 * ((b + root) / a - 1)


def _values(scores: Scores, place: str, policy: str, key: str) -> dict[int, float]:
    runs = {seed: row[key] for (at, name, seed), row in scores.items() if (at, name) == (place, policy)}
    return {seed: value for seed, value in runs.items() if value is not None}


def _number(run: Score, key: str) -> float:
    value = run[key]
    assert value is not None, key
    return value


def _paired(scores: Scores, place: str, one: str, two: str, key: str) -> tuple[list[float], list[float]]:
    first, second = _values(scores, place, one, key), _values(scores, place, two, key)
    both = sorted(first.keys() & second.keys())
    return [first[seed] for seed in both], [second[seed] for seed in both]


def _policies(scores: Scores, place: str) -> list[str]:
    return list(dict.fromkeys(policy for at, policy, _ in scores if at == place))


def ranks(scores: Scores, place: str, key: str) -> dict[str, int]:
    """Ranks of the policies that have one."""
    having = [policy for policy in _policies(scores, place) if _values(scores, place, policy, key)]
    runs = {(name, seed): row for (at, name, seed), row in scores.items() if at == place and name in having}

    def behind(policy: str) -> bool:
        mine = {seed: row["completed"] for (name, seed), row in runs.items() if name == policy}
        return any(
            (row["completed"] or 0) > (mine.get(seed, math.inf) or 0) for (_, seed), row in runs.items()
        )

    ranked = [policy for policy in having if key not in OF_COMPLETED or not behind(policy)]
    means = {policy: mean(_values(scores, place, policy, key).values()) for policy in ranked}

    def beats(one: float, two: float) -> bool:
        return (one > two if key in HIGHER else one < two) and not math.isclose(one, two, rel_tol=1e-12)

    return {policy: 1 + sum(beats(other, mine) for other in means.values()) for policy, mine in means.items()}


def standings(scores: Scores) -> Iterator[Row]:
    """Standings, in any order."""
    for place, key in product(dict.fromkeys(at for at, _, _ in scores), QUESTIONS):
        rank = ranks(scores, place, key)
        best = min(rank, key=lambda name: (rank[name], name), default=None)
        for policy in _policies(scores, place):
            values = _values(scores, place, policy, key)
            if not values:
                continue
            runs = [scores[place, policy, seed] for seed in values]
            row: Row = {"place": place, "question": key, "policy": policy, "runs": len(runs)}
            row["completed_share"] = sum(r["completed"] or 0 for r in runs) / sum(
                r["jobs"] or 0 for r in runs
            )
            row["mean"] = mean(values.values())
            row["rank"] = rank.get(policy)
            row |= dict.fromkeys(("percent_to_best", "percent_low", "percent_high", "verdict"))
            if policy == best:
                row |= {"verdict": "best", "percent_to_best": 0.0 if len(rank) > 1 else None}
            elif best is not None and policy in rank:
                row |= _to_best(scores, place, policy, best, list(rank), key)
            yield {**row, **_gap(runs, key)}


def _to_best(
    scores: Scores, place: str, policy: str, best: str, ranked: Sequence[str], key: str
) -> dict[str, object]:
    pairs = {name: _paired(scores, place, name, best, key) for name in ranked if name != best}
    differences = {name: [a - b for a, b in zip(*both, strict=True)] for name, both in pairs.items()}
    tested = {name: sign_flips(each) for name, each in differences.items() if len(each) > 1}
    mine = differences[policy]
    row: dict[str, object] = {"verdict": "untested"}
    if mine:
        names = ("percent_to_best", "percent_low", "percent_high")
        row |= dict(zip(names, percents(*pairs[policy]), strict=True))
    if policy not in tested:
        return row
    if holm(tested)[policy] <= 0.05 and _leaves_out_0(mine):
        worse = (mean(mine) < 0) == (key in HIGHER)
        return {**row, "verdict": "behind" if worse else "level with the best"}
    too_few = 2 / 2 ** len(mine) * len(tested) > 0.05 and any(mine)
    return row if too_few else {**row, "verdict": "level with the best"}


def _gap(runs: Sequence[Score], key: str) -> dict[str, object]:
    bound_key = BOUNDS.get(key, "")
    bounded = [run for run in runs if run.get(bound_key) is not None]
    bounds, values = ([_number(run, name) for run in bounded] for name in (bound_key, key))
    if not bounds:
        return {"bound": None, "gap": None}
    above, below = (bounds, values) if key in HIGHER else (values, bounds)
    return {"bound": mean(bounds), "gap": mean(above) / mean(below) - 1 if mean(below) else None}


def knowledge(scores: Scores, pairs: Sequence[tuple[str, str, str]]) -> Iterator[Row]:
    """Worth of knowledge, in any order."""
    for place, key in product(dict.fromkeys(at for at, _, _ in scores), CONCLUSIONS):
        for blind, told, what in pairs:
            with_it, without = _paired(scores, place, told, blind, key)
            if not with_it:
                continue
            percent, low, high = percents(with_it, without)
            yield {
                "place": place,
                "question": key,
                "what": what,
                "blind": blind,
                "told": told,
                "percent": percent,
                "percent_low": low,
                "percent_high": high,
                "verdict": _verdict([a - b for a, b in zip(with_it, without, strict=True)], key),
            }


def _verdict(difference: Sequence[float], key: str) -> str:
    if len(difference) < 2:
        return "not tested"
    if sign_flips(difference) <= 0.05 and _leaves_out_0(difference):
        return "better" if (mean(difference) > 0) == (key in HIGHER) else "worse"
    if 2 / 2 ** len(difference) > 0.05 and any(difference):
        return "too few seeds"
    return "not distinguishable"


def conclusions(scores: Scores, variants: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """Conclusions and where they fade, turn or are absent, in any order."""

    def shown(place: str, one: str, two: str, key: str) -> str:
        rank = ranks(scores, place, key)
        values, others = _paired(scores, place, one, two, key)
        if one not in rank or two not in rank:
            return "absent"
        return _verdict([a - b for a, b in zip(values, others, strict=True)], key)

    for (place, others), key in product(variants.items(), CONCLUSIONS):
        for one, two in permutations(_policies(scores, place), 2):
            if shown(place, one, two, key) != "better":
                continue
            found = {other: shown(other, one, two, key) for other in others}
            absent = [other for other, what in found.items() if what == "absent"]
            turns = [other for other, what in found.items() if what == "worse"]
            fades = [other for other in others if found[other] not in ("absent", "worse", "better")]
            yield {
                "question": key,
                "place": place,
                "better": one,
                "worse": two,
                "percent": percents(*_paired(scores, place, one, two, key))[0],
                "holds": not fades and not turns and len(absent) < len(others),
                "fades_in": fades,
                "turns_in": turns,
                "absent_in": absent,
            }


def _assert_same(found: Iterable[Mapping[str, object]], wanted: Iterable[Row], names: tuple[str, ...]) -> int:
    by_name = {tuple(row[name] for name in names): row for row in found}
    cells = 0
    expected = {tuple(row[name] for name in names): row for row in wanted}
    assert by_name.keys() == expected.keys()
    for name, row in expected.items():
        assert by_name[name].keys() == row.keys()
        for column, value in row.items():
            near = pytest.approx(value, rel=1e-7, abs=1e-7) if isinstance(value, float) else value
            assert by_name[name][column] == near, (name, column)
            cells += 1
    return cells


def assert_tables(
    scores: pl.DataFrame, pairs: Sequence[tuple[str, str, str]], variants: Mapping[str, Sequence[str]]
) -> int:
    """Compare every cell of the three tables of these scores; the number of cells."""
    rows: dict[tuple[str, str, int], Score] = {
        (row["place"], row["policy"], row["seed"]): row for row in scores.to_dicts()
    }
    return (
        _assert_same(arena.standings(scores).to_dicts(), standings(rows), ("place", "question", "policy"))
        + _assert_same(
            arena.worth_of_knowledge(scores, pairs).to_dicts(),
            knowledge(rows, pairs),
            ("place", "question", "blind", "told"),
        )
        + _assert_same(
            arena.conclusions(scores, variants).to_dicts(),
            conclusions(rows, variants),
            ("question", "place", "better", "worse"),
        )
    )
