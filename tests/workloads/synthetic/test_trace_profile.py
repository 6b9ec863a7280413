"""Jobs like Google's: the draw against the profile, and the profile against the trace where it is present."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import kstest

from ray_sim.model.errors import InvalidInputError
from workloads.checks import check_frame
from workloads.convert import convert
from workloads.store import read_frame
from workloads.synthetic.arrivals import ArrivalKind
from workloads.synthetic.synth import synth
from workloads.synthetic.trace_profile import GOOGLE
from workloads.trace_format import Censored, ConvertOptions, RowKind

ROOT = Path(__file__).parents[3]
JOBS = 200_000


@pytest.fixture(scope="module")
def google() -> pl.DataFrame:
    return synth("google", JOBS, seed=5)[0]


def test_the_frame_is_a_sound_workload_without_virtual_clusters(google: pl.DataFrame) -> None:
    check_frame(google, "synth")
    assert google.height == JOBS
    assert google["vc"].null_count() == JOBS
    for name in ("submit_s", "duration_s"):
        assert (google[name] % 1 == 0).all()
    assert google["submit_s"].is_sorted()


def test_sizes_have_the_published_shares(google: pl.DataFrame) -> None:
    drawn = Counter(google["num_gpus"].to_list())
    assert set(drawn) == set(GOOGLE.sizes)
    for size, jobs in GOOGLE.sizes.items():
        p = jobs / 858
        assert abs(drawn[size] - p * JOBS) <= 5 * np.sqrt(p * (1 - p) * JOBS)


def test_run_times_of_small_and_large_jobs_have_the_published_quantiles(google: pl.DataFrame) -> None:
    # A binomial count of n draws is within five of its standard deviations.
    for of_size in (pl.col("num_gpus") == 1, pl.col("num_gpus") > 1):
        drawn_s = google.filter(of_size)["duration_s"]
        n = drawn_s.len()
        quantiles_s = GOOGLE.durations[1]
        for q, value in zip(GOOGLE.probabilities, quantiles_s, strict=True):
            below, at_most = (drawn_s < round(value)).sum(), (drawn_s <= round(value)).sum()
            slack = 5 * np.sqrt(q * (1 - q) * n)
            assert below - slack <= q * n <= at_most + slack
        assert drawn_s.is_between(quantiles_s[0], quantiles_s[-1]).all()


def test_jobs_come_at_a_constant_rate(google: pl.DataFrame) -> None:
    # 858 of 914 jobs, one in 3.75 s: 0.250328 a second. Given their number, times of a Poisson process are
    # uniform; floors to seconds move it by 1 in 800,000. Kolmogorov's 1 % point is 1.63 / sqrt(n).
    submit_s = google["submit_s"].to_numpy()
    assert abs(JOBS - 0.250328 * submit_s[-1]) < 5 * np.sqrt(JOBS)
    assert kstest(submit_s, "uniform", args=(0, submit_s[-1] + 1)).statistic < 1.63 / np.sqrt(JOBS)


def test_its_own_arrivals_are_poisson_and_it_knows_no_hours() -> None:
    own, made = synth("google", 300, seed=2)
    assert own.equals(synth("google", 300, seed=2, arrivals=ArrivalKind.POISSON)[0])
    assert made.options == {"profile": "google", "jobs": 300, "load_scale": 1.0}
    assert made.notes["epoch_utc"] == "2011-05-02T04:00:00+00:00"
    with pytest.raises(InvalidInputError, match=r"arrivals: diurnal needs a workload .*; take poisson"):
        synth("google", 300, seed=2, arrivals=ArrivalKind.DIURNAL)


@pytest.fixture
def figures(real: Callable[[str], Path], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Figures of the script, on a conversion of files of the trace."""

    def measure(of: str, *names: str) -> dict[str, Any]:
        sources = [real(f"data/google2011/{name}") for name in names]
        options = ConvertOptions(rows=RowKind.JOB, censored=Censored.CUT)
        report = convert("google-2011", sources, tmp_path / "w.parquet", options=options)
        script = runpy.run_path(str(ROOT / "docs/traces/google_2011_figures.py"))
        found: dict[str, Any] = script[of](read_frame(report.out))
        return found

    return measure


@pytest.mark.slow
def test_sizes_and_the_share_of_the_rate_are_those_of_part_0(figures: Callable[..., dict[str, Any]]) -> None:
    found = figures("of_sizes", "job_events", "task_events/part-00000-of-00500.csv.gz")
    assert found["tasks"] == GOOGLE.sizes
    assert (found["jobs"], found["kept"]) == (914, 858)
    assert GOOGLE.arrivals_per_s == found["kept"] / found["jobs"] / 3.75
    left_out = {name: round(share, 3) for name, share in found["left_out"].items()}
    assert left_out == {"jobs": 0.061, "tasks": 0.938, "task_seconds": 0.954}
    assert round(found["task_seconds_over_independent"], 2) == 1.38


@pytest.mark.slow
def test_run_times_of_the_month_are_those_of_its_first_day(figures: Callable[..., dict[str, Any]]) -> None:
    # The quantiles are of all 500 parts. On the first 20, of a day, jobs that run for days have no end yet.
    found = figures("of_runs", "job_events")
    assert found["jobs_ended"] == 22_940
    assert max(abs(share - q) for q, share in found["share_at_most_profile"].items()) < 0.016
    # Days of the trace have 15,784 to 44,437 jobs, a job in 3.75 s on average.
    assert 15_784 < 86_400 / found["mean_gap_s"] < 86_400 / 3.75
