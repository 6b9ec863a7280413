"""Shares of GPUs: tasks on devices, against a naive loop, and where devices make no difference."""

from __future__ import annotations

from typing import cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.contract.books import checked_run
from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision
from ray_sim.engine.run import GeneralRun, Loop
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import fleet_of
from ray_sim.engine.states import State
from ray_sim.engine.world import World
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.model.errors import InfeasibleDecisionError, InvalidScenarioError
from ray_sim.policies.registry import create_policy
from tests.proofs import instances
from tests.random_worlds import PolicyChoice, policies, shared_worlds
from tests.worlds import Job, Times, cluster_of, fingerprint, job_table, replay, times_of, world_of

POOLED = {"gpu_shares": "pooled"}


def gangs(jobs: list[tuple[float, int, float, float]], gpus: list[float], **params: object) -> World:
    """Jobs (submission, tasks, GPUs of a task, duration)."""
    table = job_table(
        [Job(submit, tasks * ask, duration) for submit, tasks, ask, duration in jobs],
        columns={"num_tasks": [tasks for _, tasks, _, _ in jobs]},
    )
    return build_world(table, cluster_of(gpus), params=params)


def test_two_jobs_of_06_fill_two_gpus_for_a_third() -> None:
    jobs = [Job(0, 0.6, 10), Job(0, 0.6, 10), Job(0, 0.6, 10), Job(0, 0.4, 10)]
    result = replay(world_of(jobs, [2]), "fifo", backfill=True)
    starts = result.events.filter(pl.col("event") == "start").select("job_id", "time_s", "devices").rows()
    assert starts == [("J1", 0.0, "0"), ("J2", 0.0, "1"), ("J4", 0.0, "0"), ("J3", 10.0, "0")]
    pooled = replay(world_of(jobs, [2], params=POOLED), "fifo", backfill=True)
    assert times_of(pooled)["J3"] == (0.0, 10.0)
    assert "devices" not in pooled.events.columns


def test_a_gang_of_shares_needs_devices_not_a_sum() -> None:
    """Three tasks of 0.6 GPU are 1.8 GPUs, and no server of two GPUs holds them."""
    result = replay(gangs([(0, 3, 0.6, 10)], [2, 2]), "fifo", placement="consolidate")
    starts = result.events.filter(pl.col("event") == "start")
    assert starts.select("server", "count", "devices").rows() == [("s0", 2, "0-1"), ("s1", 1, "0")]
    alone = replay(gangs([(0, 3, 0.6, 10)], [2]), "fifo")
    assert times_of(alone) == {"J1": (None, None)}


