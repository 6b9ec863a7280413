from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from tests.proofs import instances
from tests.worlds import HOUR
from workloads.checks import check_frame
from workloads.describe import describe_frame, tally_rows
from workloads.job_table import frame_to_table
from workloads.provenance import Counts, Provenance
from workloads.realisation import (
    DAY_S,
    Realisation,
    Tally,
    Window,
    cut_window,
    day_begins_s,
    drop_unsuccessful,
    realise,
    resample_days,
    scale_load,
)
from workloads.schema import SORT_KEY
from workloads.synthetic.synth import synth

Jobs = Callable[..., pl.DataFrame]

SYNTHETIC = synth("philly", 2_000, seed=0)[0]
DAYS = int(SYNTHETIC["submit_s"].to_numpy().max() // DAY_S) + 1
WITH_STATUS = SYNTHETIC.with_columns(
    status=pl.Series(["Pass", "Killed", "Failed", None, "Running"]).gather(
        np.arange(SYNTHETIC.height, dtype=np.uint32) * 7 % 5
    )
)
INSTANTS = st.integers(0, DAYS * DAY_S)


def _windows() -> st.SearchStrategy[Window]:
    pairs = st.lists(INSTANTS, min_size=2, max_size=2, unique=True).map(sorted)
    return pairs.map(lambda pair: Window(float(pair[0]), float(pair[1])))


def _names(frame: pl.DataFrame) -> list[str]:
    return frame["job_id"].to_list()


def _in(window: Window) -> list[str]:
    """Names of the jobs in a window, none where it holds none."""
    try:
        return _names(cut_window(SYNTHETIC, window))
    except InvalidWorkloadError:
        return []


@pytest.mark.slow
@settings(deadline=None, max_examples=instances(25))
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


@pytest.mark.slow
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


@given(st.lists(INSTANTS, min_size=1, max_size=5, unique=True))
def test_windows_side_by_side_hold_every_job_once(cuts: list[int]) -> None:
    ends = [0, *sorted(set(cuts) - {0}), DAYS * DAY_S + 1]
    parts = [_in(Window(float(a), float(b))) for a, b in pairwise(ends)]
    assert [name for part in parts for name in part] == _names(SYNTHETIC)


@given(_windows(), _windows())
def test_a_window_in_a_window_is_what_they_share(one: Window, other: Window) -> None:
    shared = set(_in(one)) & set(_in(other))
    if max(one.from_s, other.from_s) < min(one.to_s, other.to_s):
        both = Window(max(one.from_s, other.from_s), min(one.to_s, other.to_s))
        assert set(_in(both)) == shared
    else:
        assert not shared


@given(_windows(), st.integers(0, 10**9))
def test_a_window_that_moves_with_the_workload_gives_the_same_jobs(window: Window, shift_s: int) -> None:
    names = _in(window)
    if not names:
        return
    moved = SYNTHETIC.with_columns(pl.col("submit_s") + shift_s)
    there = cut_window(moved, Window(window.from_s + shift_s, window.to_s + shift_s))
    here = cut_window(SYNTHETIC, window)
    assert _names(there) == names
    np.testing.assert_array_equal(frame_to_table(there).submit_us, frame_to_table(here).submit_us)


def test_a_window_begins_with_its_first_instant_and_ends_before_its_last(jobs: Jobs) -> None:
    # Jobs at 0, 60 and 120.
    assert _names(cut_window(jobs(), Window(60, 120))) == ["job-1"]


def test_a_window_without_a_job_says_where_the_jobs_are(jobs: Jobs) -> None:
    with pytest.raises(InvalidWorkloadError, match="from 130 to 140 s; the workload's come from 0 to 120 s"):
        cut_window(jobs(), Window(130, 140))


@pytest.mark.parametrize("ends", [(5, 5), (6, 5), (-1, 5), (0, float("inf")), (float("nan"), 5)])
def test_a_window_has_a_beginning_and_a_later_end(ends: tuple[float, float]) -> None:
    with pytest.raises(InvalidInputError, match="window: FROM must be"):
        Window(*ends)


@pytest.mark.slow
@given(st.floats(1e-3, 1e3))
def test_scaling_the_load_divides_every_time_since_the_first_submission(factor: float) -> None:
    before, after = frame_to_table(SYNTHETIC), frame_to_table(scale_load(SYNTHETIC, factor))
    # Rounded to the microsecond; beside that, floating point keeps 2^-53 of times below 2^38 s in
    # microseconds, less than 1 us.
    assert np.abs(after.submit_us - before.submit_us / factor).max() <= 0.5 + 2**-10
    assert after.origin_us == before.origin_us
    assert after.job_id.equals(before.job_id)
    np.testing.assert_array_equal(after.work_us, before.work_us)
    check_frame(scale_load(SYNTHETIC, factor), "scaled")


@given(st.floats(1e-3, 1e3))
def test_scaling_the_load_scales_the_load(factor: float) -> None:
    before, after = describe_frame(SYNTHETIC, ""), describe_frame(scale_load(SYNTHETIC, factor), "")
    assert after.gpu_hours == before.gpu_hours
    assert after.span_s * factor == pytest.approx(before.span_s, rel=1e-12)


@given(st.floats(1e-2, 1e2), st.floats(1e-2, 1e2))
def test_scaling_twice_is_scaling_by_the_product(one: float, other: float) -> None:
    twice = frame_to_table(scale_load(scale_load(SYNTHETIC, one), other))
    once = frame_to_table(scale_load(SYNTHETIC, one * other))
    assert np.abs(twice.submit_us - once.submit_us).max() <= 1


@pytest.mark.parametrize("factor", [0.0, -1.0, 1e-9, 1e7, float("nan"), float("inf")])
def test_a_load_scale_is_neither_tiny_nor_huge(jobs: Jobs, factor: float) -> None:
    with pytest.raises(InvalidInputError, match=r"load_scale: must be a number from 0\.000001 to"):
        scale_load(jobs(), factor)


def test_a_load_scale_that_leaves_all_time_behind_is_refused(jobs: Jobs) -> None:
    # 120,000 s / 1e-6 is 3,800 years.
    with pytest.raises(InvalidInputError, match="spreads the jobs over too long a time"):
        scale_load(jobs(2, submit_s=[0.0, 120_000.0]), 1e-6)


def test_dropping_unsuccessful_jobs_keeps_the_others_and_those_nobody_knows_of(jobs: Jobs) -> None:
    frame = jobs(5, status=["Pass", "Killed", "FAILED", None, "Terminated"])
    kept, tally = realise(frame, Realisation(unsuccessful="drop"), seed=0)
    assert _names(kept) == ["job-0", "job-3", "job-4"]
    assert tally == Tally(5, 2, 0, 3, 2, unknown_statuses={"": 1, "Terminated": 1})


@pytest.mark.parametrize(
    ("status", "found"), [([None, None], "found: none"), (["x", "Y"], "found: only 'Y', 'x'")]
)
def test_jobs_of_which_nobody_knows_how_they_ended_cannot_be_dropped(
    jobs: Jobs, status: list[object], found: str
) -> None:
    with pytest.raises(InvalidWorkloadError, match=found):
        drop_unsuccessful(jobs(2, status=status).cast({"status": pl.String}))


def test_statuses_of_unknown_meaning_are_named_with_their_jobs(jobs: Jobs) -> None:
    # 1 + 2 + ... + 25 = 325 jobs of 25 words; the five rarest have 1 + 2 + 3 + 4 + 5 = 15.
    words = [f"w{k:02}" for k in range(1, 26) for _ in range(k)]
    frame = jobs(335, status=[*words, *["Pass"] * 10])
    _, tally = realise(frame, Realisation(unsuccessful="drop"), seed=0)
    assert tally.unknown_status == 325
    assert tally.unknown_statuses == {f"w{k:02}": k for k in range(25, 5, -1)}
    assert tally_rows(tally)[:2] == [("kept, of unknown status", 325), ("  status 'w25'", 25)]
    assert tally_rows(tally)[-1] == ("  others", 15)


def test_what_slurm_prints_is_dropped(jobs: Jobs) -> None:
    status = ["COMPLETED", "CANCELLED by 1000", "CANCELLED+", "OUT_OF_ME+", "NODE_FAIL", "RUNNING"]
    kept, tally = realise(jobs(6, status=status), Realisation(unsuccessful="drop"), seed=0)
    assert kept["status"].to_list() == ["COMPLETED", "RUNNING"]
    assert (tally.unsuccessful, tally.unknown_statuses) == (4, {"RUNNING": 1})


def test_a_workload_without_success_is_refused(jobs: Jobs) -> None:
    with pytest.raises(InvalidWorkloadError, match=r"every job \(of 2\) failed or was killed"):
        drop_unsuccessful(jobs(2, status=["failed", "killed"]))


def test_without_any_rule_a_workload_stays_as_it_is() -> None:
    frame, tally = realise(SYNTHETIC, Realisation(), seed=3)
    assert frame.equals(SYNTHETIC)
    assert tally == Tally(2_000, 0, 0, 2_000, 0)


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    first_day=st.integers(0, DAYS - 1),
    days=st.integers(1, DAYS),
    factor=st.sampled_from([0.5, 1.0, 1.25, 3.0]),
)
def test_status_then_window_then_resampling_then_load(
    seed: int, first_day: int, days: int, factor: float
) -> None:
    window = Window(first_day * DAY_S, (first_day + days) * DAY_S)
    found, tally = realise(WITH_STATUS, Realisation("drop", window, "days", factor), seed)
    inside = cut_window(drop_unsuccessful(WITH_STATUS), window)
    resampled = resample_days(inside, seed)
    assert found.equals(scale_load(resampled, factor))
    check_frame(found, "realised")
    assert tally.read == WITH_STATUS.height
    assert tally.read - tally.unsuccessful - tally.outside_window == inside.height
    assert tally.replayed == found.height
    assert {name.split("@")[0] for name in found["job_id"]} <= set(inside["job_id"])


