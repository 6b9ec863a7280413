"""Findings in sentences, worked out by hand."""

from __future__ import annotations

import pytest

from ray_sim.reports.findings import bound_text, compare_place, compare_places, findings, sweep_findings
from tests.results_by_hand import PLACE, run_rows


def test_the_best_policy_comes_first_and_the_others_by_verdict() -> None:
    # Means: fifo 25, 26, ..., 34 s with mean 29.5 s; sjf twice as long; twin the same as fifo.
    fifo = [40.0 + 2 * seed for seed in range(10)]
    sjf = [2 * (10 + last) - 10 for last in fifo]
    found = findings(compare_place(run_rows({"sjf": sjf, "fifo": fifo, "twin": list(fifo)})))
    # The deviation of 0, 1, ..., 9 is 3.028 and the t quantile 2.262: 2.262 * 3.028 / sqrt(10) = 2.17.
    assert found == (
        "fifo and twin have the same, least mean JCT: 30 s (27 s to 32 s; 10 seeds).",
        "Worse than fifo: sjf +100 % (+100 to +100).",
        "Not distinguishable from fifo: twin +0 % (+0 to +0).",
    )


def test_two_seeds_are_too_few_and_the_needed_number_is_said() -> None:
    # Differences 5 and 7 s to means of 25 and 26 s: 6 / 25.5 = 23.5 %. Six pairs give 2 / 2^6 = 0.031.
    assert findings(compare_place(run_rows({"fifo": [40.0, 42.0], "sjf": [50.0, 56.0]}))) == (
        "fifo has the least mean JCT: 26 s (too few seeds; 2 seeds).",
        "Too few seeds for a verdict against fifo: sjf +23.5 % (too few seeds), 6 seeds needed.",
    )


def test_the_interval_of_a_skewed_mean_is_not_below_0() -> None:
    # Means of JCT: 15 s four times, 505 s once; 113 -+ 272 s by Student's t.
    place = compare_place(run_rows({"fifo": [20.0, 20.0, 20.0, 20.0, 1000.0]}))
    assert findings(place) == ("fifo: mean JCT 1 min 53 s (10 s to 20 min 55 s; 5 seeds).",)


def test_no_policy_is_the_best_without_a_common_seed() -> None:
    rows = [*run_rows({"fifo": [40.0]}), *run_rows({"sjf": [50.0, 60.0]})[1:]]
    assert findings(compare_place(rows))[0] == (
        "No seed is common to all policies, so none has the best mean JCT. fifo: 25 s (one run)."
    )


def test_single_runs_have_neither_interval_nor_verdict() -> None:
    assert findings(compare_place(run_rows({"fifo": [40.0], "sjf": [50.0]}))) == (
        "fifo has the least mean JCT: 25 s (one run).",
        "Not tested against fifo: sjf +20 %.",
        "n = 1: a difference without an interval and without a test.",
    )


def test_a_policy_alone_has_its_mean() -> None:
    assert findings(compare_place(run_rows({"fifo": [40.0]}))) == ("fifo: mean JCT 25 s (one run).",)
    assert findings(compare_place([])) == ()


def test_findings_stand_by_place_in_order() -> None:
    other = ("week", "pool", "slot_s=60")
    rows = [
        *run_rows({"fifo": [40.0]}, other),
        *run_rows({"sjf": [50.0]}),
        *run_rows({"las": [60.0]}, other),
    ]
    found = sweep_findings(compare_places(rows), rows)
    assert list(found) == [other, PLACE]
    assert found[other][0] == "fifo has the least mean JCT: 25 s (one run)."


@pytest.mark.parametrize("policies", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_every_policy_is_named(policies: list[str]) -> None:
    rows = run_rows({policy: [40.0 + 3 * index, 50.0] for index, policy in enumerate(policies)})
    text = " ".join(findings(compare_place(rows)))
    assert all(f"{policy} " in text or f"{policy}:" in text for policy in policies)


def test_a_bound_that_is_reached_is_said_to_be() -> None:
    assert bound_text("fifo", 60.0, 1e-9).endswith(
        "below 1 min, which fifo reaches: no policy can be faster."
    )
    assert bound_text("fifo", 60.0, 0.25).endswith(
        "25 % above this bound, so no policy can be more than 20 % faster."
    )
