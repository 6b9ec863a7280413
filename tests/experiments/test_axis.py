"""Comparison across an axis of stored sweeps, against plain Python over the files of their jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import pytest
import scipy.stats

from ray_sim.cli import main
from ray_sim.experiments.axis import sweep_scale
from ray_sim.experiments.compare import ComparisonReport, compare_results
from ray_sim.experiments.report import write_report
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.sweep_file import parse_sweep
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.reports.across import Across
from tests.command_line import answer
from tests.small_workloads import stored
from tests.sweeps import RESAMPLED, run_here
from tests.worlds import Job

SEEDS = 6
CLUSTERS = ["small.yaml", "small.yaml@gpu.count=4", "small.yaml@gpu.count=3"]


def swept(root: Path, **changes: object) -> ResultStore:
    content = {
        "name": root.name,
        "workloads": [RESAMPLED],
        "clusters": ["small.yaml"],
        "policies": ["fifo", "sjf"],
        "seeds": {"count": SEEDS},
        **changes,
    }
    return run_here(parse_sweep(content, "test", HashedInputs()), root)


@pytest.fixture(scope="module")
def three_clusters(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    """FIFO and SJF on two, four and three servers, over six draws of days."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk)
        return swept(tmp_path_factory.mktemp("axis") / "clusters", clusters=CLUSTERS)


def of_jobs(store: ResultStore, column: str) -> dict[tuple[str, str], list[float]]:
    """Mean of a column over the completed jobs by cluster and policy, a value for each seed in order."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for entry in store.read_plan()[1]:
        jobs = pl.read_parquet(store.run_directory(entry.content_hash) / "jobs.parquet").to_dicts()
        times = [job[column] for job in jobs if job["status"] == "completed"]
        assert entry.seed is not None
        found.setdefault((entry.cluster, entry.policy), {})[entry.seed] = math.fsum(times) / len(times)
    return {key: [values[seed] for seed in sorted(values)] for key, values in found.items()}


def half_width(values: Iterable[float]) -> float:
    """Half of Student's 95 % interval of a mean, by its definition."""
    sample = list(values)
    mean = math.fsum(sample) / len(sample)
    variance = math.fsum((each - mean) ** 2 for each in sample) / (len(sample) - 1)
    return float(scipy.stats.t.ppf(0.975, len(sample) - 1)) * math.sqrt(variance / len(sample))


@pytest.mark.slow
@pytest.mark.usefixtures("at_desk")
@pytest.mark.parametrize("column", ["queue_s", "jct_s"])
def test_paired_differences_and_ratios_are_those_of_the_files_of_the_jobs(
    column: str, three_clusters: ResultStore
) -> None:
    twin = of_jobs(three_clusters, column)
    report = compare_results([str(three_clusters.root)], f"{column}.mean", across="cluster")
    assert report.scale is not None
    assert (report.compared, report.scale.title) == ("clusters", "servers")
    assert [group.setting for group in report.groups] == ["fifo", "sjf"]
    assert report.scale.xs == {CLUSTERS[0]: 2, CLUSTERS[2]: 3, CLUSTERS[1]: 4}
    for group in report.groups:
        assert group.comparison.baseline == CLUSTERS[0]
        assert [each.policy for each in group.comparison.policies] == [CLUSTERS[2], CLUSTERS[1]]
        base = twin[CLUSTERS[0], group.setting]
        assert group.comparison.baseline_mean == pytest.approx(math.fsum(base) / SEEDS, rel=1e-9)
        for each in group.comparison.policies:
            values = twin[each.policy, group.setting]
            difference = [one - other for one, other in zip(values, base, strict=True)]
            mean, half = math.fsum(difference) / SEEDS, half_width(difference)
            assert each.pairs == SEEDS
            assert each.mean == pytest.approx(math.fsum(values) / SEEDS, rel=1e-9)
            assert each.difference == pytest.approx(mean, rel=1e-9)
            assert each.interval is not None
            assert each.interval.low == pytest.approx(mean - half, rel=1e-6)
            assert each.interval.high == pytest.approx(mean + half, rel=1e-6)
            assert each.relative_percent == pytest.approx(100 * (math.fsum(values) / math.fsum(base) - 1))
            # The ratio has bounds if the baseline's mean differs significantly from 0.
            bounded = math.fsum(base) / SEEDS > half_width(base)
            assert (each.relative_interval is not None) == bounded
            if each.relative_interval is None:
                continue
            for percent in (each.relative_interval.low, each.relative_interval.high):
                if percent > -100:  # Fieller: 0 is an end of the interval of values - r * base
                    r = 1 + percent / 100
                    rest = [one - r * other for one, other in zip(values, base, strict=True)]
                    assert abs(math.fsum(rest)) / SEEDS == pytest.approx(half_width(rest), rel=1e-6)


