"""`ray-sim info --optimum`: the exact optimum of a workload file on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import log
from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli.app import main
from ray_sim.experiments.utility_optimum import OptimumInfo, describe_optimum
from ray_sim.model.errors import InvalidInputError
from ray_sim.solvers.utility_optimum import SearchLimits
from tests.command_line import answer, complaint
from tests.worlds import cluster_of
from workloads.provenance import Provenance
from workloads.schema import with_all_columns
from workloads.store import write_workload

SLOTS: Mapping[str, object] = {"slot_s": 10.0, "horizon_s": 20.0}
CLUSTER = "name: one\nservers:\n  - {name: s, count: 1, gpus: 6}\n"


def workload(directory: Path, **columns: object) -> Path:
    """Three jobs of 100 samples, which take 2 worker-slots of 10 s, with tasks as in example 1.A."""
    n = 3
    given = {
        "job_id": ["a", "b", "c"],
        "trace_order": list(range(n)),
        "submit_s": [0.0] * n,
        "num_gpus": [1.0] * n,
        "duration_s": [10.0] * n,
        "exchange": ["sync"] * n,
        "epochs": [1] * n,
        "samples": [100.0] * n,
        "batch": [4] * n,
        "sample_s": [0.2] * n,
        "gradient_mb": [0.0] * n,
        "bandwidth_mbps": [100.0] * n,
        "internal_bandwidth_mbps": [100.0] * n,
        "workers_per_ps": [1] * n,
        "num_workers": [1] * n,
        "num_ps": [1] * n,
        "worker_gpu": [2.0] * n,
        "ps_gpu": [1.0] * n,
        "utility_max": [10.0, 18.0, 4.0],
        "utility_decay_per_s": [0.0, 0.0, 0.0],
        "utility_due_s": [0.0] * n,
        **columns,
    }
    made = Provenance(converter="hand", converter_version="1", counts={"read": n, "kept": n})
    path = directory / "w.parquet"
    write_workload(with_all_columns(pl.DataFrame(given)), made, path)
    return path


def optimum(path: Path, facts: Mapping[str, object] = SLOTS, speed: float = 1.0) -> OptimumInfo:
    return describe_optimum(path, cluster_of([6], speed=[speed]), facts, SearchLimits())


def test_two_of_three_jobs_fit_in_two_slots(tmp_path: Path) -> None:
    # Without decay a job is worth half of its most: 5, 9, 2. One ends in each slot, the two that pay best.
    found = optimum(workload(tmp_path))
    assert found.optimum.utility == pytest.approx(9 + 5)
    assert sorted(found.completed) == ["a", "b"]
    assert found.slots == 2
    assert found.certificate.u1 == pytest.approx(5 + 9 + 2)
    assert found.certificate.gap == pytest.approx(0, abs=1e-5)
    assert found.warnings == []
    assert dict(found.rows())["optimal utility"] == found.optimum.utility


def test_types_that_jobs_accept_confine_them_unless_ignored(tmp_path: Path) -> None:
    # b accepts no server of the cluster: a and c end, worth 5 and 2.
    path = workload(tmp_path, gpu_types=["T4|V100", "V100", None])
    cluster = replace(cluster_of([6]), gpu_type=("T4",))
    found = describe_optimum(path, cluster, SLOTS, SearchLimits())
    assert found.optimum.utility == pytest.approx(5 + 2)
    assert sorted(found.completed) == ["a", "c"]
    ignored = describe_optimum(path, cluster, {**SLOTS, "gpu_types": "ignore"}, SearchLimits())
    assert ignored.optimum.utility == pytest.approx(5 + 9)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the workload w.parquet and the cluster one.yaml."""
    workload(tmp_path)
    (tmp_path / "one.yaml").write_text(CLUSTER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("desk")
def test_the_command_line_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["info", "w.parquet", "-c", "one.yaml", "--optimum", "-w", "slot_s=10", "-w", "horizon_s=20"]
    told = answer(capsys, *ask)
    assert told["utility"] == pytest.approx(14)
    assert told["proven"] is True
    assert told["completed"].keys() == {"a", "b"}
    assert main(ask) == 0
    told_text = capsys.readouterr()
    assert "optimal utility" in told_text.out
    assert "limits 600 s (--time-limit-s) and 1,000,000 nodes (--node-limit)" in told_text.err
    assert main([*ask, "--time-limit-s", "0"]) == 0
    assert "no schedule earns more than" in capsys.readouterr().out
    assert main(["info", "w.parquet", "-w", "slot_s=10"]) == 2
    assert "needs a workload and --cluster" in complaint(capsys, "info", "one.yaml", "--optimum")


EXAMPLE_1_A: Mapping[str, object] = {
    "sample_s": [0.1] * 3,
    "gradient_mb": [3.0] * 3,
    "bandwidth_mbps": [40.0] * 3,
    "internal_bandwidth_mbps": [120.0] * 3,
    "utility_max": [10.0, 18.0, 4.0],
    "utility_decay_per_s": [log(2 * 5 / 4 - 1) / 10, log(2 * 9 / 3 - 1) / 10, log(2 * 2 / 1 - 1) / 10],
}
"""0.2 s a sample within a server, 0.4 s across; worth 5, 9, 2 in the first slot, 4, 3, 1 in the second."""


@pytest.mark.slow
def test_runs_carry_it_and_are_compared_by_it(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # PD-ORS earns 5 + 3 of 9 + 4.
    workload(desk, **EXAMPLE_1_A)
    place, slots = ["w.parquet", "one.yaml"], ["-w", "slot_s=10", "-w", "horizon_s=20"]
    alone = answer(capsys, "info", place[0], "-c", place[1], "--optimum", *slots)
    assert alone["utility"] == pytest.approx(13)
    world = [*slots, "-w", "truth=pd_ors", "-w", "optimum_nodes=1000"]
    ratios = {}
    for policy in ("pd_ors", "drf"):
        run = ["run", "--workload", place[0], "--cluster", place[1], "--policy", policy, *world, "-o", policy]
        assert main([*run, "--json"]) == 0
        found = json.loads(Path(policy, "summary.json").read_text())["utility_certificate"]
        assert found["optimum"] == alone["utility"]
        assert found["optimum_bound"] == alone["bound"]
        assert found["optimum_proven"] is True
        ratios[policy] = found["optimum_ratio"]
    assert ratios["pd_ors"] == pytest.approx(13 / 8)
    assert ratios["drf"] > 1
    capsys.readouterr()
    (group,) = answer(capsys, "compare", *ratios, "--metric", "utility_certificate.optimum_ratio")["groups"]
    told = group["comparison"]
    assert told["baseline_mean"] == min(ratios.values())


@pytest.mark.usefixtures("desk")
def test_a_run_that_cannot_have_it_ends_with_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "--workload", "w.parquet", "--cluster", "one.yaml", "--policy", "fifo", "-o", "out"]
    world = ["-w", "optimum_nodes=10", "-w", "slot_s=10"]
    assert "give slots and an end" in complaint(capsys, *run, *world, "-w", "truth=pd_ors")
    assert "set truth=pd_ors" in complaint(capsys, *run, *world)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"slot_s": 10.0}, "give slots and an end"),
        ({"horizon_s": 10.0}, "give slots and an end"),
        ({**SLOTS, "truth": "placement"}, "under truth=pd_ors only"),
        ({**SLOTS, "restart_cost_s": 1.0}, "restart_cost_s has no effect"),
        ({"slot_s": 0.001, "horizon_s": 20.0}, "take fewer jobs, servers or slots"),
    ],
)
def test_what_it_does_not_know_is_refused(tmp_path: Path, facts: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        optimum(workload(tmp_path), facts)


def test_servers_of_another_speed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="s0 is not"):
        optimum(workload(tmp_path), speed=2.0)


def test_jobs_that_say_nothing_of_their_worth_or_train_nothing_are_refused(tmp_path: Path) -> None:
    nulls = pl.Series([None, 1.0, 1.0], dtype=pl.Float64)
    with pytest.raises(InvalidInputError, match="utility_max: is null for 1 of 3 jobs, first for a"):
        optimum(workload(tmp_path, utility_max=nulls))
    with pytest.raises(InvalidInputError, match="job b has no samples"):
        optimum(workload(tmp_path, samples=[1.0, 0.0, 1.0]))


def test_jobs_that_come_too_late_earn_nothing(tmp_path: Path) -> None:
    found = optimum(workload(tmp_path, submit_s=[0.0, 11.0, 5000.0]))
    assert found.completed.keys() == {"a"}
    assert found.certificate.hopeless == 2  # b needs 10 s, and has 9
