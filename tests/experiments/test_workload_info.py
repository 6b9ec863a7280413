"""What `ray-sim info` shows and warns of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.experiments.workload_info import WorkloadInfo, describe_blocks, describe_workload
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError
from tests.small_workloads import stored
from tests.worlds import DOWN, HOUR, Job, availability, cluster_of
from workloads.store import write_workload
from workloads.synthetic.synth import synth
from workloads.training.enrich import enrich


def info(
    directory: Path,
    gpus: Sequence[float],
    vcs: Sequence[str | None] | None,
    cluster: Cluster | None,
    gap_s: float = HOUR,
) -> WorkloadInfo:
    """Jobs of an hour each, one an hour, or of another gap."""
    vcs = vcs or [None] * len(gpus)
    jobs = [Job(gap_s * i, size, gap_s, vc) for i, (size, vc) in enumerate(zip(gpus, vcs, strict=True))]
    return describe_workload(stored(directory / "w.parquet", jobs), cluster)


def test_a_load_that_rounds_to_1_is_said_to_be_above_it(tmp_path: Path) -> None:
    # Hourly jobs that take 1 / 0.999 h: 4 (998 + 0.999) GPU-hours of 4 * 0.999 * 999 in 999 h, 1.001.
    found = info(tmp_path, [4] * 1000, None, cluster_of([2, 2], speed=[0.999, 0.999]))
    assert dict(found.rows())["offered load in the span, gpu"] == "1.001"
    assert found.warnings[0].startswith("cluster small: offered load just above 1 (gpu), so some job waits")


def test_where_some_job_must_wait_it_is_warned(tmp_path: Path) -> None:
    found = info(tmp_path, [4, 4, 4, 4], None, cluster_of([2, 2], speed=[0.5, 0.5]))
    # In 3 h at half speed the jobs can do 4 + 4 + 2 + 0 GPU-hours, the servers 2 an hour: 10 / 6. At 3 h,
    # 16 - 6 = 10 of all 16 GPU-hours are left, 5 h.
    assert found.warnings == [
        "cluster small: offered load 1.67 (gpu), so some job waits under every policy that rejects none: at"
        " the last submission at least 10 gpu hours are unfinished whatever the policy, 5.0 h of all servers"
    ]
    rows = dict(found.rows())
    assert rows["offered load in the span, gpu"] == "1.667"
    assert rows["  at the last submission"] == "at least 10.0 gpu hours, 5.0 h of all servers"


def test_unfinished_work_of_minutes_is_not_0_hours(tmp_path: Path) -> None:
    # A minute apart: 16 - 6 = 10 GPU-minutes, as above 10 GPU-hours; with 0.1 s, 10 GPU-tenths of a second.
    servers = cluster_of([2, 2], speed=[0.5, 0.5])
    for gap_s, at_last, told in ((60.0, "0.2", "0.17"), (0.1, "0.00028", "0.00028")):
        found = info(tmp_path, [4, 4, 4, 4], None, servers, gap_s)
        assert f"at least {told} gpu hours are unfinished" in found.warnings[0]
        assert f"at least {at_last} gpu hours" in str(dict(found.rows())["  at the last submission"])


def test_where_some_job_must_wait_as_servers_are_missing_it_is_warned(tmp_path: Path) -> None:
    # Two GPU-hours an hour on two GPUs of which one is there: 6 GPU-hours in 3 h.
    servers = replace(cluster_of([1, 1]), availability=availability([(0.0, 0, DOWN)]))
    found = info(tmp_path, [2, 2, 2, 2], None, servers)
    rows = dict(found.rows())
    assert (rows["offered load in the span, gpu"], rows["  there, on average"]) == ("2.000", "1 of 2 (50.0%)")
    assert "offered load 2.00 (gpu), so some job waits" in found.warnings[0]
    # All gone at 1 h 30 min: half an hour of the second job and two more jobs are never run.
    servers = replace(cluster_of([1]), availability=availability([(1.5 * HOUR, 0, DOWN)]))
    told = (
        "at least 2 gpu hours are unfinished whatever the policy, which the servers that are there then never"
    )
    assert told in info(tmp_path, [1, 1, 1, 1], None, servers).warnings[0]
    assert info(tmp_path, [1, 1, 1, 1], None, cluster_of([1])).warnings == []
    # Gone at the end of the last submitted hour but one, with the last hour left.
    servers = replace(cluster_of([1]), availability=availability([(3 * HOUR, 0, DOWN)]))
    assert info(tmp_path, [1, 1, 1, 1], None, servers).warnings == [
        "cluster small: some job never ends (gpu): at the last submission at least 1 gpu hours are unfinished"
        " whatever the policy, which the servers that are there then never finish"
    ]
    assert "  there, on average" not in dict(info(tmp_path, [1, 1], None, cluster_of([1])).rows())


def test_of_jobs_that_may_train_otherwise_it_is_not_said_that_they_must_wait(
    tmp_path: Path,
) -> None:
    """Chunked and elastic jobs run on less than they ask for as whole jobs."""
    frame, made = synth("philly", 50, seed=1)
    frame = frame.with_columns(submit_s=pl.Series([60.0 * i for i in range(50)]))
    for profile in ("jsac_edge_cloud", "optimus_nine_models"):
        enriched, _ = enrich(frame, load_training_draws(profile), seed=1)
        write_workload(enriched, made, tmp_path / "w.parquet")
        found = describe_workload(tmp_path / "w.parquet", cluster_of([2], cpu=[8], memory_gib=[64]))
        assert all("can never fit with all they ask for" in warning for warning in found.warnings)
        rows = dict(found.rows())
        assert (
            rows["unfinished work"]
            == "not bounded, as jobs may train in chunks or with other numbers of workers"
        )
        assert "whatever the policy" not in str(rows)


def test_what_can_be_done_in_time_brings_no_warning(tmp_path: Path) -> None:
    found = info(tmp_path, [2, 1, 1, 1], None, cluster_of([2]))
    assert found.warnings == []
    assert json.loads(json.dumps(found.to_dict()))["load"]["whole"]["resources"]["gpu"]["offered_load"] < 1
    assert info(tmp_path, [2, 1], None, None).to_dict()["load"] is None


def test_a_resource_that_nobody_asks_for_is_not_shown(tmp_path: Path) -> None:
    def shown(gpus: Sequence[float], cluster: Cluster) -> list[str]:
        labels = [label for label, _ in info(tmp_path, gpus, None, cluster).rows()]
        return [label for label in labels if label.startswith("offered load")]

    assert shown([1, 1], cluster_of([4], cpu=[8])) == ["offered load in the span, gpu"]
    assert shown([0, 0], cluster_of([0], cpu=[8])) == []


def test_jobs_that_can_never_fit_are_warned_of(tmp_path: Path) -> None:
    found = info(tmp_path, [1, 1, 1, 9], None, cluster_of([4]))
    assert found.warnings == [
        "cluster small: 1 jobs (25.00%) can never fit; a replay refuses them; too much gpu: 1"
    ]
    assert dict(found.rows())["jobs that can never fit"] == "1 (25.00%); too much gpu: 1"


def test_a_vc_where_some_job_must_wait_is_named(tmp_path: Path) -> None:
    speed = [1.0, 0.5] + [1.0] * 10
    servers = cluster_of([1] * 12, vc=["idle", *(f"v{i}" for i in range(11))], speed=speed)
    # Every vc gets a job of one GPU and an hour, and v0 five of them within 15 h; only v0 can be late.
    vcs = [f"v{i}" for i in range(11)] + ["v0"] * 5
    found = info(tmp_path, [1.0] * 11 + [4.0] * 5, vcs, servers)
    assert found.warnings == []  # the jobs of four GPUs can never fit into v0
    found = info(tmp_path, [1.0] * 4, ["v0"] * 4, servers)
    # In 3 h at half speed the jobs can do 1 + 1 + 0.5 + 0 hours, the GPU of v0 1.5; 2.5 of 4 are left.
    assert found.warnings == [
        "with partition vc\n  vc v0: offered load 1.67 (gpu), so some job waits under every policy that"
        " rejects none: at the last submission at least 2 gpu hours are unfinished whatever the policy, 5.0 h"
        " of all servers"
    ]
    assert dict(found.rows())["load of vc v0"] == "1.667 (gpu), 5.0 h behind at the end; 4 jobs on 1 servers"


def test_bars_are_drawn_of_run_times_and_of_days(tmp_path: Path) -> None:
    rows = dict(info(tmp_path, [2.0] * 30, None, cluster_of([4])).rows())
    assert rows["run time 1,000 .. 10,000 s"] == "█" * 40 + " 30"
    # 24 jobs of 2 GPU-hours on the first day of 96 GPU-hours, 6 on the second.
    assert rows["  submitted, by day"] == "█▃ at most 0.5"


def test_the_models_of_a_workload_are_dealt_out_by_every_rule() -> None:
    """Ten servers: PAA needs a request for each of the 157 blocks of ResNet-50, MXNet cuts the large ones."""
    frame, _ = enrich(synth("philly", 60, seed=1)[0], load_training_draws("optimus_nine_models"), seed=1)
    found = describe_blocks(frame, "w", 10)
    assert sum(one.jobs for one in found.models) == 60
    (resnet,) = [one for one in found.models if one.model == "resnet-50"]
    assert (resnet.blocks, resnet.parameters) == (157, 25_549_486)
    paa, mxnet, tensorflow = (resnet.rules[rule] for rule in ("paa", "mxnet", "tensorflow"))
    assert paa.requests == tensorflow.requests == 157 < mxnet.requests
    assert paa.size_difference < 0.05 * resnet.parameters / 10 < tensorflow.size_difference
    assert paa.skew < 1.02 < mxnet.skew < tensorflow.skew
    shown = dict(found.rows())
    assert str(shown["blocks of resnet-50"]).startswith("157, 25,549,486 parameters")


def test_a_name_in_place_of_a_cluster_is_refused(tmp_path: Path) -> None:
    described: Any = describe_workload  # as in a program without types
    with pytest.raises(InvalidInputError, match="cluster: expected a Cluster, as load_cluster"):
        described(tmp_path / "w.parquet", "toy")
    with pytest.raises(InvalidInputError, match="source: expected a path or a workload, found int"):
        described(3)
