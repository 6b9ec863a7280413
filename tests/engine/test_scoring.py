"""Placement rules that score servers, in the engine: plain Python, both loops, and what they refuse."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import Loop, run_world
from ray_sim.engine.scoring import scoring_of
from ray_sim.engine.world import World
from ray_sim.kernels.core.server_scores import SCORED_RULES
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.errors import InvalidScenarioError, RunStoppedError
from ray_sim.model.result import RunResult
from ray_sim.policies.fifo import Fifo
from ray_sim.policies.las import Las
from ray_sim.policies.srtf import Srtf
from tests.engine.test_snapshots import Keeper
from tests.naive_scores import Scores, Server, Task, fragments, random_world, typical_tasks
from tests.proofs import instances, quick_first
from workloads.job_table import frame_to_table
from workloads.schema import with_all_columns

RESOURCES = ("gpu", "cpu", "memory_gib")
every_rule = pytest.mark.parametrize("rule", SCORED_RULES)


def cluster_of(servers: list[Server]) -> Cluster:
    n = len(servers)
    return Cluster(
        name="small",
        server_names=tuple(map(str, range(n))),
        resources=RESOURCES,
        capacity=np.array([[each.gpu, each.cpu, each.memory] for each in servers]),
        speed=np.ones(n),
        vc=(None,) * n,
        kind=(ServerKind.PLAIN,) * n,
        gpu_type=tuple(each.kind or None for each in servers),
    )


def frame_of(tasks: list[Task], duration_s: float, n_tasks: int = 1) -> pl.DataFrame:
    """One job per second."""
    columns: dict[str, list[object]] = {
        "job_id": [f"p{i}" for i in range(len(tasks))],
        "trace_order": list(range(len(tasks))),
        "submit_s": [float(i) for i in range(len(tasks))],
        "num_gpus": [task.gpu * task.gpus * n_tasks / 1000 for task in tasks],
        "num_tasks": [n_tasks] * len(tasks),
        "duration_s": [duration_s] * len(tasks),
        "cpu_per_task": [task.cpu / 1000 for task in tasks],
        "memory_gib_per_task": [task.memory / 1024 for task in tasks],
        "gpu_types": [task.types or None for task in tasks],
    }
    return with_all_columns(pl.DataFrame(columns, schema_overrides={"gpu_types": pl.String}))


def world_of(
    servers: list[Server],
    tasks: list[Task],
    duration_s: float = 1000,
    n_tasks: int = 1,
    target: str = "trace",
) -> World:
    table = frame_to_table(frame_of(tasks, duration_s, n_tasks), RESOURCES)
    return build_world(table, cluster_of(servers), params={"fragmentation_target": target})


def places(result: RunResult) -> dict[str, tuple[int, str | None]]:
    """Server and devices of each job that started."""
    started = result.events.filter(pl.col("event") == "start")
    devices = started["devices"] if "devices" in started.columns else [None] * started.height
    return dict(zip(started["job_id"], zip(map(int, started["server"]), devices, strict=True), strict=True))


@pytest.mark.parametrize("rule", quick_first([rule for rule in SCORED_RULES if rule != "random"]))
def test_jobs_that_never_leave_go_where_plain_python_puts_them(rule: str) -> None:
    for seed in range(instances(300)):
        servers, tasks = random_world(seed)
        world = world_of(servers, tasks)
        most = max(each.cpu for each in servers), 1000 * max(1, *(len(each.device) for each in servers))
        naive = Scores(*most, typical_tasks(tasks))
        expected = {}
        for i, task in enumerate(tasks):
            server, device = naive.best(rule, servers, task)
            if server >= 0:
                before = servers[server].device
                servers[server] = servers[server].with_task(task, device)
                taken = [d for d, free in enumerate(servers[server].device) if free < before[d]]
                expected[f"p{i}"] = (server, "-".join(map(str, taken)) or None)
        for loop in ("auto", "general"):
            result = run_world(world, Fifo(placement=rule, no_room="reject"), loop=loop)
            found = places(result)
            if not any(task.share_of_one for task in tasks):
                expected = {name: (server, None) for name, (server, _) in expected.items()}
            assert found == expected, (seed, loop)
            reasons = set(result.jobs.filter(pl.col("status") == "rejected")["reason"])
            assert reasons <= {"no_room", "never_fits"}


@pytest.mark.parametrize(
    ("rule", "target"), quick_first([*((rule, "trace") for rule in SCORED_RULES), ("fgd", "arrived")])
)
def test_both_loops_and_every_queue_give_the_same_events(rule: str, target: str) -> None:
    for seed in range(instances(100, 6)):
        servers, tasks = random_world(seed)
        world = world_of(servers, tasks, duration_s=4, target=target)
        for policy in (
            lambda: Fifo(placement=rule),
            lambda: Fifo(placement=rule, backfill=True),
            lambda: Fifo(placement=rule, no_room="reject"),
            lambda: Srtf(placement=rule),
            lambda: Las(placement=rule, limits_gpu_s=(2.0,)),
        ):
            compiled, general = (
                run_world(world, policy(), seed=5, loop=loop) for loop in ("auto", "general")
            )
            assert (compiled.loop, general.loop) == ("compiled", "general")
            assert compiled.events.equals(general.events), seed
            assert compiled.jobs.equals(general.jobs), seed


@every_rule
def test_a_gang_goes_task_by_task_or_not_at_all(rule: str) -> None:
    # Three tasks of 0.6 GPU: two servers hold one on each device.
    servers = [Server(8000, 64, [1000], ""), Server(8000, 64, [1000, 1000], "")]
    task = Task(1000, 1, 600, 1)
    found = run_world(world_of(servers, [task], n_tasks=3), Fifo(placement=rule)).events
    started = found.filter(pl.col("event") == "start").select("server", "count", "devices")
    assert started.rows() == [("0", 1, "0"), ("1", 2, "0-1")]
    refused = run_world(world_of(servers, [task], n_tasks=4), Fifo(placement=rule)).jobs
    assert refused["reason"].to_list() == ["never_fits"]


def test_random_draws_follow_the_seed() -> None:
    servers = [Server(64000, 640, [1000] * 4, "") for _ in range(4)]
    world = world_of(servers, [Task(1000, 1, 300, 1)] * 12)
    runs = [places(run_world(world, Fifo(placement="random"), seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert len({server for server, _ in runs[0].values()}) > 1


def test_rejected_jobs_do_not_hold_up_those_behind_them() -> None:
    # 2 GPUs: at 0 one job takes one; the next wants 2 and is rejected; the third takes the other.
    servers = [Server(8000, 64, [1000, 1000], "")]
    tasks = [Task(0, 0, 1000, gpus) for gpus in (1, 2, 1)]
    jobs = run_world(world_of(servers, tasks), Fifo(no_room="reject")).jobs
    assert jobs["status"].to_list() == ["completed", "rejected", "completed"]
    assert jobs["reason"].to_list() == [None, "no_room", None]


def test_the_target_is_that_of_the_list_that_a_stream_draws_from() -> None:
    servers = [Server(6000, 64, [600, 1000], "")]
    servers[0].device = [1000, 1000]
    world = world_of(servers, [Task(1000, 1, 500, 1)] * 3)
    listed = frame_to_table(frame_of([Task(2000, 1, 1000, 1)], 1), RESOURCES)
    streamed = replace(world, table=replace(world.table, listed=listed))
    scorings = [scoring_of(each, "fgd") for each in (world, streamed)]
    assert [each.target.cpu.tolist() for each in scorings if each is not None] == [[1000], [2000]]


Row = tuple[int, int, str | None]
"""Server, tasks and their devices."""


@dataclass
class Gang:
    """A job of the naive loop below."""

    name: str
    task: Task
    tasks: int
    submit: int
    end: int = 0
    held: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Server and devices of each task."""


