"""Arrival processes: their rates against closed forms, and what is fitted against what was drawn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray
from workloads.synthetic.arrivals import (
    DAY_S,
    HOUR_S,
    WEEK_S,
    ArrivalKind,
    Arrivals,
    PeriodicPoisson,
    alternating,
    fit_days,
    fit_diurnal,
    observed,
    parse_arrivals,
    poisson,
)
from workloads.synthetic.synth import DrawRequest, synth

JOBS = 60_000


def days_of(*times_of_day: list[float]) -> FloatArray:
    """Submissions on consecutive days, from day 0."""
    return np.array([day * DAY_S + time for day, times in enumerate(times_of_day) for time in times])


def processes() -> list[Arrivals]:
    days = fit_days(days_of([3600.0], [10.0, 20.0, 80_000.0], [], [50_000.0], [9.0]))
    assert days is not None
    return [poisson(0.01), alternating(0.01, 60.0), days]


def test_gaps_of_a_poisson_process_are_exponential() -> None:
    gaps_s = np.diff(poisson(0.02).submit_s(JOBS, Streams(1), load_scale=2.0), prepend=0.0)
    # Rate 0.02 x 2. Kolmogorov's 1 % point for a given distribution is 1.63 / sqrt(n).
    assert kstest(gaps_s, "expon", args=(0, 1 / 0.04)).statistic < 1.63 / np.sqrt(JOBS)


@pytest.mark.parametrize("load_scale", [1.0, 4.0])
def test_alternating_slots_take_one_and_two_thirds(load_scale: float) -> None:
    submit_s = alternating(0.05, 100.0).submit_s(JOBS, Streams(2), load_scale)
    # A pair of slots expects 0.05 x 200 = 10 arrivals, times the scale: a third of them in its first.
    pairs = submit_s[-1] // 200.0
    whole = submit_s[submit_s < pairs * 200.0]
    in_first = int((whole % 200.0 < 100.0).sum())
    n = len(whole)
    assert abs(in_first - n / 3) < 5 * np.sqrt(n * (1 / 3) * (2 / 3))
    assert abs(n - pairs * 10 * load_scale) < 5 * np.sqrt(n)
    # Within a slot the rate is constant.
    within = whole[whole % 200.0 >= 100.0] % 100.0
    assert kstest(within, "uniform", args=(0, 100)).statistic < 1.63 / np.sqrt(len(within))


@pytest.mark.parametrize("index", range(3))
def test_more_jobs_begin_with_the_same_jobs(index: int) -> None:
    process = processes()[index]
    many = process.submit_s(2_000, Streams(5), 1.0)
    assert (np.diff(many) >= 0).all()
    for jobs in (1, 2, 1_000):
        np.testing.assert_array_equal(process.submit_s(jobs, Streams(5), 1.0), many[:jobs])


@pytest.mark.parametrize("index", range(3))
def test_the_rate_is_the_stated_one(index: int) -> None:
    process = processes()[index]
    last_s = process.submit_s(JOBS, Streams(9), 2.0)[-1]
    # Days of 3, 0 and 1 jobs have a variance of 1.6 a day, which is 1.2 times their mean.
    assert last_s == pytest.approx(JOBS / (2 * process.arrivals_per_s), rel=5 * np.sqrt(1.2 / JOBS))


def test_days_are_drawn_whole_and_the_cut_ones_at_the_ends_never() -> None:
    # From 1:00 on day 0 until 9 s after midnight of day 4: days 1, 2 and 3 are whole, day 2 is empty. An hour
    # is no longer "a little after midnight".
    submit_s = days_of([3600.0], [10.0, 20.0, 80_000.0], [], [50_000.0], [9.0])
    days = fit_days(submit_s)
    assert days is not None
    assert days.arrivals_per_s == 4 / (3 * DAY_S)
    drawn = days.submit_s(400, Streams(3), 1.0)
    of_day = [(drawn[drawn // DAY_S == day] % DAY_S).tolist() for day in range(int(drawn[-1] // DAY_S))]
    seen = [of_day.count(times) for times in ([10.0, 20.0, 80_000.0], [], [50_000.0])]
    assert sum(seen) == len(of_day)
    # Each with probability 1/3.
    assert all(abs(count - sum(seen) / 3) < 5 * np.sqrt(sum(seen) * 2 / 9) for count in seen)


def test_a_day_that_begins_with_the_first_submission_is_whole() -> None:
    days = fit_days(days_of([0.0, 5.0], [0.0]))
    assert days is not None
    assert days.time_s.tolist() == [0.0, 5.0]


def test_without_a_whole_day_with_a_job_there_are_no_days() -> None:
    # From 2:00 of day 0: the first midnight after it is that of day 1, and the last submission is on day 1.
    assert fit_days(days_of([7200.0, 80_000.0], [0.0, 9.0])) is None
    assert fit_days(days_of([7200.0], [], [], [2.0])) is None


@pytest.mark.parametrize(
    ("first_s", "last_s", "days", "span_s"),
    [
        # A record of seven days has no submission in its last seconds, nor in its first.
        (0.0, 7 * DAY_S - 5, range(7), 7 * DAY_S),
        (40.0, 7 * DAY_S - 5, range(7), 7 * DAY_S),
        (3 * DAY_S + 40.0, 10 * DAY_S, range(3, 10), 7 * DAY_S),
        # Half a day more is a cut day; 6.9 days end 2.4 hours before midnight.
        (0.0, 7.5 * DAY_S, range(7), 7.5 * DAY_S),
        (0.0, 6.9 * DAY_S, range(6), 6.9 * DAY_S),
        # Seven times 24 hours from 14:00 on: a week is observed, and six of its days are whole.
        (14 * HOUR_S + 40.0, 7 * DAY_S + 14 * HOUR_S - 5, range(1, 7), 7 * DAY_S),
        # An hour and more before the limit is no end of a day.
        (HOUR_S, 2 * DAY_S - HOUR_S, range(1, 1), 2 * DAY_S - 2 * HOUR_S),
        (HOUR_S - 1, 2 * DAY_S - HOUR_S + 1, range(2), 2 * DAY_S),
    ],
)
def test_a_day_is_whole_where_less_than_an_hour_lacks_at_its_limit(
    first_s: float, last_s: float, days: range, span_s: float
) -> None:
    seen = observed(first_s, last_s)
    assert seen.days == days
    assert seen.span_s == pytest.approx(span_s, abs=50)


def test_a_week_without_its_last_seconds_is_fitted_by_day_and_resampled_whole() -> None:
    # Twice as many on each day as on the one before it: 2, 4, ..., 256 at equal distances, the first half-way
    # to the second; the last comes 86,400 / 512 = 169 s before the end of the week.
    counts = [2**day for day in range(1, 8)]
    submit_s = days_of(*(((np.arange(n) + 0.5) * DAY_S / n).tolist() for n in counts))
    submit_s[0] = 30.0
    fitted, days = fit_diurnal(submit_s), fit_days(submit_s)
    assert fitted is not None
    assert days is not None
    of_day = hourly_shares(fitted).reshape(7, 24).sum(axis=1)
    np.testing.assert_allclose(of_day, np.array(counts) / sum(counts), rtol=1e-6)
    assert np.diff(days.first).tolist() == counts
    # Two hours shorter, no day has a factor of its own.
    short = fit_diurnal(submit_s[submit_s < WEEK_S - 2 * HOUR_S])
    assert short is not None
    np.testing.assert_allclose(hourly_shares(short).reshape(7, 24).sum(axis=1), 1 / 7)


def hourly_shares(process: PeriodicPoisson) -> FloatArray:
    """(168,) share of a week's arrivals in each of its hours."""
    edges_s = np.arange(0, WEEK_S + 1, HOUR_S)
    return np.diff(np.interp(edges_s, process.time_s, process.share))


