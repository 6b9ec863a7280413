"""Announcements of the jobs of a trace: what is drawn, from what, and how well it predicts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from ray_sim.experiments.inputs.layer_file import load_announcement_draws
from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.job import StatementProfile
from ray_sim.model.units import IntArray, seconds_to_us
from tests.proofs import instances
from tests.training_profiles import philly
from workloads.announcements.announce import FILLED, AnnouncementReport, announce
from workloads.announcements.durations import Durations, around_realised, error_points, own_history, scores
from workloads.announcements.profile import History, ValueKind
from workloads.checks import check_frame
from workloads.job_table import frame_to_table
from workloads.layers.fill import EnrichmentLayer, fill_file
from workloads.store import read_provenance, write_workload
from workloads.synthetic.synth import synth
from workloads.training.draws import Constant

Jobs = Callable[..., pl.DataFrame]
LOGNORMAL = load_announcement_draws("announced")
HISTORY = load_announcement_draws("announced_history")

FAILURE = 1e-6
"""Probability with which a test of a distribution fails by chance, for other seeds."""


def statements(frame: pl.DataFrame) -> StatementProfile:
    found = frame_to_table(frame).statements
    assert found is not None
    return found


def chi_square(counts: IntArray, shares: list[float]) -> float:
    """Probability of counts at least as far from the shares."""
    expected = np.array(shares) * counts.sum()
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(shares) - 1))


def realised_points(frame: pl.DataFrame) -> tuple[IntArray, IntArray]:
    """Number of the realised arrival and duration of each job among those of its outlook."""
    table, found = frame_to_table(frame), statements(frame)
    arrivals, durations = [], []
    for job, row in enumerate(found.outlook_row):
        after = np.unique(seconds_to_us(found.outlooks[row].arrival_after_s))
        lengths = np.unique(seconds_to_us(found.outlooks[row].duration_s))
        (arrival,) = np.flatnonzero(after == table.submit_us[job] - found.birth_us[job])
        (duration,) = np.flatnonzero(lengths == table.work_us[job])
        arrivals.append(arrival)
        durations.append(duration)
    return np.array(arrivals), np.array(durations)


def test_the_realised_point_is_a_draw_of_the_outlook() -> None:
    """It is a point exactly, and the k-th arrival and duration come as often as they are announced."""
    frame, report = announce(philly(instances(20_000, 2000)).filter(pl.col("duration_s") >= 1), LOGNORMAL, 5)
    arrivals, durations = realised_points(frame)
    weights = error_points(5)[1].tolist()
    assert chi_square(np.bincount(durations, minlength=5), weights) > FAILURE
    assert chi_square(np.bincount(arrivals, minlength=3), [0.25, 0.5, 0.25]) > FAILURE
    joint = np.bincount(5 * arrivals + durations, minlength=15)
    outlook = statements(frame).outlooks[0]
    assert chi_square(joint, outlook.probability.tolist()) > FAILURE
    # Of a lognormal variable the logarithm of the mean is sigma^2 / 2 above the mean of the logarithm.
    assert report.scores.mean_log_error == pytest.approx(0.5**2 / 2, abs=5 * 0.5 / math.sqrt(frame.height))
    assert report.scores.covered == 1


def test_the_points_of_an_error_have_the_moments_of_a_normal_variable() -> None:
    nodes, weights = error_points(5)
    np.testing.assert_allclose(
        [weights @ nodes**k for k in range(9)], [1, 0, 1, 0, 3, 0, 15, 0, 105], atol=1e-12
    )


def test_worked_points_around_a_duration() -> None:
    """Three points -sqrt 3, 0, sqrt 3 with 1/6, 2/3, 1/6; 100 s is the second, then the third."""
    error = math.log(4) / math.sqrt(3)
    found, drawn = around_realised(np.array([100, 100]) * 1_000_000, error, 3, np.array([0.5, 0.9]))
    assert drawn.tolist() == [1, 2]
    np.testing.assert_allclose(found.duration_us, np.array([25, 100, 400, 6.25, 25, 100]) * 1e6)
    np.testing.assert_allclose(found.probability, [1 / 6, 2 / 3, 1 / 6] * 2)


@pytest.mark.parametrize(("duration_us", "error"), [(0, 0.5), (100, 0.0), (2**36 * 10**6, 0.5), (1, 0.5)])
def test_points_that_coincide_are_one(duration_us: int, error: float) -> None:
    found, _ = around_realised(np.array([duration_us]), error, 5, np.array([0.4]))
    assert (np.diff(found.duration_us) > 0).all()
    assert duration_us in found.duration_us
    assert found.probability.sum() == pytest.approx(1, abs=1e-15)
    assert len(found.duration_us) < 5


def test_another_record_of_the_source_changes_no_statement() -> None:
    frame = philly(300)
    whole = announce(frame, LOGNORMAL, 7)[0]
    for left_out in (0, 150, 299):
        rest = announce(frame.filter(pl.int_range(pl.len()) != left_out), LOGNORMAL, 7)[0]
        assert rest.equals(whole.filter(pl.int_range(pl.len()) != left_out))
    assert announce(frame.reverse(), LOGNORMAL, 7)[0].reverse().equals(whole)
    assert not announce(frame, LOGNORMAL, 8)[0].equals(whole)


def test_with_history_a_record_matters_to_later_jobs_of_its_owner_only() -> None:
    frame = philly(300)
    whole = announce(frame, HISTORY, 7)[0]
    for left_out in (0, 150, 299):
        kept = pl.int_range(pl.len()) != left_out
        submit_s, vc = frame[left_out, "submit_s"], frame[left_out, "vc"]
        changed = announce(frame.filter(kept), HISTORY, 7)[0].select("job_id", "vc", "submit_s", *FILLED)
        before = whole.filter(kept).select("job_id", "vc", "submit_s", *FILLED)
        differing = changed.filter(changed["outlook"] != before["outlook"])
        assert ((differing["vc"] == vc) & (differing["submit_s"] >= submit_s)).all()
        assert changed["birth_s"].equals(before["birth_s"])


def past(frame: pl.DataFrame, birth_s: list[float], history: History) -> list[list[tuple[float, float]]]:
    found = own_history(frame, seconds_to_us(birth_s), history)
    points = list(zip((found.duration_us / 1e6).tolist(), found.probability.tolist(), strict=True))
    return [points[a:b] for a, b in zip(found.ptr[:-1], found.ptr[1:], strict=True)]


def test_worked_history_of_one_owner(jobs: Jobs) -> None:
    frame = jobs(
        6,
        vc=["a", "a", "b", "a", None, "a"],
        submit_s=[0.0, 10.0, 20.0, 30.0, 40.0, 1000.0],
        duration_s=[100.0, 20.0, 7.0, 20.0, 5.0, 60.0],
        wait_s=[0.0, 0.0, None, 480.0, None, None],
    )
    births = [0.0, 10.0, 20.0, 30.0, 40.0, 900.0]
    # Ends of vc a: 100, 30, 530. The job born at 30 does not yet know the one that ends at 30.
    found = past(frame, births, History("vc", 50, 5))
    assert found == [[], [], [], [], [], [(20.0, 2 / 3), (100.0, 1 / 3)]]
    assert past(frame, births, History("vc", 1, 5))[5] == [(20.0, 1.0)]
    assert past(frame, births, History("vc", 2, 1))[5] == [(60.0, 1.0)]
    assert past(frame, [0, 10, 20, 30.5, 40, 900], History("vc", 50, 5))[3] == [(20.0, 1.0)]
    assert past(frame, births, History("user", 50, 5)) == [[]] * 6


@settings(max_examples=instances(300, 20), deadline=None)
@given(data=st.data())
def test_history_is_what_a_search_of_all_jobs_finds(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 12))
    ints = st.lists(st.integers(0, 9), min_size=n, max_size=n)
    submit, duration, lead = (data.draw(ints) for _ in range(3))
    owner = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=n, max_size=n))
    most, points = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 4))
    frame = synth("philly", n, seed=1)[0].with_columns(
        vc=pl.Series(owner, dtype=pl.String),
        submit_s=pl.Series(submit, dtype=pl.Float64),
        duration_s=pl.Series(duration, dtype=pl.Float64),
    )
    order = frame["trace_order"].to_list()
    births = [float(s - k) for s, k in zip(submit, lead, strict=True)]
    found = past(
        frame.with_columns(wait_s=pl.lit(None, dtype=pl.Float64)), births, History("vc", most, points)
    )
    for job in range(n):
        ended = [
            (submit[k] + duration[k], order[k], duration[k])
            for k in range(n)
            if owner[k] == owner[job] and owner[job] is not None and submit[k] + duration[k] < births[job]
        ]
        lengths = sorted(each[2] for each in sorted(ended)[-most:])
        mean = sum(value * share for value, share in found[job])
        assert mean == pytest.approx(np.mean(lengths) if lengths else 0, abs=1e-5)
        assert len(found[job]) <= points
        groups = min(points, len(lengths))  # their sizes differ by one at most
        cuts = [len(lengths) * g // groups for g in range(groups + 1)] if groups else [0]
        means = {round(float(np.mean(lengths[a:b])), 6) for a, b in pairwise(cuts)}
        assert {value for value, _ in found[job]} == means


def test_jobs_without_past_fall_back_to_the_lognormal_construction() -> None:
    frame = philly(300)
    by_history, report = announce(frame, HISTORY, 7)
    lognormal = announce(frame, LOGNORMAL, 7)[0]
    alike = by_history["outlook"] == lognormal["outlook"]
    assert alike.sum() == frame.height - report.by_history
    assert 0 < report.by_history < frame.height
    assert report.scores.covered < 1


def test_worked_scores() -> None:
    """Half 1 s, half e^2 s: E|X - y| = 1 and E|X - X'| / 2 = 1/2 at y = e; surely e s scores 0."""
    us = np.rint(np.exp([0, 2, 1]) * 1e6).astype(np.int64)
    found = Durations(np.array([0, 2, 3]), us, np.array([0.5, 0.5, 1.0]))
    realised = np.rint(np.exp([1.0, 1.0]) * 1e6).astype(np.int64)
    scored = scores(found, realised)
    assert scored.covered == 1
    assert scored.crps_log == pytest.approx((0.5 + 0) / 2, abs=1e-6)
    assert scored.mean_log_error == pytest.approx(math.log((1 + math.exp(2)) / 2) / 2 - 0.5, abs=1e-6)
    late = scores(found, np.rint(np.exp([3.0, 1.0]) * 1e6).astype(np.int64))
    assert late.covered == 0.5
    assert late.crps_log == pytest.approx((2 - 0.5) / 2, abs=1e-6)


