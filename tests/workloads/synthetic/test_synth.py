from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError, UnknownNameError
from tests.workloads.formats.philly_csv_writer import REPEAT_EVERY, philly_csv_text, write_philly_csv
from workloads.checks import check_frame
from workloads.convert import convert
from workloads.store import read_frame
from workloads.synthetic.arrivals import DAY_S, WEEK_S
from workloads.synthetic.synth import PROFILES, DrawRequest, draw, synth
from workloads.synthetic.trace_profile import PHILLY, USERS_PER_VC

JOBS = 200_000

SAMPLE = Path(__file__).parents[3] / "workloads" / "samples" / "philly_sample.csv"
"""The sample that comes with the project, written by `sample_text`."""

SAMPLE_JOBS = 1500


def sample_text() -> str:
    """About 150 jobs a day, so ten days from 2017-10-30, and 3 repeats."""
    return philly_csv_text(synth("philly", SAMPLE_JOBS, seed=1, load_scale=0.18)[0], seed=1)


@pytest.fixture(scope="module")
def philly() -> pl.DataFrame:
    return synth("philly", JOBS, seed=5)[0]


def shares_agree(drawn: Counter[object], published: Mapping[Any, int], total: int) -> None:
    """Each share within five standard errors of a binomial count, and nothing else drawn."""
    assert set(drawn) <= set(published)
    whole = sum(published.values())
    for value, count in published.items():
        p = count / whole
        assert abs(drawn[value] - p * total) <= 5 * np.sqrt(p * (1 - p) * total) + 1


def test_the_frame_is_a_sound_workload_of_whole_seconds(philly: pl.DataFrame) -> None:
    check_frame(philly, "synth")
    assert philly.height == JOBS
    for name in ("submit_s", "duration_s"):
        assert (philly[name] % 1 == 0).all()
    assert (philly["duration_s"] >= 1).all()
    assert philly["submit_s"].is_sorted()


def test_sizes_have_the_published_shares(philly: pl.DataFrame) -> None:
    shares_agree(Counter(philly["num_gpus"].to_list()), PHILLY.sizes, JOBS)


def test_vcs_have_the_published_shares(philly: pl.DataFrame) -> None:
    assert PHILLY.vcs is not None
    shares_agree(Counter(philly["vc"].to_list()), PHILLY.vcs, JOBS)


def test_users_of_a_vc_have_shares_that_fall_as_one_over_their_rank(philly: pl.DataFrame) -> None:
    # 1 + 1/2 + ... + 1/25 = 3.816: of the jobs of a vc the first user has 26.2 %, the tenth 2.6 %.
    harmonic = sum(1 / rank for rank in range(1, USERS_PER_VC + 1))
    assert harmonic == pytest.approx(3.816, abs=1e-3)
    for (vc,), of_vc in philly.partition_by("vc", as_dict=True).items():
        drawn = Counter(of_vc["user"].to_list())
        for rank in range(1, USERS_PER_VC + 1):
            p = 1 / rank / harmonic
            slack = 5 * np.sqrt(p * (1 - p) * of_vc.height) + 1
            assert abs(drawn.pop(f"{vc}-{rank}", 0) - p * of_vc.height) <= slack
        assert not drawn  # a user is of one vc


def test_users_are_drawn_from_a_stream_of_their_own(philly: pl.DataFrame) -> None:
    model = PHILLY.model()
    without = replace(model, factors=tuple(each for each in model.factors if each.within is None))
    nameless = draw(without, DrawRequest(JOBS), seed=5)
    assert nameless["user"].null_count() == JOBS
    assert nameless.drop("user").equals(philly.drop("user"))


@pytest.mark.parametrize("index", range(len(PHILLY.durations)))
def test_run_times_of_each_size_class_have_the_published_quantiles(philly: pl.DataFrame, index: int) -> None:
    # At most n (1 - q) jobs are longer than the q-quantile, up to five standard errors of that count.
    bounds = [*PHILLY.durations, 10**9]
    of_class = philly.filter(pl.col("num_gpus").is_between(bounds[index], bounds[index + 1] - 1))[
        "duration_s"
    ]
    n = of_class.len()
    quantiles = PHILLY.durations[bounds[index]]
    for q, value in zip(PHILLY.probabilities, quantiles, strict=True):
        below, at_most = (of_class < value).sum(), (of_class <= value).sum()
        slack = 5 * np.sqrt(q * (1 - q) * n)
        assert below - slack <= q * n <= at_most + slack
    assert of_class.is_between(quantiles[0], quantiles[-1]).all()


def test_a_quarter_of_the_one_gpu_jobs_take_at_most_two_minutes(philly: pl.DataFrame) -> None:
    # The published quartiles are 122 s and 1,117 s; half-way in log scale is sqrt(122 x 1117) = 369 s.
    single = philly.filter(pl.col("num_gpus") == 1)["duration_s"]
    for q, value in ((0.25, 122), (0.375, 369), (0.5, 1117)):
        assert (single <= value).mean() == pytest.approx(q, abs=0.006)


@pytest.mark.parametrize(("load_scale", "per_week"), [(1.0, 5926), (2.0, 11_852), (0.1, 592.6)])
def test_the_arrival_rate_is_the_published_one_times_the_load_scale(
    load_scale: float, per_week: float
) -> None:
    # 109,532 jobs in 11,178,853 s are 5,926 a week. A Poisson count n is within five times sqrt(n).
    frame, _ = synth("philly", 20_000, seed=2, load_scale=load_scale)
    last_s = frame["submit_s"].max()
    assert isinstance(last_s, float)
    weeks = last_s // WEEK_S
    arrived = frame.filter(pl.col("submit_s") < weeks * WEEK_S).height
    assert abs(arrived - weeks * per_week) < 5 * np.sqrt(arrived)