class NaiveQueue:
    """First in, first out with backfilling, under `fgd` with the target of the jobs that have come."""

    def __init__(self, servers: list[Server], gangs: list[Gang], duration: int) -> None:
        self.empty, self.servers, self.gangs, self.duration = list(servers), list(servers), gangs, duration
        self.most = max(each.cpu for each in servers), max(1, *(each.gpu for each in servers))
        self.starts: dict[str, tuple[int, list[Row]]] = {}
        self.fragments: dict[int, float] = {}

    def placed(self, gang: Gang, servers: list[Server], now: int) -> tuple[list[Server], Gang] | None:
        """Servers with a gang, task by task; None where one does not fit."""
        come = [each.task for each in self.gangs if each.submit <= now for _ in range(each.tasks)]
        scores, after, held = Scores(*self.most, typical_tasks(come)), list(servers), []
        for _ in range(gang.tasks):
            server, device = scores.best("fgd", after, gang.task)
            if server < 0:
                return None
            before = after[server].device
            after[server] = after[server].with_task(gang.task, device)
            taken = tuple(d for d, free in enumerate(after[server].device) if free < before[d])
            held.append((server, taken))
        return after, replace(gang, end=now + self.duration, held=tuple(held))

    def run(self) -> None:
        waiting: list[Gang] = []
        running: list[Gang] = []
        instants = sorted({gang.submit for gang in self.gangs})
        while instants:
            now = instants.pop(0)
            for gang in [each for each in running if each.end == now]:
                running.remove(gang)
                for server, devices in gang.held:
                    self.servers[server] = without(self.servers[server], gang.task, devices)
            waiting += [
                gang for gang in self.gangs if gang.submit == now and self.placed(gang, self.empty, now)
            ]
            for gang in list(waiting):
                if (found := self.placed(gang, self.servers, now)) is None:
                    continue
                waiting.remove(gang)
                self.servers, started = found
                running.append(started)
                self.starts[gang.name] = now, rows_of(started)
                instants = sorted({*instants, started.end})
            come = [each.task for each in self.gangs if each.submit <= now for _ in range(each.tasks)]
            self.fragments[now] = sum(fragments(each, typical_tasks(come)) for each in self.servers) / 1000


