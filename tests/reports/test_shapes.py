"""Verdicts on shapes: by hand, against a twin written from the page, and on simulated data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ray_sim.reports.figure_page import check_note
from ray_sim.reports.shape_samples import Comparison, Samples
from ray_sim.reports.shapes import Finding, JudgedCheck, ShapeVerdict, judge
from ray_sim.reports.statements import Check
from ray_sim.reports.statistics import pairs_needed, pairs_to_decide
from tests.reports.shape_twin import verdict

Values = Mapping[tuple[str, Any], Mapping[Any, float]]

XS = [1, 2, 4]
CHECKS: dict[str, Any] = {
    "order": ["A", "B"],
    "beats": {"of": "A", "others": ["B", "C"]},
    "ratio": {"of": "A", "over": "B", "between": [0.8, None]},
    "range": {"of": "A", "between": [8.0, 12.0]},
    "equal": {"of": "A", "to": "B", "within": 0.2},
    "monotone": {"of": "A", "direction": "rises", "flattens": True},
    "linear": {"of": "A", "within": 0.2},
    "grows": {"of": "A", "over": "B", "gap": "ratio"},
    "stays": {"of": "A", "within": 0.2},
    "best_at": {"of": "A", "x": 2, "against": [1, 4]},
}
OTHERS: list[tuple[str, Any]] = [
    ("monotone", {"of": "B", "direction": "falls"}),
    ("grows", {"of": "A", "over": "B", "gap": "difference", "direction": "falls"}),
]


def _judge(samples: Samples, *, lower: bool = False, at: object = "every", **kind: object) -> JudgedCheck:
    check = Check.model_validate({"name": "a statement", "at": at, **kind})
    return judge(check, check.compare(samples, ["A", "B", "C"], XS, lower=lower))


def _flat(**series: list[float]) -> Samples:
    """The same values of each series at every x, by seed."""
    return Samples({(name, x): dict(enumerate(values)) for name, values in series.items() for x in XS})


def _cells(**series: Mapping[Any, float]) -> Values:
    """Values of series at x = 1."""
    return {(name, 1): values for name, values in series.items()}


def test_an_order_by_hand() -> None:
    # A - B is 1, 2, 3, 4, 5, 6 at x = 1: mean 3.5, spread 1.871, t(5) = 2.571, so 3.5 -+ 1.963. All signs are
    # equal, so p = 2 / 2^6 = 0.03125.
    samples = _flat(A=[11, 12, 13, 14, 15, 16], B=[10] * 6)
    found = _judge(samples, order=["A", "B"], at=[1])
    (compared,) = found.comparisons
    assert compared.text == "A - B at 1"
    assert compared.means == (13.5, 10.0)
    assert compared.estimate == 3.5
    assert compared.p_holm == 0.03125
    assert compared.interval is not None
    assert compared.interval.low == pytest.approx(3.5 - 1.9634, abs=1e-4)
    assert (found.verdict, found.seeds, found.seeds_needed) == (ShapeVerdict.APPEARS, 6, None)
    assert _judge(samples, order=["B", "A"], at=[1]).verdict is ShapeVerdict.DOES_NOT_APPEAR
    assert _judge(samples, order=["B", "A"], at=[1], lower=True).verdict is ShapeVerdict.APPEARS


def test_holm_counts_every_comparison_of_a_check() -> None:
    # Three places: 3 x 0.03125 is above 5 %. Seven seeds would do: 3 x 2 / 2^7 = 0.047.
    samples = _flat(A=[11, 12, 13, 14, 15, 16], B=[10] * 6)
    found = _judge(samples, order=["A", "B"])
    assert [each.finding for each in found.comparisons] == [Finding.OPEN] * 3
    assert (found.verdict, found.seeds_needed) == (ShapeVerdict.UNDECIDED, 7)


@pytest.mark.parametrize("elsewhere", [{}, {0: 1.0}])
@pytest.mark.parametrize("kind", ["order", "ratio"])
def test_holm_counts_comparisons_without_two_seeds(kind: str, elsewhere: Mapping[Any, float]) -> None:
    # As above with six seeds at x = 1 only: p is multiplied by 3 all the same.
    values = dict(_flat(A=[11, 12, 13, 14, 15, 16], B=[10] * 6).values)
    values |= {(name, x): elsewhere for name in "AB" for x in XS[1:]}
    spec: Any = {"order": ["A", "B"], "ratio": {"of": "A", "over": "B", "between": [1.0, None]}}[kind]
    found = _judge(Samples(values), **{kind: spec})
    assert [each.p_holm for each in found.comparisons] == [pytest.approx(3 * 0.03125), None, None]
    assert found.verdict is ShapeVerdict.UNDECIDED


def test_one_comparison_against_decides_with_the_fewest_seeds() -> None:
    clear, unclear = [1.0, 1.2, 0.8, 1.1], [1.0, -1.2, 0.8, 0.1]
    alone = {
        name: _judge(_flat(A=values, B=[0.0] * 4), order=["A", "B"]).seeds_needed
        for name, values in (("clear", clear), ("unclear", unclear))
    }
    assert alone["clear"] is not None
    assert alone["unclear"] is not None
    assert alone["clear"] < alone["unclear"]

    def needed(*by_x: list[float]) -> int | None:
        cells: dict[tuple[str, Any], dict[Any, float]] = {("B", x): dict.fromkeys(range(4), 0.0) for x in XS}
        cells |= {("A", x): dict(enumerate(values)) for x, values in zip(XS, by_x, strict=True)}
        return _judge(Samples(cells), order=["A", "B"]).seeds_needed

    against = [-each for each in clear]
    assert needed(clear, unclear, unclear) == alone["unclear"]
    assert needed(against, unclear, unclear) == alone["clear"]
    assert needed(against, unclear, [0.0] * 4) == alone["clear"]
    assert needed(clear, unclear, [0.0] * 4) is None


def test_a_mean_over_x_is_taken_seed_by_seed() -> None:
    values: Values = {("A", x): {seed: float(seed * x) for seed in range(8)} for x in XS}
    (compared,) = _judge(Samples(values), range={"of": "A", "between": [0, None]}, at="mean").comparisons
    assert compared.estimate == pytest.approx(np.mean([seed * (1 + 2 + 4) / 3 for seed in range(8)]))
    assert compared.seeds == 8


def test_only_common_seeds_count_and_a_run_without_a_seed_meets_all() -> None:
    samples = Samples(
        {
            ("A", 1): dict.fromkeys(range(8), 2.0),
            ("B", 1): dict.fromkeys(range(4, 12), 1.0),
            ("C", 1): {None: 0.0},
        }
    )
    chain = _judge(samples, order=["A", "B", "C"], at=[1])
    assert [each.seeds for each in chain.comparisons] == [4, 8]


def test_values_that_depend_on_no_seed_are_compared_exactly() -> None:
    samples = Samples(_cells(A={None: 2.0}, B={None: 1.0}))
    (compared,) = _judge(samples, order=["A", "B"], at=[1]).comparisons
    assert (compared.finding, compared.means, compared.p_holm) == (Finding.FOR, (2.0, 1.0), None)
    assert _judge(samples, order=["B", "A"], at=[1]).verdict is ShapeVerdict.DOES_NOT_APPEAR
    assert (
        _judge(samples, ratio={"of": "A", "over": "B", "between": [1.9, 2.1]}, at=[1]).verdict
        is ShapeVerdict.APPEARS
    )
    assert (
        _judge(samples, range={"of": "A", "between": [None, 1.9]}, at=[1]).verdict
        is ShapeVerdict.DOES_NOT_APPEAR
    )


def test_a_comparison_is_exact_beside_others_of_runs_with_seeds() -> None:
    samples = Samples(_cells(A={None: 3.0}, B={None: 2.0}, C=dict(enumerate([0.9, 1.0, 1.1] * 3))))
    found = _judge(samples, order=["A", "B", "C"], at=[1])
    assert [each.finding for each in found.comparisons] == [Finding.FOR, Finding.FOR]
    assert [each.p_holm for each in found.comparisons] == [None, pytest.approx(2 / 2**9)]
    assert _judge(samples, order=["B", "A"], at=[1]).verdict is ShapeVerdict.DOES_NOT_APPEAR


def test_without_runs_or_with_one_seed_nothing_is_decided() -> None:
    cases: list[Values] = [{}, _cells(A={None: 2.0}, B={0: 1.0}), _cells(A={0: 2.0}, B={0: 1.0})]
    for values in cases:
        found = _judge(Samples(values), order=["A", "B"], at=[1])
        assert (found.verdict, found.seeds_needed) == (ShapeVerdict.UNDECIDED, None)
    missing = _cells(A=dict.fromkeys(range(9), 1.0), B=dict.fromkeys(range(9), 2.0))
    assert _judge(Samples(missing), order=["B", "A"]).verdict is ShapeVerdict.UNDECIDED  # no run at 2 and 4
    assert _judge(Samples(missing), order=["A", "B"]).verdict is ShapeVerdict.DOES_NOT_APPEAR  # already at 1


def test_equal_values_are_equal_and_have_no_order() -> None:
    samples = _flat(A=[3.0] * 9, B=[3.0] * 9)
    assert _judge(samples, equal={"of": "A", "to": "B", "within": 0.01}).verdict is ShapeVerdict.APPEARS
    found = _judge(samples, order=["A", "B"])
    assert (found.verdict, found.seeds_needed) == (ShapeVerdict.UNDECIDED, None)


def test_a_ratio_to_a_mean_that_is_not_above_0_is_undecided() -> None:
    samples = _flat(A=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], B=[-1.0] * 7)
    for kind in ("ratio", "equal", "grows"):
        found = _judge(samples, **{kind: CHECKS[kind]})
        assert found.verdict is ShapeVerdict.UNDECIDED
        assert all(each.untested for each in found.comparisons)
        remark = "Without a test, as a mean to divide by is not above 0: A / B"
        assert remark in check_note(found)
    assert "Without a test" not in check_note(_judge(samples, order=["A", "B"]))


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        *[(5.0, ShapeVerdict.APPEARS), (6.0, ShapeVerdict.APPEARS), (3.2, ShapeVerdict.UNDECIDED)],
        *[(6.8, ShapeVerdict.UNDECIDED), (12.0, ShapeVerdict.DOES_NOT_APPEAR)],
    ],
)
def test_a_mean_is_as_published_within_three_standard_errors_of_both_means(
    published: float, expected: ShapeVerdict
) -> None:
    # 1, 2, ..., 9: mean 5, sd 2.7386. Nine seeds here and there: 3 sd sqrt(1/9 + 1/9) = 3.873. The interval
    # of the mean is 5 -+ 2.306 x 2.7386 / 3 = 5 -+ 2.105, so 3.873 - 2.105 = 1.768 from it is open at the
    # latest, and beyond 3.873 + 2.105 = 5.978 from it is not as published.
    samples = _flat(A=[float(i) for i in range(1, 10)])
    found = _judge(samples, as_published={"of": "A", "means": {1: published}, "seeds": 9})
    assert found.verdict is expected


def _judge_with(ours: Samples, **alternatives: Samples) -> JudgedCheck:
    """Verdict on A above B at x = 1, with alternatives by the ids of their choices."""
    check = Check.model_validate({"name": "a statement", "order": ["A", "B"], "at": [1]})

    def compared(samples: Samples) -> list[Comparison]:
        return check.compare(samples, ["A", "B"], XS, lower=False)

    return judge(
        check, compared(ours), {(key, "other"): compared(each) for key, each in alternatives.items()}
    )


def test_a_statement_depends_on_a_choice_whose_alternative_says_the_opposite() -> None:
    above, below = (
        _flat(A=[11.0 + i for i in range(8)], B=[10.0] * 8),
        _flat(A=[9.0 - i for i in range(8)], B=[10.0] * 8),
    )
    found = _judge_with(above, C1=above, C2=below)
    assert (found.verdict, found.turned_by) == (ShapeVerdict.DEPENDS, ("C2",))
    assert [each.verdict for each in found.alternatives] == [
        ShapeVerdict.APPEARS,
        ShapeVerdict.DOES_NOT_APPEAR,
    ]
    assert _judge_with(below, C1=below).verdict is ShapeVerdict.DOES_NOT_APPEAR
    assert _judge_with(below, C1=above).verdict is ShapeVerdict.DEPENDS
    assert "depends on a choice, C2. C2, other: does not appear." in check_note(found)


def test_alternatives_are_corrected_for_each_other_and_undecided_ones_turn_nothing() -> None:
    # Eight seeds of one sign have p = 2 / 2^8 = 0.0078: six alternatives bring it to 0.047, seven to 0.055.
    above, below = (
        _flat(A=[11.0 + i for i in range(8)], B=[10.0] * 8),
        _flat(A=[9.0 - i for i in range(8)], B=[10.0] * 8),
    )
    six, seven = (_judge_with(above, **{f"C{i}": below for i in range(count)}) for count in (6, 7))
    assert (six.verdict, len(six.turned_by), six.open_alternatives) == (ShapeVerdict.DEPENDS, 6, 0)
    assert (seven.verdict, seven.open_alternatives) == (ShapeVerdict.APPEARS, 7)
    assert "Undecided under 7 of 7 alternatives." in check_note(seven)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([*CHECKS.items(), *OTHERS]),
    st.integers(3, 9),
    st.integers(0, 10_000),
    st.sampled_from([0.02, 0.3, 2.0]),
    st.booleans(),
)
def test_the_verdict_is_that_of_the_written_rule(
    check: tuple[str, Any], seeds: int, draw: int, spread: float, lower: bool
) -> None:
    stream = np.random.default_rng(draw)
    centres = {(name, x): stream.choice([6.0, 9.0, 10.0, 14.0]) for name in "ABC" for x in XS}
    values: Values = {
        cell: {seed: abs(float(stream.normal(centre, spread))) for seed in range(seeds)}
        for cell, centre in centres.items()
    }
    kind, spec = check
    found = _judge(Samples(values), lower=lower, **{kind: spec})
    assert found.verdict == verdict(kind, spec, values, XS, lower=lower)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "spec", "centres"),
    [
        ("order", ["A", "B"], {"A": 10.0, "B": 10.0}),
        ("range", {"of": "A", "between": [None, 10.0]}, {"A": 10.0}),
        ("ratio", {"of": "A", "over": "B", "between": [1.25, None]}, {"A": 10.0, "B": 8.0}),
        ("equal", {"of": "A", "to": "B", "within": 0.25}, {"A": 10.0, "B": 8.0}),
        ("grows", {"of": "A", "over": "B", "gap": "ratio"}, {"A": 10.0, "B": 8.0}),
    ],
)
def test_a_statement_at_its_border_appears_in_at_most_5_percent(
    kind: str, spec: Any, centres: dict[str, float]
) -> None:
    # 400 figures of normal data at two places; 5 % of 400 is 20, and 31 or more have a probability of 1 %.
    stream, appeared = np.random.default_rng(7), 0
    for _ in range(400):
        values: Values = {
            (name, x): dict(enumerate(stream.normal(centre, 1.0, 8).tolist()))
            for name, centre in centres.items()
            for x in XS[:2]
        }
        appeared += _judge(Samples(values), at=XS[:2], **{kind: spec}).verdict is ShapeVerdict.APPEARS
    assert appeared <= 30


@pytest.mark.slow
def test_one_comparison_of_equal_means_appears_in_at_most_5_percent() -> None:
    # One comparison has the largest chance: several must all be significant. 5 % of 150 is 7.5, and 14 or
    # more have a probability of 2 %.
    stream, found = np.random.default_rng(8), []
    for _ in range(150):
        a, b = stream.normal(0, 1, (2, 8)).tolist()
        found.append(_judge(_flat(A=a, B=b), order=["A", "B"], at=[1]).verdict)
    assert found.count(ShapeVerdict.APPEARS) <= 13
    assert found.count(ShapeVerdict.DOES_NOT_APPEAR) <= 13


@pytest.mark.parametrize(("effect", "comparisons"), [(0.5, 1), (0.2, 4), (1.5, 1)])
def test_the_pairs_that_decide_are_those_at_which_the_t_test_does(effect: float, comparisons: int) -> None:
    sample = np.array([-1.0, 1.0] * 10)
    sample = effect + sample / np.std(sample, ddof=1)
    needed = pairs_to_decide(sample, comparisons)
    assert needed is not None

    def p_value(pairs: int) -> float:
        return 2 * comparisons * float(stats.t.sf(effect * np.sqrt(pairs), pairs - 1))

    assert p_value(needed) <= 0.05
    assert needed == pairs_needed(comparisons) or p_value(needed - max(1, needed // 100)) > 0.05


def test_no_number_of_pairs_decides_differences_without_a_mean() -> None:
    assert pairs_to_decide(np.array([-1.0, 1.0]), 1) is None
    assert pairs_to_decide(np.zeros(5), 1) is None
    assert pairs_to_decide(np.ones(5), 1) == pairs_needed(1)
