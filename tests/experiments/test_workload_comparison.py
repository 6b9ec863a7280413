"""Two workloads side by side: figures by hand, and what equal or tiny workloads give."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ray_sim.experiments.workload_comparison import ComparedWorkloads, compare_workloads
from ray_sim.model.cluster import Cluster
from tests.small_workloads import Columns, stored
from tests.worlds import HOUR, Job, cluster_of
from workloads.convert import convert
from workloads.store import write_workload
from workloads.synthetic.synth import synth

DAY = 24 * HOUR

A = [Job(0, 1, HOUR, "x"), Job(0, 1, HOUR, "x"), Job(DAY, 2, HOUR, "y"), Job(2 * DAY, 8, 2 * HOUR, "x")]
B = [Job(0, 1, 2 * HOUR), Job(DAY, 4, 2 * HOUR)]


def compared(
    folder: Path,
    a: Sequence[Job],
    b: Sequence[Job],
    cluster: Cluster | None = None,
    of_a: Columns | None = None,
) -> ComparedWorkloads:
    return compare_workloads(stored(folder / "a.parquet", a, of_a), stored(folder / "b.parquet", b), cluster)


def rows(found: ComparedWorkloads) -> dict[str, tuple[str, ...]]:
    return {label: tuple(cells) for label, *cells in found.rows()}


def test_the_figures_of_four_and_two_jobs(tmp_path: Path) -> None:
    told = rows(compared(tmp_path, A, B))
    assert told["jobs"] == ("4", "2", "x 0.5")
    assert told["span"] == ("2 d", "1 d", "x 0.5")
    # 4 jobs in 2 days, 2 jobs in 1 day.
    assert told["jobs per day"] == ("2", "2", "x 1")
    # Gaps of A: 0, 1 and 1 days.
    assert told["between submissions, mean"] == ("16 h", "1 d", "x 1.5")
    assert told["GPUs, mean"] == ("3", "2.5", "x 0.8333")
    assert told["run time, mean"] == ("1 h 15 min", "2 h", "x 1.6")
    # A: 1 + 1 + 2 + 16 GPU-hours, B: 2 + 8.
    assert told["GPU-hours"] == ("20", "10", "x 0.5")
    assert told["GPUs busy on average"] == ("0.4167", "0.4167", "x 1")
    assert told["vcs"] == ("2", "-", "")
    assert told["jobs of the most active vc"] == ("75.0%", "-", "")
    assert "users" not in told


def test_shares_by_size_are_of_the_classes_of_both_in_order(tmp_path: Path) -> None:
    told = rows(compared(tmp_path, A, B))
    shares = {label: cells for label, cells in told.items() if "GPU" in label and "%" in cells[0]}
    assert shares == {
        "jobs, at most 1 GPU": ("50.0%", "50.0%", "+0.0 points"),
        "jobs, over 1 to 2 GPUs": ("25.0%", "0.0%", "-25.0 points"),
        "jobs, over 2 to 4 GPUs": ("0.0%", "50.0%", "+50.0 points"),
        "jobs, over 4 to 8 GPUs": ("25.0%", "0.0%", "-25.0 points"),
        # 2, 2 and 16 of 20 GPU-hours; 2 and 8 of 10.
        "GPU-time, at most 1 GPU": ("10.0%", "20.0%", "+10.0 points"),
        "GPU-time, over 1 to 2 GPUs": ("10.0%", "0.0%", "-10.0 points"),
        "GPU-time, over 2 to 4 GPUs": ("0.0%", "80.0%", "+80.0 points"),
        "GPU-time, over 4 to 8 GPUs": ("80.0%", "0.0%", "-80.0 points"),
    }
    assert list(shares) == [label for label in told if label in shares]


def test_distances_are_the_largest_differences_of_the_shares_below(tmp_path: Path) -> None:
    found = compared(tmp_path, A, B)
    # Run times of an hour: 3/4 and none. Sizes of at most 2: 3/4 and 1/2. Gaps of 0: 1/3 and none.
    assert found.ks == pytest.approx({"num_gpus": 1 / 4, "duration_s": 3 / 4, "inter_arrival_s": 1 / 3})
    assert rows(found)["KS distance, duration_s"] == ("", "", "0.75")


def test_statuses_and_users_of_one_side_alone_have_no_difference(tmp_path: Path) -> None:
    of_a: Columns = {"status": ["Pass", "Killed", "odd", "Pass"], "user": ["u", "v", "v", None]}
    told = rows(compared(tmp_path, A, B, of_a=of_a))
    assert told["jobs, passed"] == ("50.0%", "-", "")
    assert told["jobs, killed"] == told["jobs, unknown"] == ("25.0%", "-", "")
    assert told["users"] == ("2", "-", "")
    # Two of four jobs are of v.
    assert told["jobs of the most active user"] == ("50.0%", "-", "")


def test_a_cluster_adds_the_load_of_both_on_it_and_warns_of_each(tmp_path: Path) -> None:
    found = compared(tmp_path, A, B, cluster_of([4]))
    told = rows(found)
    # The job of 8 GPUs never fits. Until the last submission the others can do 1 + 1 + 2 GPU-hours of 192 in
    # 2 days, and those of B 2 of 96 in a day, at whose end its second job comes.
    assert told["jobs that can never fit on small"] == ("25.0%", "0.0%", "-25.0 points")
    assert told["offered load in the span, gpu"] == ("0.02083", "0.02083", "x 1")
    assert [
        text.startswith("A: a.parquet: cluster small: 1 jobs (25.00%) can never fit")
        for text in found.warnings
    ] == [True]


def test_a_workload_is_like_itself(tmp_path: Path) -> None:
    write_workload(*synth("philly", 400, seed=3), tmp_path / "w.parquet")
    found = compare_workloads(tmp_path / "w.parquet", tmp_path / "w.parquet")
    assert set(found.ks.values()) == {0.0}
    for label, a, b, change in found.rows():
        assert a == b
        assert change in {"", "x 1", "+0.0 points"} or label.startswith("KS")


def test_hours_of_the_day_are_local_also_where_clocks_change(tmp_path: Path) -> None:
    # Three jobs at 0:30, 1:30 and 2:30 local time, when 1:30 comes twice, and one at 23:59.
    times = ("2017-11-05 00:30:00", "2017-11-05 01:30:00", "2017-11-05 02:30:00", "2017-11-05 23:59:00")
    lines = ["timestamp,duration,num_gpus,gpu_time,cluster", *(f"{time},60.0,1,60.0,a" for time in times)]
    (tmp_path / "raw.csv").write_text("\n".join(lines) + "\n")
    convert("philly-csv", [tmp_path / "raw.csv"], tmp_path / "a.parquet")
    found = compare_workloads(tmp_path / "a.parquet", stored(tmp_path / "b.parquet", B))
    first, second = (side.by_local_hour for side in found.sides)
    assert first == [1, 1, 1, *[0] * 20, 1]
    assert second is None
    assert rows(found)["jobs by local hour, 0 to 23"] == ("███" + "▁" * 20 + "█", "-", "")


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [[Job(5, 0, 0)], [Job(5, 1, 60), Job(5, 1, 60)]])
def test_jobs_at_one_instant_have_no_rate(tmp_path: Path, jobs: list[Job]) -> None:
    found = compared(tmp_path, jobs, B, cluster_of([4]))
    told = rows(found)
    assert told["jobs per day"] == ("-", "2", "")
    assert told["GPUs busy on average"][0] == "-"
    assert ("inter_arrival_s" in found.ks) == (len(jobs) > 1)
    json.dumps(found.to_dict(), allow_nan=False)
    found.write_page(tmp_path / "page.html")


def test_json_has_the_numbers_of_the_table(tmp_path: Path) -> None:
    told = json.loads(json.dumps(compared(tmp_path, A, B).to_dict(), allow_nan=False))
    assert told["a"]["jobs"] == told["a"]["quantities"]["jobs"] == 4
    assert told["b"]["quantities"]["GPU-time, over 2 to 4 GPUs"] == 0.8
    assert told["ks"]["num_gpus"] == 0.25


@pytest.mark.slow
def test_the_same_workloads_give_the_same_page(tmp_path: Path) -> None:
    found = compared(tmp_path, A, B)
    for name in ("one.html", "two.html"):
        found.write_page(tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