def test_the_window_is_in_the_time_of_the_trace_not_of_the_scaled_load(jobs: Jobs) -> None:
    # Jobs at 0, 60 and 120. In [0, 100) are two; twice as fast, the second comes at 30. Scaled first,
    # all three would come within [0, 100), at 0, 30 and 60.
    frame, _ = realise(jobs(), Realisation(window=Window(0, 100), load_scale=2.0), seed=0)
    assert frame["submit_s"].to_list() == [0.0, 30.0]


def test_days_are_those_of_the_trace_not_of_the_scaled_load(jobs: Jobs) -> None:
    # A job at noon of each of four days. Twice as fast after the first, any four days come 12 h apart.
    frame = jobs(4, submit_s=[DAY_S * (day + 0.5) for day in range(4)])
    found, _ = realise(frame, Realisation(resample="days", load_scale=2.0), seed=1)
    assert found["submit_s"].to_list() == [DAY_S * (0.5 + day / 2) for day in range(4)]


def test_only_resampling_uses_the_seed() -> None:
    rules = Realisation("drop", Window(0, 2 * DAY_S), None, 1.5)
    assert realise(WITH_STATUS, rules, seed=1)[0].equals(realise(WITH_STATUS, rules, seed=2)[0])


def _made(zone: str, epoch: str = "1970-01-01T00:00:00+00:00") -> Provenance:
    notes: dict[str, JsonValue] = {"epoch_utc": epoch, "time_zone": zone}
    return Provenance(converter="hand", converter_version="1", counts=Counts(read=0, kept=0), notes=notes)


