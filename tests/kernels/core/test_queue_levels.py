"""Queues of attained service (LAS): crossings, places and promotions, against counting limits anew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings

from ray_sim.engine.compiled import new_engine
from ray_sim.kernels.core import queue_levels, running
from ray_sim.kernels.core.arrays import LEVEL, NEVER, RUNNING, WAITING, new_recorder
from ray_sim.kernels.core.attained_service import among_running, end_place, front_place, running_place
from ray_sim.kernels.core.heap import next_time
from ray_sim.kernels.core.queue_dispatch import enqueue
from ray_sim.kernels.core.replay_state import REMAINING, SERVICE, Engine, Order
from tests.kernels.by_hand import SEEDS, ints
from tests.proofs import instances
from tests.worlds import Job, changes_of, world_of

N_JOBS = 6
WORLD = world_of([Job(0, 1, 100)] * N_JOBS, [8])
ARRAYS = WORLD.arrays


class Levels(NamedTuple):
    """The state that the kernels change, and their order rule."""

    engine: Engine
    order: Order

    @classmethod
    def of(
        cls, gpus: list[int], limits: list[int], *, kind: int = SERVICE, knob: float = 0.0, first: bool = True
    ) -> Levels:
        order = Order(
            kind,
            0,
            False,
            True,
            ints([0] * N_JOBS),
            ints(limits),
            first,
            knob,
            ints(gpus),
            True,
            False,
            ints([0]),
        )
        return cls(new_engine(WORLD, order), order)

    def start(self, job: int, now: int, turn: int) -> None:
        """A job begins to run at rate 1."""
        engine = self.engine
        engine.books.ledger.status[job], engine.books.ledger.anchor[job], engine.books.ledger.rate[job] = (
            RUNNING,
            now,
            1.0,
        )
        engine.place[job] = running_place(turn)
        key = queue_levels.current_key(self.order, engine, job, now)
        running.insert(engine.running, 0, engine.run_size[0], job, key, -1, 0)
        engine.run_size[0] += 1
        queue_levels.watch_limit(now, self.order, engine, job)

    def wait(self, job: int, ran: int, last_stop: int, level: int) -> None:
        """A job waits that has run for ``ran``."""
        engine = self.engine
        engine.books.ledger.status[job], engine.books.ledger.ran[job] = WAITING, ran
        engine.books.ledger.last_stop[job], engine.level[job] = last_stop, level
        engine.place[job] = end_place(0)
        key = queue_levels.current_key(self.order, engine, job, last_stop)
        enqueue(ARRAYS, engine.serving.queue, job, key)

    def in_order(self) -> list[int]:
        """Running jobs as listed."""
        engine = self.engine
        return [int(engine.running.job[slot]) for slot in engine.running.order[: engine.run_size[0]]]


def test_a_job_of_two_gpus_crosses_limits_of_10_and_25_after_5_and_13_microseconds() -> None:
    # 2 GPU: 10 GPU us are reached at 5 us, 25 at 12.5 us, rounded up.
    levels = Levels.of([2000, 1000, 1, 1, 1, 1], [10_000, 25_000])
    engine, order = levels
    levels.start(0, 0, 1)
    levels.start(1, 3, 2)  # reaches 10 GPU us at 13
    for now, crossed, level, following in ((4, False, 0, 5), (5, True, 1, 13)):
        assert queue_levels.cross_limits(now, order, engine) == crossed
        assert (engine.level[0], next_time(engine.crossings, engine.crossing)) == (level, following)
    assert levels.in_order() == [1, 0]
    assert queue_levels.cross_limits(13, order, engine)
    assert (engine.level[:2].tolist(), engine.crossing[:2].tolist()) == ([2, 1], [NEVER, 3 + 25])
    record = new_recorder(5, 1, 1)
    engine.moved[0], engine.moved[1], engine.n_moved[0] = 1, 0, 2
    queue_levels.record_levels(13, engine, record)
    assert [array[:2].tolist() for array in (record.kind, record.job, record.value)] == [
        [LEVEL] * 2, [0, 1], [2, 1]
    ]  # fmt: skip


def test_the_key_of_remaining_work_is_rounded_up_and_of_service_the_level_comes_first() -> None:
    levels = Levels.of([1] * N_JOBS, [], kind=REMAINING)
    levels.engine.books.ledger.work_left[:3] = [7.0, 6.25, 6.0]
    assert [queue_levels.current_key(levels.order, levels.engine, job, 0) for job in range(3)] == [7, 7, 6]
    by_start = Levels.of([1] * N_JOBS, [5], first=False)
    by_start.engine.books.ledger.first_start[:3] = [9, 4, NEVER]
    by_start.engine.level[1] = 1
    keys = [queue_levels.current_key(by_start.order, by_start.engine, job, 0) for job in range(3)]
    assert sorted(range(3), key=lambda job: keys[job]) == [0, 2, 1]


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_levels_are_the_limits_reached_at_every_change(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gpus = rng.integers(1, 5, N_JOBS).tolist()
    limits = np.sort(rng.choice(np.arange(1, 60), 3, replace=False))
    levels = Levels.of(gpus, limits.tolist())
    engine, order = levels
    starts = np.sort(rng.integers(0, 8, N_JOBS))
    crossings = {
        int(s + -(-limit // g)) for s, g in zip(starts, gpus, strict=True) for limit in limits.tolist()
    }
    for now in sorted(crossings | set(starts.tolist()) | {9, 70}):
        assert queue_levels.cross_limits(now, order, engine) == (now in crossings)
        queue_levels.place_moved(now, order, engine)
        engine.n_moved[0] = 0
        for job in np.flatnonzero(starts == now).tolist():
            engine.turn[0] += 1
            levels.start(job, now, int(engine.turn[0]))
        attained = np.maximum(now - starts, 0) * gpus
        assert engine.level.tolist() == [int((service >= limits).sum()) for service in attained]
        begun = np.flatnonzero(starts <= now).tolist()
        assert levels.in_order() == sorted(begun, key=lambda job: (engine.level[job], engine.place[job]))
        assert all(among_running(engine.place[job]) for job in begun)


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_waiting_jobs_are_promoted_when_they_have_waited_knob_times_what_they_ran(seed: int) -> None:
    rng = np.random.default_rng(seed)
    knob = float(rng.choice([0.5, 1.0, 1.5, 3.0]))
    levels = Levels.of([1] * N_JOBS, [4], knob=knob)
    engine, order = levels
    ran, stop = rng.integers(0, 9, N_JOBS), rng.integers(0, 9, N_JOBS)
    for job in range(N_JOBS):
        levels.wait(job, int(ran[job]), int(stop[job]), int(ran[job] >= 4))
    due = [int(np.ceil(s + knob * r)) if r else NEVER for r, s in zip(ran, stop, strict=True)]
    for now in sorted({9, *(at for at in due if 9 < at < NEVER), 45}):
        waits = [at for job, at in enumerate(due) if engine.forgiven[job] < ran[job]]
        assert queue_levels.next_promotion(0, order, engine) == min(waits, default=NEVER)
        queue_levels.promote_starved(0, now, order, engine)
        up = [at <= now for at in due]
        assert engine.forgiven.tolist() == np.where(up, ran, 0).tolist()
        assert engine.level.tolist() == np.where(up, 0, ran >= 4).tolist()
        keys = [queue_levels.current_key(order, engine, job, now) for job in range(N_JOBS)]
        assert engine.serving.queue.key.tolist() == keys
        assert engine.serving.queue.heap[0] == np.argmin(keys)


def test_started_jobs_go_behind_running_ones_and_suspended_ones_before_waiting_ones() -> None:
    levels = Levels.of([1] * N_JOBS, [4])
    engine = levels.engine
    engine.turn[0] = 9
    for job in (0, 1, 2):
        engine.place[job] = running_place(1 + job)
    for job in (3, 4, 5):
        queue_levels.join_queue(engine, job)
        engine.turn[0] += 1
    # 1 and 2 are suspended, 5 starts, 0 moves: what was running keeps its place.
    here = [(0, 0, 1)]
    queue_levels.change_places(engine, changes_of([(1, []), (5, here), (2, []), (0, here)]))
    assert sorted(range(N_JOBS), key=lambda job: engine.place[job]) == [0, 5, 1, 2, 3, 4]
    assert [job for job in range(N_JOBS) if among_running(engine.place[job])] == [0, 5]


def test_a_job_that_lost_its_server_waits_first_in_the_queue_of_what_it_attained() -> None:
    engine, order = Levels.of([1] * N_JOBS, [4, 8])
    engine.turn[0], engine.level[0] = 2, 1
    # Limits of 4 and 8: of 9 us 2 are forgiven, 7 stay in its queue, of 9 then 6, and it falls back a queue.
    for forgiven, level, place in ((2, 1, front_place(2)), (6, 0, end_place(2))):
        engine.books.ledger.ran[0], engine.forgiven[0] = 9, forgiven
        queue_levels.settle_level(20, order, engine, 0)
        assert (engine.level[0], engine.place[0]) == (level, place)