def test_arrivals_follow_the_week_and_the_day(philly: pl.DataFrame) -> None:
    assert PHILLY.week is not None
    submit_s = philly["submit_s"].to_numpy()
    whole_weeks = submit_s[submit_s < submit_s.max() // WEEK_S * WEEK_S]
    day = whole_weeks % WEEK_S // DAY_S
    weekend, week = (day >= 5).sum() / 2, (day < 5).sum() / 5
    assert weekend / week == pytest.approx(PHILLY.week.weekend_rate, rel=0.02)
    # First Fourier coefficient of a rate 1 + a cos(2 pi (h - peak) / 24): mean of exp(i 2 pi h / 24) is
    # a / 2 at angle peak.
    turn = np.exp(2j * np.pi * (whole_weeks % DAY_S) / DAY_S).mean()
    assert 2 * abs(turn) == pytest.approx(PHILLY.week.daily_amplitude, abs=0.015)
    assert np.angle(turn) * 24 / (2 * np.pi) == pytest.approx(PHILLY.week.daily_peak_h, abs=0.2)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_seed_draws_the_same_workload_and_purposes_are_independent(profile: str) -> None:
    first, made = synth(profile, 500, seed=1)
    again, made_again = synth(profile, 500, seed=1)
    assert first.equals(again)
    assert made == made_again
    assert not first.equals(synth(profile, 500, seed=2)[0])
    busier = synth(profile, 500, seed=1, load_scale=3)[0]
    assert first.drop("submit_s").equals(busier.drop("submit_s"))
    assert not first["submit_s"].equals(busier["submit_s"])
    assert first.head(100).equals(synth(profile, 100, seed=1)[0])


def test_provenance_says_how_to_draw_it_again() -> None:
    _, made = synth("philly", 10, seed=4, load_scale=0.5)
    assert (made.converter, made.seed) == ("synth", 4)
    assert made.options == {"profile": "philly", "jobs": 10, "load_scale": 0.5}
    assert made.counts.kept == 10
    assert made.notes["epoch_utc"] == "2017-10-30T07:00:00+00:00"


def test_arguments_out_of_range_are_clear_errors() -> None:
    with pytest.raises(UnknownNameError, match="unknown workload profile 'phily'"):
        synth("phily", 1, 0)
    for jobs, seed, load_scale, told in (
        (0, 0, 1.0, "jobs"),
        (1, -1, 1.0, "seed"),
        (1, 0, 0.0, "load_scale"),
        (1, 0, float("nan"), "load_scale"),
        (1, 0, 1e-300, "load_scale"),
    ):
        with pytest.raises(InvalidInputError, match=f"^{told}: "):
            synth("philly", jobs, seed, load_scale)


def test_the_bundled_sample_is_what_the_generator_writes() -> None:
    assert SAMPLE.read_bytes() == sample_text().encode()


def test_the_bundled_sample_holds_the_traps_of_the_real_file(tmp_path: Path) -> None:
    report = convert("philly-csv", [SAMPLE], tmp_path / "w.parquet")
    assert report.rejected == {"empty_row": 1}
    assert report.kept == SAMPLE_JOBS + SAMPLE_JOBS // REPEAT_EVERY
    assert report.notes["duplicate_rows_kept"] == SAMPLE_JOBS // REPEAT_EVERY
    assert report.notes["ambiguous_local_times"] not in (0, None)
    stamps = [line.split(",")[0] for line in sample_text().splitlines()[1:-1]]
    assert stamps != sorted(stamps)
    assert min(stamps) < "2017-11-05 00:00:00"
    assert max(stamps) > "2017-11-06 00:00:00"


def test_what_is_written_as_raw_text_converts_back_but_for_the_double_hour(tmp_path: Path) -> None:
    frame, _ = synth("philly", 3_000, seed=8)
    raw = tmp_path / "raw.csv"
    write_philly_csv(frame, raw, seed=3)
    convert("philly-csv", [raw], tmp_path / "w.parquet")
    back = read_frame(tmp_path / "w.parquet")
    # The second pass of 01:00 .. 02:00 on Sunday 2017-11-05 is read as the first, an hour early:
    # 6 days and 2 .. 3 hours after Monday's midnight.
    second_pass = pl.col("submit_s").is_between(6 * DAY_S + 7200, 6 * DAY_S + 10_799)
    columns = ["submit_s", "duration_s", "num_gpus", "vc", "user"]
    expected = frame.with_columns(pl.when(second_pass).then(pl.col("submit_s") - 3600).otherwise("submit_s"))
    repeats = expected.gather_every(REPEAT_EVERY, offset=REPEAT_EVERY - 1)
    origin_s = frame["submit_s"][0]
    expected = pl.concat([expected, repeats]).with_columns(pl.col("submit_s") - origin_s)
    assert back.select(columns).sort(columns).equals(expected.select(columns).sort(columns))


def test_raw_text_holds_whole_gpus_only() -> None:
    frame, _ = synth("philly", 3, seed=0)
    with pytest.raises(InvalidWorkloadError, match="whole GPUs"):
        philly_csv_text(frame.with_columns(num_gpus=pl.lit(0.5)))