def _local(zone: str, *texts: str) -> list[float]:
    """Seconds since 1970 of local times."""
    return [datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() for text in texts]


LOS_ANGELES = "America/Los_Angeles"


@pytest.mark.parametrize("rebased", [False, True])
def test_six_days_of_los_angeles_are_six_blocks_of_the_jobs_of_one_day(jobs: Jobs, rebased: bool) -> None:
    # Nine jobs a day from 14:00 to 22:00, seven of them on the next day in UTC.
    hours = [f"2024-03-0{day}T{hour}:00" for day in range(4, 10) for hour in range(14, 23)]
    submit_s = np.array(_local(LOS_ANGELES, *hours))
    made = _made(LOS_ANGELES)
    if rebased:
        made = _made(LOS_ANGELES, datetime.fromtimestamp(submit_s[0], UTC).isoformat())
        submit_s -= submit_s[0]
    frame = jobs(54, submit_s=submit_s.tolist())
    result = resample_days(frame, 1, made)
    expected = [(f"@{slot}", DAY_S * slot + HOUR * hour) for slot in range(6) for hour in range(14, 23)]
    assert result.select(pl.col("job_id").str.replace("job-[0-9]*", ""), "submit_s").rows() == expected
    if not rebased:
        assert len(day_begins_s(submit_s[0], submit_s[-1])) == 8  # seven days in UTC