@pytest.mark.slow
@pytest.mark.usefixtures("at_desk")
def test_the_baseline_may_be_named_and_mistakes_are(three_clusters: ResultStore) -> None:
    root = str(three_clusters.root)
    named = compare_results([root], across="cluster", baseline=CLUSTERS[2])
    assert {group.comparison.baseline for group in named.groups} == {CLUSTERS[2]}
    with pytest.raises(UnknownNameError, match=r"unknown baseline '5'. Known: small"):
        compare_results([root], across="cluster", baseline="5")
    with pytest.raises(UnknownNameError, match=r"unknown axis 'clusters'. Did you mean 'cluster'"):
        compare_results([root], across="clusters")
    with pytest.raises(
        InvalidInputError, match="two settings on the same workload, cluster, policy and seed"
    ):
        compare_results([root], across="world")
    with pytest.raises(InvalidInputError, match="--by: not with --across workload"):
        compare_results([root], across="workload", by=["size"])


@pytest.mark.slow
@pytest.mark.usefixtures("at_desk")
def test_the_command_prints_and_the_report_draws_what_is_compared(
    three_clusters: ResultStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(three_clusters.root)
    told = answer(capsys, "compare", root, "--across", "cluster")
    assert told["scale"]["xs"] == {CLUSTERS[0]: 2, CLUSTERS[2]: 3, CLUSTERS[1]: 4}
    assert main(["compare", root, "--across", "cluster"]) == 0
    printed = capsys.readouterr().out
    assert "servers  seeds" in printed
    write_report(three_clusters.root, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Across cluster" in page
    assert "queue_s.mean, week/days" in page
    assert main(["compare", root, "--settings", "--across", "cluster"]) == 2
    assert "settings: are compared across world" in capsys.readouterr().err


@pytest.mark.usefixtures("at_desk")
def test_clusters_of_types_are_compared_as_their_pools_serve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Four jobs of 10 s that accept T4 at once: on one they end at 10, 20, 30, 40 s, on two at 10 and 20 s.
    stored(tmp_path / "typed.parquet", [Job(0, 1, 10)] * 4, {"gpu_types": ["T4"] * 4})
    (tmp_path / "typed.yaml").write_text(
        "name: typed\ngpu_types: {T4: {speed: 1}, V100: {speed: 1}}\nservers:\n"
        "  - {name: t4, count: 1, gpus: 1, gpu_type: T4}\n"
        "  - {name: v100, count: 8, gpus: 1, gpu_type: V100}\n"
    )
    one = str(tmp_path / "typed.yaml")
    workloads = [str(tmp_path / "typed.parquet")]
    store = swept(
        tmp_path / "types",
        workloads=workloads,
        clusters=[one, f"{one}@t4.count=2"],
        policies=["fifo"],
        seeds=[0],
    )
    told = answer(capsys, "compare", str(store.root), "--metric", "jct_s.mean", "--across", "cluster")
    (group,) = told["groups"]
    assert group["comparison"]["baseline_mean"] == 25
    assert [row["mean"] for row in group["comparison"]["policies"]] == [15]
    assert [each["largest"][-5:] for each in group["bounds"]] == ["on T4"] * 2


def xs_of(report: ComparisonReport) -> dict[str, object]:
    assert report.scale is not None
    return {"title": report.scale.title, **report.scale.xs}


@pytest.mark.slow
@pytest.mark.usefixtures("at_desk")
def test_every_axis_has_its_number(tmp_path: Path) -> None:
    loads = [{**RESAMPLED, "load_scale": 2.0}, {**RESAMPLED, "load_scale": 1.0}]
    store = swept(
        tmp_path / "axes",
        workloads=loads,
        policies=[{"name": "las", "params": {"knob": [9, 2]}}, "fifo"],
        world={"restart_cost_s": [0, 30]},
        seeds=[0],
    )
    root = [str(store.root)]
    across = {axis: compare_results(root, across=axis) for axis in ("workload", "world", "params")}
    assert xs_of(across["workload"]) == {"title": "workload.load_scale", "week/days": 1, "week/days/x2.0": 2}
    assert xs_of(across["world"]) == {
        "title": "world.restart_cost_s",
        "restart_cost_s=0": 0,
        "restart_cost_s=30": 30,
    }
    assert xs_of(across["params"]) == {
        "title": "knob",
        "knob=2": 2,
        "knob=9": 9,
    }
    assert across["params"].groups[0].comparison.baseline == "knob=9"  # the sweep's first
    assert {group.setting.rpartition(", ")[2] for group in across["params"].groups} == {"las"}
    assert len(across["workload"].groups) == 6  # three policies in two worlds


@pytest.mark.usefixtures("at_desk")
@pytest.mark.parametrize("more", [[], ["-w", "checkpoint_s=60"]], ids=["numbers", "names"])
def test_values_of_single_runs_are_in_the_order_of_their_numbers(tmp_path: Path, more: list[str]) -> None:
    costs = {"a": ["-w", "restart_cost_s=1800", *more], "b": [], "c": ["-w", "restart_cost_s=300", *more]}
    for policy in ("las", "srtf"):
        for name, given in costs.items():
            out = str(tmp_path / f"{name}-{policy}")
            inputs = ["--workload", "week.parquet", "--cluster", "small.yaml"]
            assert main(["run", *inputs, "--policy", policy, *given, "-o", out]) == 0
    runs = list(map(str, tmp_path.iterdir()))
    begin = "checkpoint_s=60, " if more else ""
    values = [f"{begin}restart_cost_s=300", f"{begin}restart_cost_s=1800"]
    groups = compare_results(runs, across="world").groups
    assert [group.setting for group in groups] == ["las", "srtf"]
    for group in groups:
        assert group.comparison.baseline == "defaults"
        assert [each.policy for each in group.comparison.policies] == values
    report = compare_results([str(tmp_path)])
    assert [group.setting for group in report.groups] == ["", *values]
    assert report.groups == compare_results(runs).groups


@pytest.mark.usefixtures("at_desk")
def test_a_cluster_has_its_price_and_no_number_once_its_file_has_changed(tmp_path: Path) -> None:
    def written(name: str, *entries: str) -> str:
        path = tmp_path / name
        path.write_text("\n".join(["name: c", "servers:", *entries]) + "\n")
        return str(path)

    one = written("one.yaml", "  - {name: a, count: 2, gpus: 4, price: 2.5}")
    two = written(
        "two.yaml", "  - {name: a, count: 1, gpus: 4, price: 2.5}", "  - {name: b, gpus: 8, price: 4}"
    )
    store = swept(tmp_path / "priced", clusters=[two, one], policies=["fifo"], seeds=[0])
    entries = store.read_plan()[1]
    scale = sweep_scale(Across.CLUSTER, store, entries)
    assert scale is not None
    # 2 x 2.5 = 5, and 2.5 + 4 = 6.5.
    assert (scale.title, dict(scale.xs), scale.first) == ("price", {one: 5.0, two: 6.5}, two)
    write_report(store.root, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"<dt>price of {two}</dt><dd>6.5</dd>" in page
    assert re.search(r"<dt>rows of the table of .*\.parquet</dt><dd>\d+ read; \d+ kept</dd>", page)
    written("one.yaml", "  - {name: a, count: 2, gpus: 4}")  # a price is no part of a run
    scale = sweep_scale(Across.CLUSTER, store, entries)
    assert scale is not None
    assert (scale.title, dict(scale.xs)) == ("GPUs", {one: 8.0, two: 12.0})
    written("one.yaml", "  - {name: a, count: 3, gpus: 4}")
    scale = sweep_scale(Across.CLUSTER, store, entries)
    assert scale is not None
    assert (scale.title, scale.numeric) == ("cluster", False)


@pytest.mark.usefixtures("at_desk")
def test_a_trace_without_draws_has_one_run_and_no_interval(tmp_path: Path) -> None:
    content = {"workloads": ["week.parquet"], "clusters": CLUSTERS[:2], "policies": ["fifo"]}
    store = swept(tmp_path / "trace", **content)
    (group,) = compare_results([str(store.root)], across="cluster").groups
    (more,) = group.comparison.policies
    assert (more.pairs, more.interval, more.relative_interval) == (1, None, None)
    assert "seed-free: no run here depends on a seed" in group.comparison.notes
