"""Models fitted to a workload: they give back what is known of it, and say how well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.errors import InvalidInputError
from tests.proofs import instances
from workloads.checks import check_frame
from workloads.convert import convert
from workloads.provenance import Provenance
from workloads.schema import with_all_columns
from workloads.store import read_frame, read_provenance, write_workload
from workloads.synthetic.arrivals import ArrivalKind
from workloads.synthetic.job_model import (
    KIND_COLUMNS,
    MIN_CLASS_JOBS,
    chance_distance,
    fit,
    ks_distances,
    left_out,
)
from workloads.synthetic.synth import Drawn, DrawRequest, Fit, draw, synth, synth_file

Jobs = Callable[..., pl.DataFrame]
Real = Callable[[str], Path]

MADE = Provenance(converter="hand", converter_version="1", counts={"read": 0, "kept": 0})


def like(frame: pl.DataFrame, jobs: int, seed: int = 0, **request: Any) -> pl.DataFrame:
    """Jobs like those of a frame."""
    return draw(fit(frame), DrawRequest(jobs, **request), seed)


def gpu_hours(frame: pl.DataFrame) -> float:
    return float((frame["num_gpus"] * frame["duration_s"]).sum()) / 3600


def test_known_statistics_are_recovered() -> None:
    # Source and sample are draws of the same distributions, so all distances are those of chance; that of
    # the sizes and times, of which there are few different ones, is smaller still.
    source, _ = synth("philly", 60_000, seed=1)
    sample = like(source, 50_000, seed=2)
    check_frame(sample, "like")
    distances = ks_distances(source, sample)
    assert set(distances) == {"num_gpus", "duration_s", "inter_arrival_s"}
    assert max(distances.values()) < chance_distance(60_000, 50_000)
    assert (sample["submit_s"] % 1 == 0).all()


def test_run_times_keep_their_dependence_on_size() -> None:
    # Log-normal run times with medians of 100 s for one GPU and 10,000 s for eight.
    n, rng = 20_000, np.random.default_rng(7)
    gpus = rng.choice([1.0, 8.0], n)
    duration_s = np.exp(np.log(np.where(gpus == 1, 100.0, 10_000.0)) + rng.standard_normal(n))
    source = with_all_columns(
        pl.DataFrame(
            {
                "job_id": pl.int_range(n, eager=True).cast(pl.String),
                "trace_order": pl.int_range(n, dtype=pl.Int64, eager=True),
                "submit_s": np.cumsum(rng.exponential(10.0, n)),
                "num_gpus": gpus,
                "duration_s": duration_s,
            }
        )
    )
    sample = like(source, n, seed=1)
    for size, median_s in ((1.0, 100.0), (8.0, 10_000.0)):
        log_s = np.log(sample.filter(pl.col("num_gpus") == size)["duration_s"].to_numpy())
        # A median of m log-normal values has a standard error of sqrt(pi / 2 m); source and sample both err.
        error = 5 * np.sqrt(np.pi / n) * np.sqrt(2)
        assert np.median(log_s) == pytest.approx(np.log(median_s), abs=error)
        assert log_s.std() == pytest.approx(1.0, abs=0.05)
    assert gpu_hours(sample) == pytest.approx(gpu_hours(source), rel=0.05)
    # Run times are drawn between those of the source and are not copies of them.
    copies = sample["duration_s"].is_in(source["duration_s"].implode()).sum()
    assert copies < 0.01 * n


def test_sizes_are_drawn_whole(jobs: Jobs) -> None:
    source = jobs(
        4,
        num_gpus=[1.0, 2.0, 2.0, 0.0],
        vc=["a", "b", "b", None],
        num_tasks=[None, 2, 2, 3],
        cpu_per_task=[4.0, None, None, 0.5],
    )
    sample = like(source, 2_000)
    kinds = set(source.select(KIND_COLUMNS).rows())
    assert set(sample.select(KIND_COLUMNS).rows()) == kinds
    # Two jobs of four are of the kind (2 GPUs, vc b).
    assert abs((sample["vc"] == "b").sum() - 1_000) < 5 * np.sqrt(2_000 / 4)


def test_a_job_takes_user_and_vc_from_the_job_of_its_size(jobs: Jobs) -> None:
    of_a_user = {"num_gpus": [1.0, 2.0, 2.0, 8.0], "vc": ["a", "b", "b", None], "user": ["u", "v", "u", None]}
    sample = like(jobs(4, **of_a_user), 2_000)
    assert set(sample.select("num_gpus", "vc", "user").rows()) == set(zip(*of_a_user.values(), strict=True))
    # One job of four is of user v.
    assert abs((sample["user"] == "v").sum() - 500) < 5 * np.sqrt(2_000 * 1 / 4 * 3 / 4)


def test_users_of_the_source_change_no_other_column(jobs: Jobs) -> None:
    named = {"num_gpus": [1.0, 2.0, 2.0, 4.0] * 5, "vc": ["b", "a", None, "a", "b"] * 4}
    nameless = like(jobs(20, **named), 2_000)
    sample = like(jobs(20, **named, user=[None, "v", "u"] * 6 + ["w", "u"]), 2_000)
    assert nameless["user"].null_count() == 2_000
    assert sample["user"].null_count() < 2_000
    assert sample.drop("user").equals(nameless.drop("user"))


def test_rare_sizes_share_the_run_times_of_the_next_smaller_class(jobs: Jobs) -> None:
    n = MIN_CLASS_JOBS
    gpus = [0.5] + [1.0] * n + [2.0] + [4.0] * n
    duration_s = [5.0] + [10.0] * n + [20.0] + [40.0] * n
    sample = like(jobs(2 * n + 2, num_gpus=gpus, duration_s=duration_s), 20_000)
    duration = pl.col("duration_s")
    by_size = sample.group_by("num_gpus").agg(low=duration.min(), high=duration.max())
    # 0.5, 1 and 2 GPUs are one class, of 5 s to 20 s; those of 4 GPUs all take 40 s.
    found = {size: (low, high) for size, low, high in by_size.iter_rows()}
    assert found[4.0] == (40.0, 40.0)
    assert all(5.0 <= found[size][0] <= found[size][1] <= 20.0 for size in (0.5, 1.0, 2.0))


TIMES = st.floats(0, 1e6) | st.integers(0, 50).map(float)


@settings(max_examples=instances(50), deadline=None)
@given(
    rows=st.lists(st.tuples(TIMES, TIMES, st.sampled_from([0.0, 0.5, 1.0, 8.0])), min_size=2, max_size=30),
    jobs=st.integers(1, 40),
    seed=st.integers(0, 5),
)
def test_jobs_like_any_workload_are_a_workload_within_its_range(
    rows: list[tuple[float, float, float]], jobs: int, seed: int
) -> None:
    submit_s, duration_s, gpus = (list(column) for column in zip(*rows, strict=True))
    source = with_all_columns(
        pl.DataFrame(
            {
                "job_id": [str(i) for i in range(len(rows))],
                "trace_order": list(range(len(rows))),
                "submit_s": submit_s,
                "num_gpus": gpus,
                "duration_s": duration_s,
            }
        )
    )
    if max(submit_s) - min(submit_s) < 1e-3:
        return  # a rate of a million jobs a second, or none
    sample = like(source, jobs, seed)
    check_frame(sample, "like")
    assert sample["submit_s"].is_sorted()
    assert sample["duration_s"].is_between(min(duration_s) - 1e-6, max(duration_s) + 1e-6).all()
    assert set(sample["num_gpus"]) <= set(gpus)
    assert sample.equals(like(source, jobs, seed))
    assert sample.equals(like(source, jobs + 7, seed).head(jobs))


def test_run_times_of_no_length_stay_so(jobs: Jobs) -> None:
    sample = like(jobs(100, duration_s=[0.0] * 50 + [0.25] * 50), 2_000)
    # Half-way between 0 and 0.25 s lies next to nothing: one of 99 gaps.
    zero = (sample["duration_s"] == 0).mean()
    assert zero == pytest.approx(0.5, abs=0.06)
    assert sample["duration_s"].max() == 0.25


def test_distances_are_those_of_the_distribution_functions(jobs: Jobs) -> None:
    source = jobs(4, num_gpus=[1.0, 1.0, 2.0, 2.0], duration_s=[1.0, 2.0, 3.0, 4.0])
    sample = jobs(4, num_gpus=[1.0, 2.0, 2.0, 2.0], duration_s=[5.0] * 4, submit_s=[0.0, 30.0, 60.0, 90.0])
    # One GPU: 2/4 against 1/4. All run times lie below 5 s. Gaps of 30 s twice as fast are gaps of 60 s.
    assert ks_distances(source, sample) == {"num_gpus": 0.25, "duration_s": 1.0, "inter_arrival_s": 1.0}
    assert ks_distances(source, sample, load_scale=2.0)["inter_arrival_s"] == 0.0


def test_the_distance_of_chance_is_exceeded_by_one_pair_of_samples_in_twenty() -> None:
    # sqrt(ln(2 / 0.05) / 2) is 1.358; two samples of 800 have 1.358 x sqrt(2 / 800) = 0.0679.
    assert chance_distance(800, 800) == pytest.approx(0.0679, abs=1e-4)
    rng = np.random.default_rng(0)
    exceeded = 0
    for _ in range(400):
        one, other = np.sort(rng.random((2, 800)))
        at = np.concatenate([one, other])
        gap = np.searchsorted(one, at, side="right") - np.searchsorted(other, at, side="right")
        exceeded += abs(gap).max() / 800 > chance_distance(800, 800)
    assert exceeded < 400 * 0.05 + 5 * np.sqrt(400 * 0.05 * 0.95)


def test_columns_without_a_counterpart_are_told(jobs: Jobs) -> None:
    source = jobs(3, attempts=[1, None, None], chunks=[2, None, None], vc=["a", "a", "b"], user=["u"] * 3)
    assert left_out(source) == ["attempts", "chunks"]
    assert left_out(jobs(3)) == []


def test_a_file_is_fitted_drawn_and_told_in_the_provenance(jobs: Jobs, tmp_path: Path) -> None:
    write_workload(jobs(50, user=["u"] * 50, attempts=[1] * 50), MADE, tmp_path / "w.parquet")
    made = synth_file(tmp_path / "w.parquet", DrawRequest(30), seed=4)
    assert (made.provenance.options["like"], made.provenance.options["arrivals"]) == ("w.parquet", "poisson")
    assert isinstance(made.found, Fit)
    assert made.provenance.notes == {
        **{f"ks {name}": distance for name, distance in made.found.ks.items()},
        "left_out": ["attempts"],
    }
    assert made.found.ks["num_gpus"] == made.found.ks["duration_s"] == 0
    assert ("columns left out", "attempts") in made.rows()
    paths = [tmp_path / name for name in ("one.parquet", "two.parquet")]
    for path in paths:
        again = synth_file(str(tmp_path / "w.parquet"), DrawRequest(30), seed=4)
        write_workload(again.frame, again.provenance, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert read_provenance(paths[0]) == made.provenance


def test_what_cannot_be_fitted_is_named(jobs: Jobs, tmp_path: Path) -> None:
    write_workload(jobs(2, submit_s=[5.0, 5.0]), MADE, tmp_path / "w.parquet")
    with pytest.raises(InvalidInputError, match=r"w.parquet: every job \(of 2\) is submitted at one instant"):
        synth_file(tmp_path / "w.parquet", DrawRequest(30), seed=0)
    write_workload(jobs(2), MADE, tmp_path / "w.parquet")
    for kind in (ArrivalKind.DIURNAL, ArrivalKind.RESAMPLED):
        with pytest.raises(InvalidInputError, match=rf"w.parquet: arrivals: {kind} needs a workload"):
            synth_file(tmp_path / "w.parquet", DrawRequest(30, arrivals=kind), seed=0)


@pytest.mark.slow
def test_a_real_week_is_matched_in_size_and_run_time_and_by_days_in_its_bursts(
    real: Real, tmp_path: Path
) -> None:
    convert("csv", [real("reference/replay/philly_week_pool.csv")], tmp_path / "week.parquet")
    week = read_frame(tmp_path / "week.parquet")

    def made(kind: ArrivalKind | None) -> Drawn:
        return synth_file(tmp_path / "week.parquet", DrawRequest(week.height, arrivals=kind), seed=1)

    fits: dict[ArrivalKind | None, Fit] = {}
    for kind in (None, *ArrivalKind):
        found = made(kind).found
        assert isinstance(found, Fit)
        fits[kind] = found
        print(kind or "default", {name: round(distance, 4) for name, distance in found.ks.items()})  # noqa: T201
        assert found.ks["num_gpus"] < found.ks_by_chance
        assert found.ks["duration_s"] < found.ks_by_chance
    # Philly's jobs come in bursts of some at one second, which no rate by the hour has.
    bursts, rates = fits[ArrivalKind.RESAMPLED], fits[ArrivalKind.DIURNAL]
    assert bursts.ks["inter_arrival_s"] < 0.1 < 0.3 < rates.ks["inter_arrival_s"]