def rows_of(gang: Gang) -> list[Row]:
    rows = []
    for server in sorted({server for server, _ in gang.held}):
        here = [devices for each, devices in gang.held if each == server]
        rows.append((server, len(here), "-".join(map(str, sorted(d for each in here for d in each))) or None))
    return rows


def without(server: Server, task: Task, devices: tuple[int, ...]) -> Server:
    """The server after the end of a task."""
    device = [free + task.gpu * (d in devices) for d, free in enumerate(server.device)]
    return Server(server.cpu + task.cpu, server.memory + task.memory, device, server.kind)


@pytest.mark.slow
def test_the_arrived_target_is_counted_anew_at_each_instant_by_plain_python() -> None:
    differing = 0
    for seed in range(instances(300, 12)):
        draw = random.Random(seed)
        servers, tasks = random_world(seed)
        tasks[0] = Task(500, 8, 230, 1)  # GPUs are devices
        gangs = [
            Gang(f"p{i}", task, draw.choice([1, 1, 2, 3]), submit)
            for i, (task, submit) in enumerate(
                zip(tasks, [0, *sorted(draw.choices(range(9), k=11))], strict=True)
            )
        ]
        frame = frame_of(tasks, 4).with_columns(
            submit_s=pl.Series([float(gang.submit) for gang in gangs]),
            num_tasks=pl.Series([gang.tasks for gang in gangs]),
            num_gpus=pl.Series([gang.tasks * gang.task.gpu * gang.task.gpus / 1000 for gang in gangs]),
        )
        naive = NaiveQueue(servers, gangs, 4)
        naive.run()
        table, on = frame_to_table(frame, RESOURCES), cluster_of(servers)
        world = build_world(table, on, params={"fragmentation_target": "arrived"})

        def run(
            sites: int = 1, loop: Loop = "general", keeper: Keeper | None = None, world: World = world
        ) -> RunResult:
            policy = Fifo(placement="fgd", backfill=True)
            return run_world(world, policy, sites=sites, loop=loop, keeper=keeper)

        stopped = Keeper(stop_after=draw.randint(1, 4))
        with suppress(RunStoppedError):
            run(sites=2, keeper=stopped)
        compiled = run(loop="auto")
        assert compiled.loop == "compiled"
        assert starts(compiled) == naive.starts, seed
        found = dict(compiled.timeline.select("time_s", "frag_gpu").iter_rows())
        assert found == pytest.approx({t: naive.fragments[int(t)] for t in found}, abs=1e-9), seed
        for other in (run(), run(sites=2), run(keeper=Keeper(state=stopped.state))):
            assert other.events.equals(compiled.events), seed
            assert other.timeline.equals(compiled.timeline), seed
        differing += (
            starts(run_world(build_world(table, on), Fifo(placement="fgd", backfill=True))) != naive.starts
        )
    assert differing > 0


def starts(result: RunResult) -> dict[str, tuple[int, list[Row]]]:
    """Instant of each job that started, and its rows: server, tasks, devices."""
    found: dict[str, tuple[int, list[Row]]] = {}
    columns = ("job_id", "time_s", "server", "count", "devices")
    for name, time_s, *row in result.events.filter(pl.col("event") == "start").select(columns).iter_rows():
        found.setdefault(name, (int(time_s), []))[1].append((int(row[0]), row[1], row[2]))
    return found


def test_gpus_that_are_no_devices_are_refused() -> None:
    servers = [Server(8000, 64, [1000, 1000], "")]
    table = frame_to_table(frame_of([Task(0, 0, 600, 1)], 1), RESOURCES)
    pooled = build_world(table, cluster_of(servers), params={"gpu_shares": "pooled"})
    with pytest.raises(
        InvalidScenarioError, match="placement=fgd places tasks on GPUs as devices, and job p0"
    ):
        run_world(pooled, Fifo(placement="fgd"))


def test_fgd_says_that_it_knows_the_jobs_to_come() -> None:
    assert (
        "whole_trace" in Fifo(placement="fgd").sees & Srtf(placement="fgd").sees & Las(placement="fgd").sees
    )
    assert "whole_trace" not in Fifo(placement="best_fit").sees
