"""A sweep says before it runs that its seeds are too few for a verdict."""

from __future__ import annotations

from itertools import product

from ray_sim.experiments.sweep_entries import Entry, seeds_warning


def _entries(policies: int, seeds: int, workload: str = "week") -> list[Entry]:
    return [
        Entry(f"{policy}-{seed}", workload, "pool", "", f"p{policy}", seed, f"{policy}-{seed}")
        for policy, seed in product(range(policies), range(seeds))
    ]


def test_the_seeds_needed_are_those_that_the_test_can_reach_5_percent_with() -> None:
    # 3 comparisons: 3 x 2 / 2^6 = 0.094, 3 x 2 / 2^7 = 0.047.
    assert seeds_warning(_entries(4, 6)) == (
        "6 seeds are too few for `ray-sim compare` to tell 4 policies apart at 5 %: "
        "7 needed, e.g. seeds: {count: 7}"
    )
    assert seeds_warning(_entries(4, 7)) is None
    assert str(seeds_warning(_entries(2, 2))).startswith("2 seeds are too few")
    assert seeds_warning(_entries(2, 1)) == (
        "1 seed is too few for `ray-sim compare` to tell 2 policies apart at 5 %: "
        "6 needed, e.g. seeds: {count: 6}"
    )


def test_the_place_that_needs_most_counts() -> None:
    # 12 comparisons: 12 x 2 / 2^8 = 0.094, 12 x 2 / 2^9 = 0.047.
    warning = seeds_warning([*_entries(4, 5), *_entries(13, 5, "month")])
    assert warning is not None
    assert "tell 13 policies apart at 5 %: 9 needed" in warning


def test_one_policy_and_runs_without_a_seed_need_none() -> None:
    assert seeds_warning(_entries(1, 2)) is None
    assert seeds_warning([Entry(f"{i}", "week", "pool", "", f"p{i}", None, f"{i}") for i in range(3)]) is None
