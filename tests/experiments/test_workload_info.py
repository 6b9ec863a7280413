"""What `ray-sim info` shows and warns of.

It warns of waits only where some job waits under every policy: the load is work in the span.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import ray_sim as rs
from ray_sim.cli import main
from ray_sim.engine.build_world import build_world
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.experiments.workload_info import WorkloadInfo, describe_blocks, describe_workload
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError
from tests.command_line import answer
from tests.proofs import quick_first
from tests.small_workloads import Columns, stored
from tests.worlds import DOWN, HOUR, UP, Job, availability, cluster_of, job_table, replay
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


@pytest.mark.slow
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
    assert rows["run time 16 min 40 s .. 2 h 47 min"] == "█" * 40 + " 30"
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


POLICIES = ("fifo", "sjf", "srtf", "las")
LONG_S = 30 * 86_400.0


def _described(
    directory: Path, jobs: Sequence[Job], cluster: Cluster, columns: Columns | None = None
) -> dict[str, Any]:
    return rs.describe(stored(directory / "w.parquet", jobs, columns), cluster).to_dict()


class Case(NamedTuple):
    """A workload, and the offered load of a resource by hand: demand x rest of the span at most."""

    jobs: list[Job]
    cluster: Cluster
    load: float
    resource: str = "gpu"
    columns: Columns | None = None
    wait_s: float = 0.0
    """Longest wait under FIFO."""


def _wait_warnings(told: Mapping[str, Any]) -> list[str]:
    return [warning for warning in told["warnings"] if "waits under every policy" in warning]


def _waits(
    jobs: Sequence[Job],
    cluster: Cluster,
    policy: str,
    columns: Columns | None = None,
    *,
    by_vc: bool = False,
) -> float:
    """Longest time that a job waits."""
    table = job_table(jobs, cluster.resources, columns)
    world = build_world(table, cluster, partition="vc" if by_vc else "none")
    return float(max(replay(world, policy).jobs["queue_s"].drop_nulls().to_list()))


NOT_WARNED = {
    # Span 6,000 s, 8 GPUs: 6 x 6,000 of the long ones and 100 x 60; the last of 101 short jobs has no rest.
    "six jobs outlive a row of short ones": Case(
        [Job(0, 1, LONG_S)] * 6 + [Job(60 * i, 1, 60) for i in range(101)],
        cluster_of([8]),
        (6 * 6000 + 100 * 60) / (8 * 6000),
    ),
    # The same with 7 long ones: 48,000 of 48,000 GPU-seconds. Every GPU is busy and no job waits.
    "every GPU is busy to the last submission": Case(
        [Job(0, 1, LONG_S)] * 7 + [Job(60 * i, 1, 60) for i in range(101)], cluster_of([8]), 1.0
    ),
    "the last job has no rest of the span": Case(
        [Job(0, 1, 10), Job(1000, 8, 1e7)], cluster_of([4, 4]), 10 / 8000
    ),
    # J1 has two tasks of 3 cores.
    "cores of a job without GPUs": Case(
        [Job(0, 0, 1e6), Job(500, 0, 10), Job(1000, 0, 10)],
        cluster_of([0], cpu=[16]),
        (6 * 1000 + 10) / 16_000,
        "cpu",
        {"num_tasks": [2, 1, 1], "cpu_per_task": [3.0, 1.0, 1.0]},
    ),
    "memory beside few GPUs": Case(
        [Job(0, 1, 1e6), Job(0, 1, 1e6), Job(1000, 1, 1)],
        cluster_of([4], memory_gib=[100]),
        (60 + 30) / 100,
        "memory_gib",
        {"memory_gib_per_task": [60.0, 30.0, 5.0]},
    ),
    "parts of a GPU": Case(
        [Job(0, 0.5, 1e5), Job(300, 0.25, 1e5), Job(400, 0.25, 10)],
        cluster_of([1]),
        (0.5 * 400 + 0.25 * 100) / 400,
    ),
    # At half speed a GPU does 500 GPU-seconds in 1,000 s, and the four do 2,000.
    "slow servers": Case(
        [Job(0, 1, 1e6), Job(1000, 1, 10)], cluster_of([2, 2], speed=[0.5, 0.5]), 500 / 2000
    ),
    # At double speed J1 ends within the span and counts whole; J2 does 2 x 800 in its 800 s.
    "fast servers": Case(
        [Job(0, 1, 1500), Job(200, 1, 5000), Job(1000, 0.5, 1)],
        cluster_of([2, 1], speed=[2.0, 2.0]),
        (1500 + 1600) / (3 * 2 * 1000),
    ),
    # 21 jobs back to back whose times have no short binary form, and two that outlive them.
    "exactly full in tenths of seconds": Case(
        [Job(0, 1, 99.9), Job(0, 1, 77.7)] + [Job(round(0.1 * i, 1), 1, 0.1) for i in range(22)],
        cluster_of([3]),
        1.0,
    ),
    # Four jobs and five servers of one GPU, one of speed 3: at that speed four jobs would do 1,200 of 700.
    "long jobs on slow servers, though a fast one would do more": Case(
        [Job(0, 1, LONG_S)] * 4 + [Job(100, 1, 5)], cluster_of([1] * 5, speed=[1, 1, 1, 1, 3]), 400 / 700
    ),
    # Ten jobs at once on one GPU wait up to 900 s; then nothing comes for a day.
    "a queue that drains before the last submission": Case(
        [Job(0, 1, 100)] * 10 + [Job(86_400, 1, 100)], cluster_of([1]), 1000 / 86_400, wait_s=900
    ),
}


@pytest.mark.parametrize("case", quick_first(NOT_WARNED, 2))
def test_work_beyond_the_span_is_no_offered_load(case: str, tmp_path: Path) -> None:
    jobs, cluster, expected, resource, columns, wait_s = NOT_WARNED[case]
    told = _described(tmp_path, jobs, cluster, columns)
    assert told["load"]["whole"]["resources"][resource]["offered_load"] == pytest.approx(expected, rel=1e-9)
    assert _wait_warnings(told) == []
    assert _waits(jobs, cluster, "fifo", columns) == wait_s


def test_a_long_job_beside_a_server_that_is_away_is_not_warned_of(tmp_path: Path) -> None:
    # J1 holds s0 for the whole span, J2 s1 until that goes; s1 is back for J3. 1,010 of 1,020 GPU-seconds.
    jobs = [Job(0, 1, LONG_S), Job(0, 1, 10), Job(1000, 1, 10)]
    away = availability([(10.0, 1, DOWN), (990.0, 1, UP)])
    told = _described(tmp_path, jobs, replace(cluster_of([1, 1]), availability=away))
    assert told["load"]["whole"]["resources"]["gpu"]["offered_load"] == pytest.approx(1010 / 1020)
    assert _wait_warnings(told) == []


def test_a_vc_whose_long_job_has_its_servers_is_not_warned_of(tmp_path: Path) -> None:
    # vc a: a job of 2 GPUs on 2 GPUs for ever; vc b: short jobs.
    jobs = [Job(0, 2, LONG_S, "a"), Job(0, 1, 60, "b"), Job(600, 1, 60, "b")]
    cluster = cluster_of([2, 1], vc=["a", "b"])
    told = _described(tmp_path, jobs, cluster)
    vcs = told["load"]["vcs"]
    assert vcs["a"]["resources"]["gpu"]["offered_load"] == pytest.approx(1)
    assert vcs["b"]["resources"]["gpu"]["offered_load"] == pytest.approx(60 / 600)
    assert _wait_warnings(told) == []
    assert _waits(jobs, cluster, "fifo", by_vc=True) == 0


@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_every_form_of_info_is_silent_on_a_queue_that_is_not_there(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Half the GPUs are held beyond the span by one gang.
    path = stored(tmp_path / "w.parquet", [Job(0, 4, LONG_S), *(Job(100 * i, 1, 90) for i in range(9))])
    (tmp_path / "c.yaml").write_text("name: c\nservers:\n  - {name: s, count: 2, gpus: 4}\n")
    if form == "html":
        said = rs.describe(path, str(tmp_path / "c.yaml"))._repr_html_()
    elif form == "json":
        said = str(answer(capsys, "info", str(path), "--cluster", str(tmp_path / "c.yaml"))["warnings"])
    else:
        assert main(["info", str(path), "--cluster", str(tmp_path / "c.yaml")]) == 0
        printed = capsys.readouterr()
        said = printed.out + printed.err
    assert "waits under every policy" not in said


# Work that fits into the span is more than the servers do in it.
OVERLOADED = {
    # One GPU: 3 h, 2 h and nothing of three jobs of 10 h in 3 h.
    "every job is longer than the span": Case(
        [Job(0, 1, 36_000), Job(3600, 1, 36_000), Job(10_800, 1, 36_000)], cluster_of([1]), 5 / 3
    ),
    "two gangs that each need all GPUs": Case(
        [Job(0, 8, 1e6), Job(10, 8, 1e6), Job(100, 1, 1)], cluster_of([8]), (800 + 720) / 800
    ),
    # Eight long ones leave no GPU for the short ones: 48,000 + 6,000 of 48,000.
    "as many long jobs as GPUs": Case(
        [Job(0, 1, LONG_S)] * 8 + [Job(60 * i, 1, 60) for i in range(101)], cluster_of([8]), 54 / 48
    ),
    "cores of jobs without GPUs": Case(
        [Job(0, 0, 1e6), Job(0, 0, 1e6), Job(1000, 0, 10)],
        cluster_of([0], cpu=[16]),
        20 / 16,
        "cpu",
        {"num_tasks": [3, 2, 1], "cpu_per_task": [4.0, 4.0, 1.0]},
    ),
    "slow servers": Case(
        [Job(0, 1, 400), Job(0, 1, 400), Job(500, 1, 1)], cluster_of([1], speed=[0.5]), (250 + 250) / 250
    ),
}


@pytest.mark.parametrize("case", quick_first(OVERLOADED, 2))
def test_where_the_load_exceeds_the_servers_a_job_waits_under_every_policy(case: str, tmp_path: Path) -> None:
    jobs, cluster, expected, resource, columns, _ = OVERLOADED[case]
    told = _described(tmp_path, jobs, cluster, columns)
    load = told["load"]["whole"]["resources"][resource]["offered_load"]
    assert load == pytest.approx(expected, rel=1e-9)
    [warning] = _wait_warnings(told)
    assert f"{expected:.2f}" in warning
    assert all(_waits(jobs, cluster, policy, columns) > 0 for policy in POLICIES)


def test_only_the_overloaded_vc_is_warned_of(tmp_path: Path) -> None:
    # vc a has one GPU for two long jobs, vc b five GPUs for one: load 10 of 10 and 5 of 10 in a, none in b.
    jobs = [Job(0, 1, LONG_S, "a"), Job(5, 1, LONG_S, "a"), Job(10, 1, LONG_S, "b")]
    cluster = cluster_of([1, 5], vc=["a", "b"])
    told = _described(tmp_path, jobs, cluster)
    assert told["load"]["vcs"]["a"]["resources"]["gpu"]["offered_load"] == pytest.approx(15 / 10)
    [warning] = _wait_warnings(told)
    assert "vc a" in warning
    assert "vc b" not in warning
    assert all(_waits(jobs, cluster, policy, by_vc=True) > 0 for policy in POLICIES)
    assert all(_waits(jobs, cluster, policy) == 0 for policy in POLICIES)
