"""The table of covers in the code and in the docs is what the study measures."""

from __future__ import annotations

import pytest

from benchmarks.cover import (
    DISTRIBUTIONS,
    cover_of_bootstrap_t,
    cover_of_difference,
    cover_of_mean,
    cover_of_ratio,
    false_alarms,
)
from ray_sim.reports.statistics import FEWEST_VALUES, MEASURED, SEEDS, Cover, shortfall
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs" / "compare.md"

SAMPLES = 4_000
"""Standard errors: 0.35 % of a share of 95 %, 0.66 % of 78 %; the table is rounded by up to 0.5 %."""


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [5, 20])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_cell_measured_anew_is_that_of_the_table(distribution: str, seeds: int) -> None:
    told = MEASURED[distribution][SEEDS.index(seeds)]
    found = 100 * cover_of_difference(distribution, seeds, SAMPLES)
    error = 100 * (told / 100 * (1 - told / 100) / SAMPLES) ** 0.5
    assert abs(found - told) <= 0.5 + 3 * error


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [5, 7, 10, 20, 40])
def test_intervals_keep_their_promise_for_normal_differences_from_5_seeds_on(seeds: int) -> None:
    assert 0.93 <= cover_of_difference("normal", seeds, SAMPLES) <= 0.97
    assert 0.93 <= cover_of_ratio("normal", seeds, SAMPLES) <= 0.97


def test_the_docs_have_the_table_of_the_code() -> None:
    lines = DOCS.read_text().splitlines()
    assert f"| cover of differences, seeds | {' | '.join(map(str, SEEDS))} |" in lines
    for name, row in MEASURED.items():
        assert f"| {name} | {' | '.join(f'{percent} %' for percent in row)} |" in lines


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "exponential", "exponential, half 0"])
def test_the_fewest_seeds_with_an_interval_follow_from_the_table(kind: str) -> None:
    assert cover_of_mean(kind, FEWEST_VALUES) > 0.90
    if kind == "exponential, half 0":
        assert cover_of_mean(kind, FEWEST_VALUES - 1) <= 0.90


def test_what_falls_short_is_told_by_the_next_smaller_number_of_seeds() -> None:
    exponential, log_normal, pareto = "exponential", "log-normal", "Pareto with tail index 2.5"
    assert shortfall(20) == Cover(20, {exponential: 92, log_normal: 87, pareto: 82})
    assert shortfall(39) == Cover(39, {exponential: 92, log_normal: 87, pareto: 82})
    assert shortfall(1000) == Cover(1000, {pareto: 90})


def test_the_candidates_that_were_not_taken_are_still_measured() -> None:
    assert 0.9 <= cover_of_bootstrap_t("normal", 7, 200, 199) <= 1.0
    assert 0.0 <= false_alarms("normal", 7, 50) <= 0.2
