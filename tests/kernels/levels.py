"""Jobs under a rule of attained service, running or waiting as a test puts them."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.engine.compiled import new_engine
from ray_sim.kernels.core import queue_levels, running
from ray_sim.kernels.core.arrays import RUNNING, WAITING
from ray_sim.kernels.core.attained_service import end_place, running_place
from ray_sim.kernels.core.queue_dispatch import enqueue
from ray_sim.kernels.core.replay_state import SERVICE, Engine, Order
from tests.kernels.by_hand import ints
from tests.worlds import Job, world_of

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
            kind, 0, False, True, ints([0] * N_JOBS), ints(limits), first, knob, ints(gpus), True, ints([0])
        )
        return cls(new_engine(WORLD), order)

    def start(self, job: int, now: int, turn: int) -> None:
        """A job begins to run at rate 1."""
        engine = self.engine
        engine.ledger.status[job], engine.ledger.anchor[job], engine.ledger.rate[job] = RUNNING, now, 1.0
        engine.place[job] = running_place(turn)
        key = queue_levels.current_key(self.order, engine, job, now)
        running.insert(engine.running, 0, engine.run_size[0], job, key, -1, 0)
        engine.run_size[0] += 1
        queue_levels.watch_limit(now, self.order, engine, job)

    def wait(self, job: int, ran: int, last_stop: int, level: int) -> None:
        """A job waits that has run for ``ran``."""
        engine = self.engine
        engine.ledger.status[job], engine.ledger.ran[job] = WAITING, ran
        engine.ledger.last_stop[job], engine.level[job] = last_stop, level
        engine.place[job] = end_place(0)
        key = queue_levels.current_key(self.order, engine, job, last_stop)
        enqueue(ARRAYS, engine.queue, job, key)

    def in_order(self) -> list[int]:
        """Running jobs as listed."""
        engine = self.engine
        return [int(engine.running.job[slot]) for slot in engine.running.order[: engine.run_size[0]]]
