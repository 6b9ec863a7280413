"""`policy_warnings` tells of a policy that never acted on its own rule, and only then."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ray_sim.cli import main
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import Loop
from ray_sim.engine.world import World
from ray_sim.model.result import RunResult
from ray_sim.policy_api import PriorityPolicy
from tests.command_line import answer
from tests.proofs import quick_first
from tests.small_workloads import write_jobs
from tests.worlds import Job, cluster_of, job_table, replay, world_of

LOOPS = pytest.mark.parametrize("loop", ["auto", "general"])


def _rule_warnings(result: RunResult) -> list[str]:
    """Sentences on a rule that did not act, whatever their words."""
    said = result.summary.policy_warnings or []
    return [text for text in said if re.search(r"limit|queue|equal|same|order|priorit|rule", text)]


def _cores_world(jobs: list[Job], cores: list[float], cpu: float) -> World:
    """Jobs of one task each, with `cores` cores, on one server with 4 GPUs."""
    table = job_table(jobs, ("gpu", "cpu"), {"num_tasks": [1] * len(jobs), "cpu_per_task": cores})
    return build_world(table, cluster_of([4], cpu=[cpu]))


# World, parameters of las, and whether a job reaches the first limit.
REACHES: dict[str, tuple[World, dict[str, Any], bool]] = {
    "short jobs, default limit": (world_of([Job(0, 1, 10), Job(0, 1, 20)], [1]), {}, False),
    # The default is 3,600 GPU-s.
    "one GPU-second short of it": (world_of([Job(0, 1, 3599), Job(0, 1, 5)], [1]), {}, False),
    "one GPU-second beyond it": (world_of([Job(0, 1, 3601), Job(0, 1, 5)], [1]), {}, True),
    "short but wide": (world_of([Job(0, 8, 500), Job(0, 1, 5)], [8]), {}, True),
    "the first of two limits only": (
        world_of([Job(0, 1, 30), Job(3, 1, 5)], [1]),
        {"limits_gpu_s": (10.0, 1000.0)},
        True,
    ),
    "only a job that never fits would": (world_of([Job(0, 9, 1e6), Job(0, 1, 5)], [8]), {}, False),
    "only after the horizon": (
        world_of([Job(0, 1, 7200), Job(5, 1, 7200)], [1], params={"horizon_s": 1800.0}),
        {},
        False,
    ),
    "by parts before and after a suspension": (
        # J1 moves to the second queue at 10 s and gives way to J2; both pass the limit.
        world_of([Job(0, 1, 25), Job(2, 1, 12)], [1]),
        {"limits_gpu_s": (10.0,)},
        True,
    ),
    "a thousandth of a GPU beside a job with one": (
        # 2,000 s x 0.001 are 2 GPU-s, and J2 has 5.
        _cores_world([Job(0, 0, 2000), Job(0, 1, 5)], [4.0, 0.0], 4.0),
        {"limits_gpu_s": (6.0,)},
        False,
    ),
    "a job of 2 s on 4 cores, limit 7 core-s": (
        _cores_world([Job(0, 0, 2), Job(0, 0, 1)], [4.0, 4.0], 4.0),
        {"limits_core_s": (7.0,)},
        True,
    ),
    "a job of 2 s on 4 cores, limit 9 core-s": (
        _cores_world([Job(0, 0, 2), Job(0, 0, 1)], [4.0, 4.0], 4.0),
        {"limits_core_s": (9.0,)},
        False,
    ),
}


@LOOPS
@pytest.mark.parametrize("case", REACHES)
def test_las_says_whether_a_job_reached_its_first_limit(case: str, loop: Loop) -> None:
    world, params, reaches = REACHES[case]
    result = replay(world, "las", loop=loop, **params)
    assert (_rule_warnings(result) == []) == reaches, result.summary.policy_warnings


def _durations(values: list[float], speed: list[float] | None = None) -> World:
    servers = [1.0] * len(speed or [1.0])
    return world_of([Job(2.0 * i, 1, value) for i, value in enumerate(values)], servers, speed=speed)


@LOOPS
@pytest.mark.parametrize("policy", ["sjf", "srtf"])
@pytest.mark.parametrize(
    ("world", "differ"),
    quick_first(
        [
            (_durations([30.0] * 5), False),
            (_durations([0.1] * 4), False),
            # Other completion times, the same run times.
            (_durations([30.0] * 4, speed=[1.0, 3.0]), False),
            (world_of([Job(i, 1 + i % 3, 8) for i in range(6)], [4]), False),
            (_durations([30.0, 30, 30, 30, 29]), True),
            (_durations([30.0, 30, 30.000001, 30]), True),
            (_durations([5.0, 4, 3, 2, 1]), True),
        ]
    ),
)
def test_an_order_by_run_times_that_are_all_equal_is_called_so(
    world: World, differ: bool, policy: str, loop: Loop
) -> None:
    result = replay(world, policy, loop=loop)
    assert (_rule_warnings(result) == []) == differ, result.summary.policy_warnings


@LOOPS
@pytest.mark.parametrize("values", [[30.0] * 5, [5.0, 4, 3]])
def test_the_order_of_submission_needs_no_word(values: list[float], loop: Loop) -> None:
    assert _rule_warnings(replay(_durations(values), "fifo", loop=loop)) == []


class Indifferent(PriorityPolicy):
    """All jobs are alike."""

    name = "indifferent"

    def keys(self, world: Any) -> Any:
        return np.zeros(len(world.jobs.tasks), dtype=np.int64)


class WidestFirst(PriorityPolicy):
    """Jobs of more tasks first."""

    name = "widest_first"

    def keys(self, world: Any) -> Any:
        return -world.jobs.tasks.astype(np.int64)


@LOOPS
def test_a_priority_of_ones_own_that_is_equal_for_all_jobs_is_called_so(loop: Loop) -> None:
    alike = world_of([Job(i, 2, 5 + i) for i in range(4)], [4])
    unlike = world_of([Job(i, 1 + i, 5 + i) for i in range(4)], [4])
    assert (
        _rule_warnings(replay(alike, Indifferent(placement="consolidate", backfill=False), loop=loop)) != []
    )
    assert (
        _rule_warnings(replay(alike, WidestFirst(placement="consolidate", backfill=False), loop=loop)) != []
    )
    assert (
        _rule_warnings(replay(unlike, WidestFirst(placement="consolidate", backfill=False), loop=loop)) == []
    )


@pytest.mark.parametrize("policy", ["las", "sjf"])
def test_the_number_of_sites_changes_no_warning(policy: str) -> None:
    for world in (_durations([30.0] * 5, speed=[1.0, 1.0]), _durations([3700.0, 20, 9], speed=[1.0, 1.0])):
        one, two = (replay(world, policy, loop="general", sites=sites) for sites in (1, 2))
        assert one.summary.policy_warnings == two.summary.policy_warnings


def test_a_run_prints_the_warning_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_jobs(tmp_path / "w.parquet", [Job(0, 1, 60), Job(5, 1, 60), Job(9, 1, 60)])
    (tmp_path / "c.yaml").write_text("name: c\nservers:\n  - {name: s, count: 1, gpus: 1}\n")
    capsys.readouterr()
    given = ["--workload", "w.parquet", "--cluster", "c.yaml", "--policy", "las"]
    told = answer(capsys, "run", *given, "-o", "run")
    [warning] = told["summary"]["policy_warnings"] or [""]
    assert "limit" in warning
    assert main(["info", "run"]) == 0
    assert warning in capsys.readouterr().err