def test_hours_and_days_of_a_known_rate_are_recovered() -> None:
    of_hour = 1 + 0.8 * np.sin(2 * np.pi * (np.arange(24) + 0.5) / 24)
    of_day = np.array([1.0, 1.2, 1.0, 0.9, 1.1, 0.3, 0.5])
    shares = np.outer(of_day, of_hour).ravel()
    shares /= shares.sum()
    edges_s = np.arange(0.0, WEEK_S + 1, HOUR_S)
    process = PeriodicPoisson(0.05, edges_s, np.concatenate([[0.0], np.cumsum(shares)]))
    # 200,000 arrivals in 6.6 weeks, the last one partial.
    fitted = fit_diurnal(process.submit_s(200_000, Streams(4), 1.0))
    assert fitted is not None
    assert fitted.arrivals_per_s == pytest.approx(0.05, rel=5 / np.sqrt(200_000))
    # 24 + 7 numbers from 200,000 counts: the rarest hour has a share of 0.2 / 24, or 1,700 counts.
    np.testing.assert_allclose(hourly_shares(fitted), shares, rtol=5 / np.sqrt(1_700))


@pytest.mark.parametrize(("hours", "begins_h"), [(24, 0), (36, 5), (7 * 24, 30), (200, 170), (400, 3)])
def test_a_constant_rate_is_fitted_as_constant_however_the_span_is_cut(hours: int, begins_h: int) -> None:
    # One arrival every 10 s, in the middle of each 10 s but for the first and the last, which mark the span.
    begin_s = begins_h * HOUR_S
    middle_s = begin_s + np.arange(5.0, hours * HOUR_S, 10.0)
    submit_s = np.concatenate([[begin_s], middle_s, [begin_s + hours * HOUR_S]])
    fitted = fit_diurnal(submit_s)
    assert fitted is not None
    # An hour has 360 arrivals; the two marks may add one to the first hour, and to the one after the last.
    np.testing.assert_allclose(hourly_shares(fitted), 1 / 168, rtol=2 / 360)
    assert fitted.arrivals_per_s == pytest.approx(0.1, rel=2 / 360)


