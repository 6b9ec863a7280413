"""A sweep says before it runs that its seeds are too few for a verdict, or meet the same failures."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.sweep_entries import Entry, Sweep, same_failures, seeds_warning
from ray_sim.experiments.sweep_file import parse_sweep


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


def _failing(clusters: str, availability: object, seeds: int) -> Sweep:
    content = {
        "name": "failing",
        "workloads": [{"synth": {"profile": "philly", "jobs": 5}}],
        "clusters": [clusters],
        "world": {"availability": availability} if availability else {},
        "policies": ["fifo", "las"],
        "seeds": {"count": seeds},
    }
    return parse_sweep(content, "test", HashedInputs())


def test_failures_that_are_the_same_for_every_seed_are_told(tmp_path: Path) -> None:
    cluster = tmp_path / "ours.yaml"
    cluster.write_text("name: ours\nservers:\n  - {name: gpu, count: 2, gpus: 16}\n")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for at, path in enumerate(files):
        path.write_text(f"time_s,server,event\n{at + 1},gpu-0,fail\n9,gpu-0,repair\n")
    told = same_failures(_failing(str(cluster), str(files[0]), 2))
    assert told is not None
    assert told.startswith(f"{cluster}: servers fail at the times of the availability file under every seed")
    assert same_failures(_failing(str(cluster), str(files[0]), 1)) is None
    assert same_failures(_failing(str(cluster), None, 2)) is None
    several = _failing(str(cluster), [*map(str, files)], 2)
    assert len({each.entry.setting for each in several.configurations}) == 2
