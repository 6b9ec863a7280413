"""Intervals over seeds stay within what a quantity can be, and need enough seeds."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

import ray_sim as rs
from ray_sim.cli import main
from ray_sim.experiments.tracking.database import migrate, new_database, schema_revision
from ray_sim.experiments.tracking.log import log_stores
from ray_sim.model.distribution import Distribution
from ray_sim.model.result import RunResult
from tests.command_line import answer
from tests.results_by_hand import three_jobs
from tests.stored_sweeps import store_results
from tests.sweeps import logged_runs

TEN = (np.arange(10) + 0.5) / 10
"""Levels of ten evenly spread quantiles."""

SKEWED: dict[str, list[float]] = {
    "log-normal": stats.lognorm.ppf(TEN, 2.5, scale=100).tolist(),
    "one seed that dwarfs nine": [12.0, 15, 20, 11, 14, 13, 12, 9, 10, 90_000],
    "mostly zeros": [0.0, 0, 0, 0, 0, 0, 0, 0, 3, 5000],
}
STEADY = [1000.0 + seed for seed in range(10)]


def _run(**parts: Any) -> RunResult:
    """Three jobs of which the summary has other parts; a number is a distribution of that mean."""
    given: dict[str, Any] = {
        name: Distribution(part, part, part, part)
        if isinstance(part, float) and name.endswith("_s")
        else part
        for name, part in parts.items()
    }
    result = three_jobs()
    return replace(result, summary=replace(result.summary, **given))


def _jct(values: Sequence[float], name: str = "jct_s") -> list[RunResult]:
    """Runs with these mean completion times, or other times."""
    return [_run(**{name: float(value)}) for value in values]


def _compared(policy: Sequence[RunResult], baseline: Sequence[RunResult], metric: str) -> dict[str, Any]:
    """Comparison of a policy with a baseline."""
    report = rs.compare({"a": list(policy), "b": list(baseline)}, metric=metric, baseline="b")
    return _only_policy(report.to_dict())


def _only_policy(told: Any) -> dict[str, Any]:
    """The one policy beside the baseline in the JSON of a comparison."""
    [compared] = told["groups"][0]["comparison"]["policies"]
    assert isinstance(compared, dict)
    return compared


def _drawn_interval(results: Sequence[RunResult], metric: str) -> tuple[float, float, float] | None:
    """Low end, mean and high end of the bar that a picture of means has."""
    axes = rs.plots.means({"a": list(results)}, Figure().add_subplot(), metric=metric)
    [bar] = axes.containers
    mean = float(bar[0].get_ydata()[0])
    segments = [segment for lines in bar[2] for segment in lines.get_segments() if len(segment)]
    ends = [float(y) for segment in segments for _, y in segment if math.isfinite(y)]
    return (min(ends), mean, max(ends)) if ends else None


PICTURES: list[tuple[str, list[RunResult], tuple[float, float]]] = [
    *(("queue_s.mean", _jct(values, "queue_s"), (0, math.inf)) for values in SKEWED.values()),
    *(
        ("utilisation.gpu", [_run(utilisation={"gpu": each}) for each in values], (0, 1))
        for values in ([1.0, 1, 0.99, 1, 0.2, 1, 1, 0.98, 1, 1], [0.01, 0, 0, 0, 0.9, 0, 0.02, 0, 0, 0])
    ),
    ("jain_index", [_run(jain_index=each) for each in (1.0, 1, 1, 1, 0.3, 1, 1, 1, 0.97, 1)], (0, 1)),
    # -10 to -1 by ones: mean -5.5 and standard error 3.03 / 3.16; 0 is far outside, and nothing is cut there.
    (
        "policy_figures.gain",
        [_run(policy_figures={"gain": float(value)}) for value in range(-10, 0)],
        (-math.inf, -1e-9),
    ),
]
"""Metric, runs, and the range of the metric."""


@pytest.mark.parametrize(("metric", "runs", "values"), PICTURES)
def test_the_interval_of_a_mean_in_a_picture_is_within_the_range_of_its_metric(
    metric: str, runs: list[RunResult], values: tuple[float, float]
) -> None:
    found = _drawn_interval(runs, metric)
    assert found is not None
    low, mean, high = found
    if metric != "queue_s.mean":  # whose unit is one that suits
        assert mean == pytest.approx(np.mean([run.summary.flat()[metric] for run in runs]))
    assert values[0] <= low <= mean < high <= values[1]
    assert high < math.inf


@pytest.mark.parametrize("shape", SKEWED)
def test_a_completion_time_is_at_most_100_percent_shorter(shape: str) -> None:
    found = _compared(_jct(SKEWED[shape]), _jct(STEADY), "jct_s.mean")
    values = SKEWED[shape]
    # The mean stays the arithmetic mean, and the percentage that of the means.
    assert found["mean"] == pytest.approx(np.mean(values))
    assert found["relative_percent"] == pytest.approx(100 * (np.mean(values) / np.mean(STEADY) - 1))
    relative = found["relative_interval"]
    assert relative is not None
    assert -100 <= relative["low"] <= found["relative_percent"] <= relative["high"] < math.inf
    assert found["interval"]["low"] <= found["difference"] <= found["interval"]["high"]


def test_a_difference_of_times_may_be_negative() -> None:
    # A policy that is 100 s, or 10 %, faster by about 1 s in each of ten seeds.
    noise = [0.0, 1.5, -1.0, 0.5, -0.5, 1.0, -1.5, 0.2, -0.2, 0.7]
    faster = [value - 100 + each for value, each in zip(STEADY, noise, strict=True)]
    found = _compared(_jct(faster), _jct(STEADY), "jct_s.mean")
    assert -103 < found["interval"]["low"] < -100 < found["interval"]["high"] < -97
    assert -11 < found["relative_interval"]["low"] < found["relative_interval"]["high"] < -9
    assert found["verdict"] == "better"


@pytest.fixture
def skewed_sweep(tmp_path: Path) -> Path:
    """Ten seeds: one run of srtf dwarfs its nine others, las is steady and slower than those."""
    srtf = [three_jobs(last) for last in SKEWED["one seed that dwarfs nine"]]
    las = [three_jobs(180_000.0 + seed) for seed in range(10)]
    store_results(tmp_path / "sweep", "study", {"srtf": srtf, "las": las})
    return tmp_path / "sweep"


def test_info_has_a_least_mean_within_a_range_of_times(
    skewed_sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(capsys, "info", str(skewed_sweep))
    [best] = told["best"]
    # Means of JCT are (10 + last) / 2, so that of srtf is (100 + 90,116) / 20.
    assert (best["policy"], best["mean_jct_s"]) == ("srtf", pytest.approx(4510.8))
    assert 0 <= best["interval"]["low"] < 4510.8 < best["interval"]["high"]
    assert main(["info", str(skewed_sweep)]) == 0
    assert "(-" not in capsys.readouterr().out


def test_a_report_has_no_range_of_times_that_begins_below_0(skewed_sweep: Path, tmp_path: Path) -> None:
    written = rs.report(skewed_sweep, tmp_path / "page.html")
    page = html.unescape((tmp_path / "page.html").read_text())
    cells = [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", page, re.DOTALL)]
    # The range of a mean stands alone in its cell, that of a difference is in brackets after it.
    assert [cell for cell in cells if re.match(r"-\d[^(]* to ", cell)] == []
    assert "(-" not in written.findings["week, edge"].partition(".")[0]
    percent = [float(low.replace(",", "")) for low in re.findall(r"% \(([-+][\d,.]+) to", page)]
    assert all(low >= -100 for low in percent)


def test_ratios_by_size_of_job_are_not_negative(skewed_sweep: Path) -> None:
    report: Any = rs.compare(skewed_sweep, baseline="las", by=["size"]).to_dict()
    [one_gpu] = report["groups"][0]["breakdowns"][0]["classes"]
    # Two jobs a seed: means of (10 + last) / 2, 4,510.8 s and (10 + 180,004.5) / 2 s.
    assert one_gpu["ratio"] == pytest.approx(4510.8 / 90_007.25)
    assert one_gpu["interval"]["low"] >= 0


@pytest.mark.slow
def test_mlflow_has_intervals_within_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    srtf = [three_jobs(last) for last in SKEWED["one seed that dwarfs nine"]]
    store_results(tmp_path / "sweep", "study", {"srtf": srtf})
    new_database(tmp_path / "mlflow.db", schema_revision(), migrate)
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    log_stores([tmp_path / "sweep"])
    from mlflow import MlflowClient  # takes seconds

    client = MlflowClient(tracking_uri=uri)
    lows = [
        value
        for run in logged_runs(client, "study")
        for name, value in run.data.metrics.items()
        if name.endswith(".ci95_low")
    ]
    assert lows
    assert min(lows) >= 0


def test_two_seeds_are_said_to_be_too_few_for_an_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {"fifo": [three_jobs(40.0), three_jobs(60.0)], "las": [three_jobs(90.0), three_jobs(70.0)]}
    sweep = str(tmp_path / "sweep")
    store_results(tmp_path / "sweep", "study", runs)
    told = answer(capsys, "info", sweep)
    [best] = told["best"]
    assert (best["policy"], best["mean_jct_s"], best["interval"]) == ("fifo", 30.0, None)
    assert main(["info", sweep]) == 0
    assert "too few seeds" in capsys.readouterr().out
    las = _only_policy(answer(capsys, "compare", sweep))
    assert (las["difference"], las["interval"], las["relative_interval"]) == (15.0, None, None)
    assert main(["compare", sweep]) == 0
    printed = capsys.readouterr().out
    assert "too few seeds" in printed
    assert "[" not in printed.replace("[too few seeds]", "")
    written = rs.report(sweep, tmp_path / "page.html")
    page = html.unescape((tmp_path / "page.html").read_text())
    assert "too few seeds" in page
    assert " to " not in written.findings["week, edge"]


def test_pairs_count_not_runs(tmp_path: Path) -> None:
    # Ten runs each, of which the seeds 8 and 9 are common.
    fifo: list[RunResult | None] = [three_jobs(40.0 + 3 * seed) for seed in range(10)]
    las = [None] * 8 + [three_jobs(50.0 + seed**2) for seed in range(8, 18)]
    store_results(tmp_path / "sweep", "study", {"fifo": fifo, "las": las})
    found = _only_policy(rs.compare(tmp_path / "sweep", baseline="fifo").to_dict())
    # Means of JCT, seeds 8 and 9: fifo 37 and 38.5, las 62 and 70.5.
    assert (found["pairs"], found["difference"]) == (2, pytest.approx(28.5))
    assert (found["interval"], found["relative_interval"]) == (None, None)
