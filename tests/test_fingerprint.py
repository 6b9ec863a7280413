"""All that small runs compute is as recorded, in whatever way they are run."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby

import polars as pl
import pytest

from ray_sim.policies.registry import policy_infos
from tests.fingerprint import GOLDEN, Case, Record, cases, differences, digest, record, runs
from tests.proofs import proofs

BY_POLICY = {policy: list(group) for policy, group in groupby(cases(), key=lambda case: case.policy)}
LONG = {"dorm", "batch"}
"""Solves a mixed-integer programme at every decision; compiles kernels for rules that score servers."""


@pytest.fixture(scope="module")
def golden() -> dict[str, Record]:
    content: dict[str, Record] = json.loads(GOLDEN.read_text())
    return content


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", [pytest.param(policy, marks=[pytest.mark.long] * (policy in LONG)) for policy in BY_POLICY]
)
def test_runs_are_as_recorded_on_any_sites_in_any_loop_and_restored(
    policy: str, golden: dict[str, Record]
) -> None:
    for case in BY_POLICY[policy][:: 1 if proofs() == "all" else 3]:
        results = dict(runs(case))
        first = results["general loop"]
        assert differences(golden[case.name], record(first)) == [], case.name
        assert {way for way, result in results.items() if digest(result) != digest(first)} == set(), case.name


def test_every_policy_and_every_case_is_recorded(golden: dict[str, Record]) -> None:
    assert set(BY_POLICY) == {info.name for info in policy_infos()}
    assert set(golden) == {case.name for each in BY_POLICY.values() for case in each}


def test_a_change_of_any_number_is_found() -> None:
    one = record(next(runs(Case("fifo", {}, "rigid", "crowded")))[1])
    other = record(next(runs(Case("fifo", {"backfill": True}, "rigid", "crowded")))[1])
    assert differences(one, one) == []
    assert any(text.startswith("jobs.finish_s: ") for text in differences(one, other))
    moved = {
        **one,
        "floats": {**one["floats"], "summary.jct_s.mean": one["floats"]["summary.jct_s.mean"] * (1 + 1e-8)},
    }
    assert len(differences(one, moved)) == 1
    wrong = {**one, "exact": {**one["exact"], "events": "0"}}
    assert differences(one, wrong) == ["events: whole numbers, names or nulls"]


def test_a_new_column_changes_the_digest_of_its_table_only() -> None:
    _, result = next(runs(Case("fifo", {}, "rigid", "crowded")))
    wider = replace(result, timeline=result.timeline.with_columns(extra=pl.col("running")))
    assert differences(record(result), record(wider)) == ["timeline: whole numbers, names or nulls"]