class Scripted:
    """A server's devices as plain numbers."""

    def __init__(self, gpus: int) -> None:
        self.free = [1000] * gpus

    def take(self, ask: int) -> dict[int, int] | None:
        """Devices of one task, which are taken; None if there are none."""
        if ask < 1000:
            fit = [d for d, free in enumerate(self.free) if free >= ask]
            taken = {min(fit, key=lambda d: (self.free[d], d)): ask} if fit else None
        else:
            whole = [d for d, free in enumerate(self.free) if free == 1000][: ask // 1000]
            taken = dict.fromkeys(whole, 1000) if len(whole) * 1000 == ask else None
        for d, milli in (taken or {}).items():
            self.free[d] -= milli
        return taken

    def give(self, taken: dict[int, int]) -> None:
        for d, milli in taken.items():
            self.free[d] += milli


def in_order(servers: list[Scripted], tasks: int, ask: int) -> list[tuple[Scripted, dict[int, int]]]:
    """Tasks by server index, all or none."""
    placed: list[tuple[Scripted, dict[int, int]]] = []
    for server in servers:
        while len(placed) < tasks and (taken := server.take(ask)) is not None:
            placed.append((server, taken))
    if len(placed) == tasks:
        return placed
    for server, taken in placed:
        server.give(taken)
    return []


def naive_fifo(jobs: list[tuple[float, int, float, float]], gpus: list[float], backfill: bool) -> Times:
    """FIFO with placement by index, second by second; jobs that never fit are left out of the queue."""
    servers = [Scripted(int(n)) for n in gpus]
    asks = [(tasks, round(1000 * ask)) for _, tasks, ask, _ in jobs]
    able = [bool(in_order([Scripted(int(n)) for n in gpus], *ask)) for ask in asks]
    held: dict[int, list[tuple[Scripted, dict[int, int]]]] = {}
    start: dict[int, float] = {}
    for now in range(200):
        for j in [j for j in held if start[j] + jobs[j][3] == now]:
            for server, taken in held.pop(j):
                server.give(taken)
        for j in sorted(range(len(jobs)), key=lambda j: (jobs[j][0], j)):
            if able[j] and j not in start and jobs[j][0] <= now:
                if placed := in_order(servers, *asks[j]):
                    start[j], held[j] = float(now), placed
                elif not backfill:
                    break
    end = {j: at + jobs[j][3] for j, at in start.items()}
    return {f"J{j + 1}": (start.get(j), end.get(j)) for j in range(len(jobs))}


ASKS = st.sampled_from([0.2, 0.3, 0.5, 0.6, 1.0, 2.0])
GANGS = st.lists(
    st.tuples(st.integers(0, 6).map(float), st.integers(1, 4), ASKS, st.integers(1, 7).map(float)),
    min_size=1,
    max_size=12,
)
SIZES = st.lists(st.integers(1, 3).map(float), min_size=1, max_size=3)


@pytest.mark.slow
@settings(max_examples=instances(300, 300))
@given(jobs=GANGS, gpus=SIZES, backfill=st.booleans(), loop=st.sampled_from(["auto", "general"]))
def test_fifo_does_what_a_naive_loop_over_devices_does(
    jobs: list[tuple[float, int, float, float]], gpus: list[float], backfill: bool, loop: str
) -> None:
    world = gangs(jobs, gpus)
    result = replay(world, "fifo", placement="pooled", backfill=backfill, loop=cast("Loop", loop))
    assert times_of(result) == naive_fifo(jobs, gpus, backfill)


@pytest.mark.slow
@settings(max_examples=instances(200, 40))
@given(jobs=GANGS, gpus=SIZES, policy=policies())
def test_books_of_devices_add_up_and_both_loops_agree(
    jobs: list[tuple[float, int, float, float]], gpus: list[float], policy: PolicyChoice
) -> None:
    world = gangs(jobs, gpus, restart_cost_s=1.0)
    general = checked_run(world, policy.create())
    assert fingerprint(general) == fingerprint(replay(world, policy.create(), loop="auto"))


@pytest.mark.slow
@settings(max_examples=instances(400, 25))
@given(world=shared_worlds(), policy=policies(rules=QUEUE_RULES))
def test_devices_of_accepted_types_add_up_while_servers_come_and_go(
    world: World, policy: PolicyChoice
) -> None:
    general = checked_run(world, policy.create())
    assert fingerprint(general) == fingerprint(replay(world, policy.create(), loop="auto"))


@pytest.mark.slow
@settings(max_examples=instances(200, 40))
@given(
    jobs=GANGS,
    gpus=SIZES,
    policy=policies(),
    case=st.sampled_from(["one GPU a server", "one share that divides a GPU"]),
)
def test_devices_do_not_matter_where_sums_tell_all(
    jobs: list[tuple[float, int, float, float]], gpus: list[float], policy: PolicyChoice, case: str
) -> None:
    if case == "one GPU a server":
        gpus = [1.0] * len(gpus)
    else:
        jobs = [(submit, tasks, 0.25, duration) for submit, tasks, _, duration in jobs]
    worlds = [gangs(jobs, gpus, gpu_shares=how) for how in ("devices", "pooled")]
    devices, pooled = (replay(world, policy.create()) for world in worlds)
    assert devices.jobs.equals(pooled.jobs)
    assert devices.events.drop("devices", strict=False).equals(pooled.events)


@pytest.mark.parametrize(
    ("jobs", "gpus", "params", "told"),
    [
        ([(0, 1, 0.5, 1), (0, 2, 1.5, 1)], [4.0], {}, "job J2 asks for 1.5 GPUs a task"),
        ([(0, 1, 0.5, 1)], [4.0, 2.5], {}, "server s1 has 2.5 GPUs"),
        ([(0, 1, 0.5, 1)], [4.0], {"overcommit": 1.5}, "overcommit=1.5 promises more"),
    ],
)
def test_what_devices_cannot_be_is_refused_with_the_remedy(
    jobs: list[tuple[float, int, float, float]], gpus: list[float], params: dict[str, object], told: str
) -> None:
    with pytest.raises(InvalidScenarioError, match=told) as raised:
        gangs(jobs, gpus, **params)
    assert "gpu_shares=pooled" in str(raised.value)
    gangs(jobs, gpus, **params, **POOLED)


def test_a_decision_that_finds_no_device_is_refused() -> None:
    world = world_of([Job(0, 0.6, 10), Job(0, 0.6, 10), Job(0, 0.6, 10)], [2])
    run = Simulation(world, create_policy("fifo", {}))
    assert run.advance() is not None
    with pytest.raises(
        InfeasibleDecisionError, match=r"0.8 GPU free, on devices 0.4 and 0.4; a task needs 0.6"
    ):
        run.apply(Decision.of({job: [(0, 0, 1)] for job in range(3)}))
    run.apply(Decision.of({job: [(0, 0, 1)] for job in range(2)}))
    assert run.core.placements.free_devices.tolist() == [[400, 400]]


def test_a_decision_may_name_devices_that_its_tasks_can_take() -> None:
    world = world_of([Job(0, 0.6, 10), Job(0, 1, 10)], [3])
    run = Simulation(world, create_policy("fifo", {}))
    run.advance()
    decision = Decision.of({0: [(0, 0, 1)], 1: [(0, 0, 1)]})
    assert decision.changes is not None
    named = decision.changes._replace(device=np.array([[0, 600, 0], [0, 0, 1000]]))
    for wrong in ([[0, 600, 0], [500, 0, 500]], [[0, 600, 0], [0, 0, 0]], [[300, 300, 0], [0, 0, 1000]]):
        with pytest.raises(InfeasibleDecisionError, match="devices that do not add up"):
            run.apply(Decision(changes=named._replace(device=np.array(wrong))))
    run.apply(Decision(changes=named))
    assert run.core.placements.free_devices.tolist() == [[1000, 400, 0]]


@pytest.mark.slow
@given(jobs=GANGS, gpus=SIZES, policy=policies(), at=st.integers(1, 8))
@settings(max_examples=instances(60, 15))
def test_a_run_goes_on_from_a_snapshot_with_the_same_devices(
    jobs: list[tuple[float, int, float, float]], gpus: list[float], policy: PolicyChoice, at: int
) -> None:
    world = gangs(jobs, gpus)

    def started(saved: State | None = None) -> GeneralRun:
        fleet = fleet_of(world, 1, always=False)
        return GeneralRun(world, policy.create(), seed=0, fleet=fleet, saved=saved)

    first = started()
    for _ in range(at):
        if not first.decide_once():
            return
    second = started(first.state())
    for run in (first, second):
        while run.decide_once():
            pass
    assert fingerprint(first.result(None, "test")) == fingerprint(second.result(None, "test"))
