"""`info` warns of waits only where some job waits under every policy: the load is work in the span."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ray_sim as rs
from ray_sim.cli import main
from ray_sim.engine.build_world import build_world
from ray_sim.model.cluster import Cluster
from tests.command_line import answer
from tests.small_workloads import Columns, stored
from tests.worlds import DOWN, UP, Job, availability, cluster_of, job_table, replay

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


NOBODY_WAITS = {
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
    "a gang that comes late counts from its submission on": Case(
        [Job(0, 1, 50), Job(100, 4, 1e6), Job(1100, 1, 50)], cluster_of([4, 4]), (4 * 1000 + 50) / (8 * 1100)
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
}


@pytest.mark.parametrize("case", NOBODY_WAITS)
def test_work_beyond_the_span_is_no_offered_load(case: str, tmp_path: Path) -> None:
    jobs, cluster, expected, resource, columns = NOBODY_WAITS[case]
    told = _described(tmp_path, jobs, cluster, columns)
    loads = told["load"]["whole"]["resources"]
    assert loads[resource]["offered_load"] == pytest.approx(expected, rel=1e-9)
    assert _wait_warnings(told) == []
    assert _waits(jobs, cluster, "fifo", columns) == 0


def test_long_jobs_on_slow_servers_do_not_wait_though_fast_ones_would_do_more(tmp_path: Path) -> None:
    # Four jobs and five servers of one GPU, one of speed 3: at that speed four jobs would do 1,200 of 700.
    jobs = [Job(0, 1, LONG_S)] * 4 + [Job(100, 1, 5)]
    cluster = cluster_of([1] * 5, speed=[1.0, 1.0, 1.0, 1.0, 3.0])
    assert all(_waits(jobs, cluster, policy) == 0 for policy in POLICIES)
    told = _described(tmp_path, jobs, cluster)
    assert told["load"]["whole"]["resources"]["gpu"]["offered_load"] <= 4 * 300 / 700 + 1e-9
    assert _wait_warnings(told) == []


def test_a_long_job_beside_a_server_that_is_away_does_not_wait(tmp_path: Path) -> None:
    # J1 holds s0 for the whole span, J2 s1 until that goes; s1 is back for J3. 1,010 of 1,020 GPU-seconds.
    jobs = [Job(0, 1, LONG_S), Job(0, 1, 10), Job(1000, 1, 10)]
    away = availability([(10.0, 1, DOWN), (990.0, 1, UP)])
    told = _described(tmp_path, jobs, replace(cluster_of([1, 1]), availability=away))
    load = told["load"]["whole"]["resources"]["gpu"]["offered_load"]
    assert load == pytest.approx(1010 / 1020)
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


@pytest.mark.parametrize("case", OVERLOADED)
def test_where_the_load_exceeds_the_servers_a_job_waits_under_every_policy(case: str, tmp_path: Path) -> None:
    jobs, cluster, expected, resource, columns = OVERLOADED[case]
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


def test_a_queue_that_drains_before_the_last_submission_is_not_warned_of(tmp_path: Path) -> None:
    # Ten jobs at once on one GPU wait up to 900 s; then nothing comes for a day.
    jobs = [Job(0, 1, 100)] * 10 + [Job(86_400, 1, 100)]
    told = _described(tmp_path, jobs, cluster_of([1]))
    assert told["load"]["whole"]["resources"]["gpu"]["offered_load"] == pytest.approx(1000 / 86_400)
    assert _wait_warnings(told) == []
    assert _waits(jobs, cluster_of([1]), "fifo") == 900