def test_below_a_day_there_is_no_diurnal_rate_and_below_a_week_no_weekday() -> None:
    assert fit_diurnal(np.arange(0.0, DAY_S - HOUR_S, 60.0)) is None
    fitted = fit_diurnal(np.concatenate([np.arange(0.0, DAY_S, 60.0), np.arange(DAY_S, 3.5 * DAY_S, 600.0)]))
    assert fitted is not None
    of_day = hourly_shares(fitted).reshape(7, 24)
    np.testing.assert_allclose(of_day, np.tile(of_day[0], (7, 1)), rtol=1e-12)


@pytest.mark.parametrize("arrivals", ["poisson", "alternating"])
def test_another_process_moves_the_arrivals_and_nothing_else(arrivals: str) -> None:
    base = synth("philly", 500, seed=1)[0]
    other, made = synth("philly", 500, seed=1, arrivals=parse_arrivals(arrivals))
    assert base.drop("submit_s").equals(other.drop("submit_s"))
    assert not base["submit_s"].equals(other["submit_s"])
    assert made.options["arrivals"] == arrivals
    assert other.equals(synth("philly", 500, seed=1, arrivals=ArrivalKind(arrivals))[0])


def test_slots_are_those_asked_for() -> None:
    default = synth("philly", 500, seed=1, arrivals=ArrivalKind.ALTERNATING)
    hour = synth("philly", 500, seed=1, arrivals=ArrivalKind.ALTERNATING, slot_s=3600.0)
    minute, made = synth("philly", 500, seed=1, arrivals=ArrivalKind.ALTERNATING, slot_s=60.0)
    assert default[0].equals(hour[0])
    assert not default[0].equals(minute)
    assert made.options["slot_s"] == 60


def test_what_cannot_be_asked_for_is_named() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'poisson'"):
        parse_arrivals("posson")
    with pytest.raises(InvalidInputError, match="slot_s: only alternating"):
        DrawRequest(5, slot_s=60.0)
    with pytest.raises(InvalidInputError, match=r"slot_s: must be from 0\.000001 to"):
        DrawRequest(5, arrivals=ArrivalKind.ALTERNATING, slot_s=0.0)
    for jobs in (0, 10**8 + 1):
        with pytest.raises(InvalidInputError, match="jobs: must be at least 1, at most 100,000,000"):
            DrawRequest(jobs)
    assert [DrawRequest(jobs).jobs for jobs in (1, 10**8)] == [1, 10**8]
    for load_scale in (0.0, -1.0, 1e-300, 1e300, float("nan")):
        with pytest.raises(InvalidInputError, match=r"load_scale: must be a number from 0\.000001 to"):
            DrawRequest(5, load_scale)
    with pytest.raises(InvalidInputError, match="arrivals: resampled needs a workload to be like"):
        synth("philly", 5, 0, arrivals=ArrivalKind.RESAMPLED)