def test_the_score_is_best_on_average_for_the_distribution_that_is_true() -> None:
    """Draws with the announced error are scored for announcements with smaller, equal and larger errors."""
    rng = np.random.default_rng(2)
    realised = np.rint(1e9 * np.exp(0.5 * rng.standard_normal(5000))).astype(np.int64)
    nodes, weights = error_points(9)
    found = {}
    for error in (0.1, 0.5, 2.0):
        points = np.rint(1e9 * np.exp(error * nodes)).astype(np.int64)
        same = Durations(9 * np.arange(5001), np.tile(points, 5000), np.tile(weights, 5000))
        found[error] = scores(same, realised).crps_log
    assert found[0.5] < min(found[0.1], found[2.0])


@pytest.mark.parametrize("form", ["deadline", "step", "linear", "sigmoid"])
def test_worked_value_of_a_job(jobs: Jobs, form: ValueKind) -> None:
    """2 units per GPU-hour, 4 GPUs, 1800 s without error: 4 units; due 600 + 3 x 1800 s after the birth."""
    drawn = {"form": form, "worth_per_gpu_hour": Constant(2.0), "slack": Constant(3.0)}
    value = LOGNORMAL.value.model_copy(update=drawn)
    outlook = LOGNORMAL.outlook.model_copy(update={"duration_error": 0.0, "arrival_jitter": 0.0})
    draws = replace(LOGNORMAL, lead_s=Constant(600.0), value=value, outlook=outlook)
    frame, _ = announce(jobs(1, num_gpus=[4.0], duration_s=[1800.0], submit_s=[1000.0]), draws, 0)
    assert frame[0, "birth_s"] == 400
    assert frame[0, "outlook"] == "600:1800:1"
    found = statements(frame).values[0]
    worth = found.at(np.array([0.0, 6000.0, 11_400.0, 11_400.1]))
    start, due, end = {
        "deadline": (4, 4, 0),
        "step": (4, 4, 2),
        "linear": (4, 4, 0),
        "sigmoid": (4 / (1 + math.exp(-4 * 6000 / 5400)), 2, 4 / (1 + math.exp(4))),
    }[form]
    assert worth.tolist() == pytest.approx([start, due, end, 0], abs=1e-4)


