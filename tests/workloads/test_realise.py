from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.errors import InvalidWorkloadError
from workloads.checks import check_frame
from workloads.realise import DAY_S, resample_days
from workloads.schema import SORT_KEY
from workloads.synth import synth

Jobs = Callable[..., pl.DataFrame]

SYNTHETIC = synth("philly", 2_000, seed=0)[0]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_a_resample_is_a_sound_workload_of_whole_days_of_the_original(seed: int) -> None:
    result = resample_days(SYNTHETIC, seed)
    check_frame(result, "resample")
    assert result.equals(result.sort(SORT_KEY))
    days = SYNTHETIC.with_columns(day=pl.col("submit_s") // DAY_S, time_s=pl.col("submit_s") % DAY_S)
    content = {
        key[0]: day.select("time_s", "duration_s", "num_gpus", "vc").rows()
        for key, day in days.group_by("day", maintain_order=True)
    }
    drawn = result.with_columns(day=pl.col("submit_s") // DAY_S, time_s=pl.col("submit_s") % DAY_S)
    for _, day in drawn.group_by("day", maintain_order=True):
        assert day.select("time_s", "duration_s", "num_gpus", "vc").rows() in content.values()
    assert set(drawn["day"]) <= set(range(int(days["day"].to_numpy().max()) + 1))


def test_the_same_seed_draws_the_same_days_and_the_frame_is_not_changed() -> None:
    before = SYNTHETIC.clone()
    assert resample_days(SYNTHETIC, 3).equals(resample_days(SYNTHETIC, 3))
    assert not resample_days(SYNTHETIC, 3).equals(resample_days(SYNTHETIC, 4))
    assert SYNTHETIC.equals(before)


def test_the_order_of_the_rows_does_not_change_the_draw() -> None:
    shuffled = SYNTHETIC.sample(fraction=1, shuffle=True, seed=0)
    assert resample_days(shuffled, 3).equals(resample_days(SYNTHETIC, 3))


def test_every_day_is_drawn_alike(jobs: Jobs) -> None:
    # 4 days of one job each, 400 resamples: 1,600 draws, 400 of each day, standard deviation
    # sqrt(1600 x 1/4 x 3/4) = 17.3.
    frame = jobs(4, submit_s=[DAY_S * i + 5.0 for i in range(4)])
    names = (name.split("@")[0] for seed in range(400) for name in resample_days(frame, seed)["job_id"])
    for count in Counter(names).values():
        assert abs(count - 400) < 5 * 17.3


def test_empty_days_are_drawn_too_and_nothing_but_empty_days_is_an_error(jobs: Jobs) -> None:
    frame = jobs(2, submit_s=[0.0, 1000.0 * DAY_S])
    heights = []
    for seed in range(60):
        try:
            heights.append(resample_days(frame, seed).height)
        except InvalidWorkloadError:
            heights.append(0)
    # 1,001 draws hit one of 2 days of 1,001 about twice; e^-2 = 13 % hit none.
    assert 0 in heights
    assert max(heights) > 2


def test_names_stay_unique_even_if_they_look_like_drawn_ones(jobs: Jobs) -> None:
    frame = jobs(
        3, job_id=["a", "a@0", "a@0@0"], submit_s=[0.0, float(DAY_S), 2.0 * DAY_S], group_id=["g", None, "g"]
    )
    for seed in range(20):
        result = resample_days(frame, seed)
        assert result["job_id"].n_unique() == result.height
        assert result.filter(pl.col("group_id").is_null())["job_id"].str.starts_with("a@0@").all()


def test_no_jobs_have_no_days(jobs: Jobs) -> None:
    with pytest.raises(InvalidWorkloadError, match="no days"):
        resample_days(jobs(1).clear(), 0)