def test_a_day_on_which_clocks_change_has_its_hours() -> None:
    # Berlin: 23 hours on 2024-03-31, 25 on 2024-10-27.
    for day, hours in (("2024-03-31", 23), ("2024-10-27", 25), ("2024-06-01", 24)):
        (noon,) = _local("Europe/Berlin", f"{day}T12:00")
        assert np.diff(day_begins_s(noon, noon, _made("Europe/Berlin"))).tolist() == [HOUR * hours]
    # In Beirut the clocks skip the hour from midnight on: the day begins at one o'clock.
    (noon,) = _local("Asia/Beirut", "2021-03-28T12:00")
    assert np.diff(day_begins_s(noon, noon, _made("Asia/Beirut"))).tolist() == [HOUR * 23]


def test_drawn_days_follow_one_another_with_their_lengths(jobs: Jobs) -> None:
    # A job half an hour before the end of each of three days, the second of which has 25 hours.
    days = ("2024-10-26", "2024-10-27", "2024-10-28")
    frame = jobs(3, submit_s=_local("Europe/Berlin", *(f"{day}T23:30" for day in days)))
    length = {"job-0": 24, "job-1": 25, "job-2": 24}
    for seed in range(20):
        begin_s = 0.0
        drawn = resample_days(frame, seed, _made("Europe/Berlin"))
        for name, submit_s in drawn.select("job_id", "submit_s").rows():
            hours = length[name.split("@")[0]]
            assert submit_s == begin_s + (hours - 0.5) * HOUR
            begin_s += hours * HOUR


def test_an_instant_that_is_almost_midnight_is_of_its_day(jobs: Jobs) -> None:
    (midnight,) = _local(LOS_ANGELES, "2024-03-05T00:00")
    early = float(np.nextafter(midnight, 0))
    for seed in range(9):
        drawn = resample_days(jobs(2, submit_s=[early, midnight]), seed, _made(LOS_ANGELES))
        assert (drawn["submit_s"] >= 0).all()
    assert len(day_begins_s(early, early, _made(LOS_ANGELES))) == 2


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "America"])
def test_days_of_an_unknown_zone_count_from_second_zero(zone: str, jobs: Jobs) -> None:
    frame = jobs(9, submit_s=[20_000.0 * i for i in range(9)])
    assert resample_days(frame, 3, _made(zone)).equals(resample_days(frame, 3))
    assert "no time zone is known" in dict(describe_frame(frame, "w", _made(zone)).rows())["days"]
    zoned = dict(describe_frame(frame, "w", _made(LOS_ANGELES)).rows())
    assert zoned["days"] == "from midnight in America/Los_Angeles"


WRONG: Any = "dayz"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda: realise(WRONG, Realisation(), 0), "frame: expected a table of jobs, found str"),
        (lambda: realise(SYNTHETIC.drop("user", "vc"), Realisation(), 0), "columns missing: user, vc"),
        (lambda: realise(SYNTHETIC, WRONG, 0), "realisation: expected a Realisation, found str"),
        (
            lambda: realise(SYNTHETIC, Realisation(), 0, WRONG),
            "made: expected a Provenance or None, found str",
        ),
        (lambda: Realisation(resample=WRONG), "resample: expected days or None, found 'dayz'"),
        (lambda: Realisation(unsuccessful=WRONG), "unsuccessful: expected keep or drop, found 'dayz'"),
        (lambda: Realisation(window=WRONG), "window: expected a Window or None, found str"),
        (lambda: Realisation(load_scale=WRONG), "load_scale: expected a number, found str"),
        (lambda: Window(WRONG, 2), "window FROM: expected seconds, found str"),
    ],
)
def test_arguments_of_other_types_are_named(changed: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        changed()
