"""Fragments and arrived GPUs in the timeline: against the state of the servers computed by hand."""

from __future__ import annotations

import polars as pl
import pytest

from ray_sim.engine.run import run_world
from ray_sim.policies.fifo import Fifo
from ray_sim.policies.srtf import Srtf
from tests.engine.test_scoring import world_of
from tests.naive_scores import Server, Task, fragments, random_world, typical_tasks
from tests.proofs import instances


@pytest.mark.parametrize("rule", ["fgd", "best_fit"])
def test_each_line_has_the_fragments_that_are_left_after_its_events(rule: str) -> None:
    for seed in range(instances(60, 6)):
        servers, tasks = random_world(seed)
        result = run_world(world_of(servers, tasks, duration_s=3), Fifo(placement=rule, backfill=True))
        typical, held = typical_tasks(tasks), dict[str, tuple[int, Server]]()
        by_name = {f"p{i}": task for i, task in enumerate(tasks)}
        for line in result.timeline.iter_rows(named=True):
            for event in result.events.filter(pl.col("time_s") == line["time_s"]).iter_rows(named=True):
                name, task = event["job_id"], by_name[event["job_id"]]
                if event["event"] == "finish":
                    server, before = held.pop(name)
                    here = servers[server]
                    freed = [a + b for a, b in zip(here.device, before.device, strict=True)]
                    servers[server] = Server(here.cpu + task.cpu, here.memory + task.memory, freed, here.kind)
                if event["event"] == "start":
                    server = int(event["server"])
                    here, taken = servers[server], [0] * len(servers[server].device)
                    whole = [d for d, free in enumerate(here.device) if free == 1000][: task.gpus]
                    named = event.get("devices")
                    for d in whole if named is None else map(int, named.split("-")):
                        taken[d] = task.gpu
                    left = [a - b for a, b in zip(here.device, taken, strict=True)]
                    servers[server] = Server(here.cpu - task.cpu, here.memory - task.memory, left, here.kind)
                    held[name] = server, Server(0, 0, taken, "")
            expected = sum(fragments(server, typical) for server in servers) / 1000
            assert line["frag_gpu"] == pytest.approx(expected, abs=1e-9), seed
            come = [task for i, task in enumerate(tasks) if i <= line["time_s"]]
            assert line["arrived_gpu"] == sum(task.gpu * task.gpus for task in come) / 1000


def test_moved_and_suspended_jobs_leave_no_fragments_behind() -> None:
    # A long job gives way to a short one on the only GPU and comes back: 1 GPU is free in the end.
    servers = [Server(8000, 64, [1000], "")]
    world = world_of(servers, [Task(1000, 1, 600, 1), Task(1000, 1, 1000, 1)], duration_s=5)
    world.table.work_us[:] = [9_000_000, 2_000_000]
    lines = run_world(world, Srtf(placement="fgd")).timeline
    # Half of the tasks want 0.6: of 0.4 GPU free nothing serves anyone; of 1 GPU all does.
    assert lines.select("time_s", "frag_gpu").rows() == [(0, 0.4), (1, 0), (3, 0.4), (11, 0)]


def test_rules_without_scores_have_no_fragments() -> None:
    servers = [Server(8000, 64, [1000], "")]
    timeline = run_world(world_of(servers, [Task(1000, 1, 600, 1)]), Fifo()).timeline
    assert "frag_gpu" not in timeline.columns
