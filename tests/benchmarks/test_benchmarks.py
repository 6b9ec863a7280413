"""The benchmarks themselves, small: they find what they say, and the runner reports whatever comes."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks import (
    a_online,
    conversion,
    environment,
    growth,
    harmony,
    learning,
    loop,
    optimus,
    overhead,
    pd_ors,
    posted_price,
    replay,
    scale,
    shares,
    startup,
    week,
)
from benchmarks.children import python
from benchmarks.measurement import Findings, SkippedError, Step
from benchmarks.own_policy import OneWorkerEach
from benchmarks.posted_price import Size
from benchmarks.processes import peak_mb
from benchmarks.runner import BENCHMARKS, Benchmark, choose, run_benchmarks
from ray_sim.engine.run import run_world
from ray_sim.model.errors import RunFailedError, UnknownNameError

SMALL_REPLAY = Benchmark("speed", 1, partial(replay.run, repetitions=1))


def _skipped(step: Step) -> Findings:
    raise SkippedError("needs a moon")


def _failed(step: Step) -> Findings:
    raise RunFailedError("the moon is gone")


@pytest.fixture
def small_week(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The synthetic week of the speed benchmarks, with a tenth of its jobs."""
    monkeypatch.setenv("RAY_SIM_SHARED", str(tmp_path))
    monkeypatch.setattr(week, "JOBS", 1_000)


@pytest.mark.slow
@pytest.mark.usefixtures("small_week")
def test_a_benchmark_that_fails_or_is_skipped_takes_no_other_with_it() -> None:
    lines: list[str] = []
    chosen = {
        "moon": Benchmark("", 1, _failed),
        "tides": Benchmark("", 1, _skipped),
        "replay": SMALL_REPLAY,
    }
    report = run_benchmarks(chosen, lines.append)
    assert report.benchmarks["moon"].failed == "the moon is gone"
    assert report.benchmarks["tides"].skipped == "needs a moon"
    assert {row.case for row in report.benchmarks["replay"].rows} == {"fifo", "sjf", "srtf", "las"}
    assert (report.ok, report.benchmarks["tides"].ok) == (False, True)
    assert [line for line in lines if "replay (3 of 3): las" in line]


@pytest.mark.slow
@pytest.mark.usefixtures("small_week")
def test_environments_are_measured_alone_and_together() -> None:
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    found = environment.run(repetitions=1, jobs=20, resets=2)
    keys = ["one.placements_per_cpu_s", "one.reset_ms", "vector-8.placements_per_cpu_s", "vector-8.times_one"]
    assert [row.key for row in found.rows] == keys


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.ray
def test_learning_is_measured_in_errors_completion_times_placements_and_actors() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ray_sim[learn]'")
    found = learning.run(lanes=4, sets=3, samples=(50, 100), steps=5, rounds=1, trials=1)
    cases = {row.case for row in found.rows}
    assert {"samples-50", "samples-100", "epoch-1", "dense-100", "balance", "pack"} < cases
    assert {"truth", "model", "model-and-network", "actors-1", "actors-2"} < cases
    assert all(row.value > 0 for row in found.rows)


def test_decisions_of_harmony_for_five_new_jobs_are_measured() -> None:
    rows = {row.metric: row for row in harmony.run(sets=4).rows}
    assert rows["decisions"].value > 0
    assert 5 * 2 <= rows["mean_tasks"].value <= 5 * 6  # a worker and a parameter server at least
    assert 0 < rows["decision_cpu_ms"].value <= rows["slowest_cpu_ms"].value


@pytest.mark.long
@pytest.mark.slow
def test_the_loop_is_measured_for_each_kind_of_policy() -> None:
    found = loop.run(repetitions=1, jobs=20, commands=["drf"])
    assert list(dict.fromkeys(row.case for row in found.rows)) == [
        *("idle", "own", "priority", "elastic", "sites"),
        *("interfering-6", "interfering-full-100", "week-drf"),
    ]
    assert all(row.value > 0 for row in found.rows)
    # Of 60 jobs on 100 servers 500 cannot run: the report says that the servers are not full.
    running = {row.case: row for row in found.rows if row.metric == "median_running_jobs"}
    full = running["interfering-full-100"]
    assert (full.budget, full.result) == (500, "FAILED")
    assert running["interfering-6"].budget is None


@pytest.mark.slow
def test_the_crowded_servers_have_500_running_jobs_most_of_the_time() -> None:
    # 100 servers of 20 cores: five jobs each, whose worker and parameter server take two cores apiece.
    world = loop.crowded_world(loop.ELASTIC_JOBS, loop.CROWDS[1])
    running = run_world(world, OneWorkerEach()).timeline["running"]
    assert running.max() == running.median() == 100 * 20 // 4


@pytest.mark.long
@pytest.mark.slow
def test_posted_prices_are_measured_as_commands_and_in_what_they_depend_on() -> None:
    found = posted_price.run(size=Size(jobs=200, nodes=100), commands=["pointwise-0.02"])
    growth_cases = ["base", "jobs-x10", "nodes-x10", "delay-x2", "support-x2"]
    plans = ["plan-100x15", "plan-1600x15", "plan-1600x240"]
    assert [row.case for row in found.rows] == ["pointwise-0.02", *growth_cases, *plans]


