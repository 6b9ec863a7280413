"""The same jobs under two policies, by class and one by one, in numbers that a hand can check."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ray_sim.reports.breakdown import By, break_down, classify, compare_jobs, jobs_in_system

TIMELINE = pl.DataFrame(
    {
        "time_s": [0.0, 5.0, 10.0, 30.0],
        "waiting": [0, 1, 0, 0],
        "running": [1, 1, 1, 0],
        "used_gpu": [1.0] * 4,
    }
)


def _jobs(
    jct_s: list[float],
    seed: int | None = 0,
    *,
    num_gpus: list[float] | None = None,
    vc: list[str | None] | None = None,
    status: list[str] | None = None,
) -> pl.DataFrame:
    count = len(jct_s)
    return pl.DataFrame(
        {
            "seed": pl.Series([seed] * count, dtype=pl.Int64),
            "job_id": [f"job{i}" for i in range(count)],
            "num_gpus": num_gpus or [1.0] * count,
            "vc": pl.Series(vc or [None] * count, dtype=pl.String),
            "duration_s": [float(10 * (i + 1)) for i in range(count)],
            "in_system": list(range(count)),
            "jct_s": jct_s,
            "status": status or ["completed"] * count,
        }
    )


def test_a_job_finds_what_was_there_before_its_instant() -> None:
    # At 0 nobody; at 5 the first job; at 7 both; at 10, where one ends, still both; at 31 nobody.
    found = jobs_in_system(np.array([0.0, 5.0, 7.0, 10.0, 31.0]), TIMELINE)
    np.testing.assert_array_equal(found, [0, 1, 2, 2, 0])
    np.testing.assert_array_equal(jobs_in_system(np.array([]), TIMELINE), [])


def test_sizes_are_in_four_classes_and_fractions_count_up() -> None:
    jobs = _jobs([1.0] * 8, num_gpus=[0.5, 1.0, 1.5, 4.0, 5.0, 8.0, 9.0, 64.0])
    assert classify(By.SIZE, jobs)["label"].to_list() == ["1", "1", "2-4", "2-4", "5-8", "5-8", "> 8", "> 8"]


def test_load_is_in_thirds_and_run_time_in_quarters() -> None:
    jobs = _jobs([1.0] * 12)  # found 0 to 11 in the system, run times 10 to 120
    assert classify(By.LOAD, jobs)["label"].unique(maintain_order=True).to_list() == [
        "0 to 3",
        "4 to 7",
        "8 to 11",
    ]
    quarters = classify(By.DURATION, jobs).group_by("label", maintain_order=True).len()
    assert quarters.rows() == [("10 to 30", 3), ("40 to 60", 3), ("70 to 90", 3), ("100 to 120", 3)]


def test_equal_values_are_one_class() -> None:
    jobs = _jobs([1.0] * 5).with_columns(in_system=pl.lit(7))
    assert classify(By.LOAD, jobs)["label"].unique().to_list() == ["7 to 7"]


def test_a_ratio_is_over_the_jobs_of_all_pairs() -> None:
    # One GPU: (10 + 20) to (20 + 40) in seed 0, (30) to (20) in seed 1: 80 / 60. Nine: 5 to 10, seed 0 only.
    base = pl.concat(
        [_jobs([10.0, 20.0, 10.0], 0, num_gpus=[1.0, 1.0, 9.0]), _jobs([30.0], 1, num_gpus=[1.0])]
    )
    other = pl.concat([_jobs([20.0, 40.0, 5.0], 0), _jobs([20.0], 1)])
    found = break_down(By.SIZE, "las", other, classify(By.SIZE, base))
    one, nine = found.classes
    assert (one.label, one.jobs, one.pairs) == ("1", 3, 2)
    assert one.ratio == pytest.approx(80 / 60, rel=1e-12)
    assert one.mean == pytest.approx(80 / 3, rel=1e-12)
    assert one.baseline_mean == 20.0
    assert one.interval is None  # two pairs
    assert (nine.label, nine.pairs, nine.ratio, nine.interval) == ("> 8", 1, 0.5, None)


def test_waits_are_broken_down_as_times_to_completion_are() -> None:
    # One GPU: waits of 2 and 4 s against 1 and 2; nine: 3 against 6. All: (2 + 4 + 3) / (1 + 2 + 6).
    base = _jobs([9.0] * 3, num_gpus=[1.0, 1.0, 9.0]).with_columns(queue_s=pl.Series([1.0, 2.0, 6.0]))
    other = _jobs([9.0] * 3).with_columns(queue_s=pl.Series([2.0, 4.0, 3.0]))
    sizes, every = (
        break_down(by, "las", other, classify(by, base), "queue_s.mean").classes for by in (By.SIZE, By.ALL)
    )
    assert [(each.mean, each.baseline_mean, each.ratio) for each in sizes] == [
        (3.0, 1.5, 2.0),
        (3.0, 6.0, 0.5),
    ]
    assert [(each.label, each.mean, each.ratio) for each in every] == [("completed under both", 3.0, 1.0)]


def test_the_interval_of_a_ratio_is_over_the_pairs_and_not_below_0() -> None:
    # Sums of JCT (90, 30) once and (10, 30) four times: mean 26 -+ 2.776 x 35.777 / sqrt(5) = 44.42, over 30.
    base = pl.concat([_jobs([30.0], seed, num_gpus=[1.0]) for seed in range(5)])
    other = pl.concat([_jobs([10.0 if seed else 90.0], seed) for seed in range(5)])
    (one,) = break_down(By.SIZE, "las", other, classify(By.SIZE, base)).classes
    assert one.interval is not None
    assert one.interval.low == 0.0
    assert one.interval.high == pytest.approx((26 + 44.42) / 30, rel=1e-3)


def test_vcs_are_classes_and_jobs_without_one_are_named_so() -> None:
    base = _jobs([10.0, 10.0, 10.0], vc=["b", None, "a"])
    found = break_down(By.VC, "las", _jobs([10.0, 20.0, 30.0]), classify(By.VC, base))
    assert [(each.label, each.ratio) for each in found.classes] == [("a", 3.0), ("b", 1.0), ("no vc", 2.0)]


def test_users_are_classes_as_vcs_are() -> None:
    base = _jobs([10.0, 10.0, 10.0]).with_columns(user=pl.Series(["bob", "ann", None]))
    found = break_down(By.USER, "las", _jobs([10.0, 20.0, 30.0]), classify(By.USER, base))
    expected = [("ann", 2.0), ("bob", 1.0), ("no user", 3.0)]
    assert [(each.label, each.ratio) for each in found.classes] == expected


def test_jobs_that_only_one_policy_completes_are_counted_and_left_out() -> None:
    base = _jobs([10.0, 10.0, 10.0], status=["completed", "completed", "unfinished"])
    other = _jobs([20.0, 10.0, 10.0], status=["completed", "rejected", "unfinished"])
    found = break_down(By.SIZE, "las", other, classify(By.SIZE, base))
    assert (found.left_out, found.classes[0].jobs, found.classes[0].ratio) == (1, 1, 2.0)


def test_a_run_without_a_seed_stands_for_every_seed() -> None:
    base = classify(By.SIZE, _jobs([10.0], None))
    found = break_down(By.SIZE, "las", pl.concat([_jobs([20.0], 3), _jobs([40.0], 4)]), base)
    assert (found.classes[0].pairs, found.classes[0].ratio) == (2, 3.0)
    turned = break_down(
        By.SIZE,
        "las",
        _jobs([20.0], None),
        classify(By.SIZE, pl.concat([_jobs([10.0], 3), _jobs([30.0], 4)])),
    )
    assert (turned.classes[0].pairs, turned.classes[0].ratio) == (2, 1.0)


def test_jobs_without_length_have_no_ratio() -> None:
    base = classify(By.SIZE, _jobs([0.0]))
    assert break_down(By.SIZE, "las", _jobs([0.0]), base).classes[0].ratio is None


def test_no_common_job_leaves_no_class() -> None:
    base = classify(By.SIZE, _jobs([10.0], status=["unfinished"]))
    assert break_down(By.SIZE, "las", _jobs([20.0]), base).classes == ()


def test_two_runs_job_by_job() -> None:
    found = compare_jobs("las", _jobs([10.0, 50.0, 30.0, 40.0]), _jobs([15.0, 20.0, 30.0, 35.0]))
    assert (found.jobs, found.faster, found.slower, found.same) == (4, 1, 2, 1)
    # -5, 30, 0, 5: mean 7.5, median (0 + 5) / 2.
    assert (found.mean_difference_s, found.median_difference_s) == (7.5, 2.5)
    assert [each.job_id for each in found.most_faster] == ["job0"]
    assert [(each.job_id, each.jct_s, each.baseline_jct_s) for each in found.most_slower] == [
        ("job1", 50.0, 20.0),
        ("job3", 40.0, 35.0),
    ]