def test_a_job_without_gpus_is_worth_as_one_gpu(jobs: Jobs) -> None:
    frame, _ = announce(jobs(2, num_gpus=[0.0, 1.0], job_id=["a", "b"]), LOGNORMAL, 0)
    assert (np.array([v.worth[0] for v in statements(frame).values]) > 0).all()


def test_worths_outside_the_range_become_its_nearer_end() -> None:
    frame = synth("philly", 300, seed=1)[0]
    free, limited = (
        replace(LOGNORMAL, value=LOGNORMAL.value.model_copy(update={"worth_range": limits}))
        for limits in (None, (1.0, 20.0))
    )
    drawn, moved = (
        np.array([float(text.split()[1]) for text in announce(frame, draws, 1)[0]["value"]])
        for draws in (free, limited)
    )
    assert drawn.min() < 1
    assert drawn.max() > 20
    assert np.array_equal(moved, np.clip(drawn, 1.0, 20.0))


def test_the_same_seed_gives_the_same_bytes_and_the_provenance_has_the_scores(tmp_path: Path) -> None:
    write_workload(*synth("philly", 200, seed=2), tmp_path / "w.parquet")
    layers = [EnrichmentLayer(HISTORY)]
    for name in ("one", "two"):
        (report,) = fill_file(str(tmp_path / "w.parquet"), tmp_path / f"{name}.parquet", layers, 4)
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "two.parquet").read_bytes()
    fill_file(str(tmp_path / "w.parquet"), tmp_path / "other.parquet", layers, 5)
    assert (tmp_path / "one.parquet").read_bytes() != (tmp_path / "other.parquet").read_bytes()
    made = read_provenance(tmp_path / "one.parquet")
    assert isinstance(report, AnnouncementReport)
    assert made is not None
    assert made.options == {"profile": "announced_history", "profile_sha256": HISTORY.sha256}
    assert made.notes["scores"] == asdict(report.scores)
    assert json.loads(json.dumps(report.to_dict()))["by_history"] == report.by_history


def test_jobs_without_length_and_gangs_without_owner_are_announced(jobs: Jobs) -> None:
    frame, report = announce(jobs(3, duration_s=[0.0, 1e-6, 2.0**36]), HISTORY, 0)
    check_frame(frame, "announced")
    assert report.by_history == 0


def test_statements_that_are_there_are_not_overwritten(jobs: Jobs) -> None:
    with pytest.raises(InvalidWorkloadError, match="already says value, reported_gpus; drawn and other"):
        announce(jobs(1, value=["deadline 1 1"], reported_gpus=[1.0]), LOGNORMAL, 0)
    with pytest.raises(InvalidWorkloadError, match="without jobs cannot be announced"):
        announce(jobs(1).clear(), LOGNORMAL, 0)