def test_benchmarks_run_in_their_own_order_and_an_unknown_one_gets_a_suggestion() -> None:
    assert list(choose(["growth", "replay", "growth"])) == ["replay", "growth"]
    assert choose([]) == BENCHMARKS
    with pytest.raises(UnknownNameError, match="Did you mean 'replay'"):
        choose(["reply"])


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("small_week")
def test_a_synthetic_week_stands_in_for_the_reference_and_says_so() -> None:
    assert "synthetic week" in startup.run(repetitions=1).input


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("small_week")
def test_the_phases_of_a_run_are_told_apart_from_the_start_of_its_process() -> None:
    rows = {row.case: row.value for row in startup.run_phases(repetitions=1).rows}
    assert list(rows)[:2] == ["python", "imports"]
    assert {"read", "realise", "load", "loop", "frames", "certificate", "encode", "write"} < set(rows)


@pytest.mark.long
@pytest.mark.slow
def test_growth_tells_the_slope_of_memory() -> None:
    rows = {row.key: row.value for row in growth.run(sizes=(1000, 10_000), policies=["fifo"]).rows}
    more_mb = rows["fifo-10000.peak_mb"] - rows["fifo-1000.peak_mb"]
    assert rows["fifo.bytes_per_job"] == pytest.approx(more_mb * 1e6 / 9000)


def test_a_round_of_sharing_places_what_fits() -> None:
    """Each of 4 jobs asks for 12 or 13 bundles of two tasks; a server of 8 GPUs holds few of them."""
    rows = {row.key: row.value for row in shares.run(sizes=(1, 40), jobs=4, repetitions=1).rows}
    for policy in shares.POLICIES:
        assert rows[f"{policy}-40.tasks"] == 2 * (12 + 13 + 12 + 13)
        assert 0 < rows[f"{policy}-1.tasks"] < 100


@pytest.mark.long
@pytest.mark.slow
def test_conversion_has_budgets_of_time_and_memory_for_every_form() -> None:
    rows = {row.key: row for row in conversion.run(sizes=(100, 1000), repetitions=1).rows}
    shares = {"csv": 1000, "csv-shuffled": 1000, "philly-csv": 1000, "philly": 100, "google-2011": 1000}
    for form, large in (shares | {"google-2019": 300}).items():
        assert rows[f"{form}.million_rows_wall_s"].budget == conversion.WALL_BUDGET_S
        assert rows[f"{form}-{large}.peak_mb"].budget == conversion.PEAK_BUDGET_MB
        assert rows[f"{form}.speed_of_bare_scan"].budget is None


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow
def test_the_cpu_time_of_a_sweep_is_that_of_its_driver_its_workers_and_ray() -> None:
    rows = {row.key: row.value for row in overhead.run(runs=4, run_cpu_s=0.05).rows}
    parts_ms = 4 * (rows["driver.cpu_ms_per_run"] + rows["worker.cpu_ms_per_run"])
    ray_ms = rows["ray-services.cores"] * rows["sweep.wall_s"] * 1000
    whole_ms = rows["sweep.times_simulation"] * 4 * rows["alone.cpu_ms_per_run"]
    assert parts_ms + ray_ms == pytest.approx(whole_ms)
    assert 0 < rows["sweep.cores_busy"] <= 1


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow
def test_a_sweep_of_short_runs_loses_none() -> None:
    rows = {row.key: row.value for row in scale.run(sizes=[40]).rows}
    assert (rows["40.lost_results"], rows["40.lost_in_mlflow"]) == (0, 0)
    assert rows["40.driver_peak_mb"] > 100


def test_the_peak_of_a_child_is_its_own_and_not_its_parents() -> None:
    # 300 MB in the parent, written to; a child that only starts takes less than 100 MB.
    programme = (
        "held = bytearray(b'x') * 300_000_000\n"
        "from benchmarks.children import python\n"
        "from benchmarks.processes import peak_mb\n"
        "told = python('-c', 'from benchmarks.processes import peak_mb; print(peak_mb())')[1]\n"
        "print(peak_mb(), told)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", programme],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    parent, child = map(float, ended.stdout.split())
    assert parent > 300
    assert child < 100
    assert peak_mb() > 10


def test_a_child_that_fails_says_what_it_said() -> None:
    with pytest.raises(RunFailedError, match="exit code 3: out of tune"):
        python("-c", "import sys; sys.stderr.write('out of tune'); sys.exit(3)")


@pytest.mark.slow
def test_rounds_of_optimus_fill_the_servers() -> None:
    """Ten cores a server, at least two for a pair: on 40 servers between 1 and 10 tasks each."""
    rows = {row.key: row.value for row in optimus.run(servers=(8, 40), repetitions=1).rows}
    assert 40 <= rows["40.tasks"] <= 400
    assert {"40.first_round_cpu_s", "40.next_round_cpu_s", "40.refit_cpu_s"} < set(rows)


@pytest.mark.slow
def test_a_dispatch_is_measured_at_every_size_and_a_week_in_full() -> None:
    rows = {row.key: row.value for row in a_online.run(sizes=((20, 5),), jobs=40, repetitions=1).rows}
    assert list(rows) == ["20-workers-5-queued.dispatch_cpu_s", "week.cpu_s", "week.chunks"]
    assert rows["week.chunks"] >= 40


def test_plans_of_pd_ors_agree_with_linear_programmes() -> None:
    size = pd_ors.Size(servers=10, slots=40, quanta=40, jobs=12)
    findings = pd_ors.run(size=size, large=size, programmes=10, growth={"servers": (2, 4)})
    rows = {row.key: row.value for row in findings.rows}
    assert rows["jobs.value_difference"] <= pd_ors.AGREEMENT
    assert 0 < rows["jobs.admitted"] == rows["large.admitted"]
    assert {"servers-2.mean_cpu_s", "servers-4.mean_cpu_s"} < set(rows)
