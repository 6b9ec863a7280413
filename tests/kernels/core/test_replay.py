"""The compiled loop, called as it is: it may be left and entered again between any two instants."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.engine.compiled import new_engine
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.recording import Recording
from ray_sim.kernels.core.replay import replay
from ray_sim.kernels.core.replay_state import DONE, NOW
from ray_sim.policies.registry import create_policy
from tests.worlds import Job, world_of

WORLD = world_of(
    [Job(i // 2, 1 + i % 3, 2 + i % 5) for i in range(20)], [2, 1, 4], params={"restart_cost_s": 1}
)


def ledger_after(policy: str, instants: int) -> tuple[dict[str, list[float]], int]:
    """The ledger at the end, and the number of calls that it took."""
    order = create_policy(policy, {}).order(
        PolicyContext(WORLD, frozenset({"duration_s", "work_left", "attained_service"}), policy)
    )
    assert order is not None
    engine, recording = new_engine(WORLD, order), Recording(WORLD)
    books = engine.books
    calls, last = 0, -2
    while not engine.clock[DONE]:
        replay(
            order, engine, recording.ensure_room(), WORLD.outages, WORLD.restart_us,
            WORLD.horizon_us, instants, recording.bound,
        )  # fmt: skip
        calls += 1
        assert engine.clock[NOW] >= last
        last = int(engine.clock[NOW])
    assert books.pool.free.tolist() == WORLD.first_capacity.tolist()  # all is given back
    assert books.counts.tolist() == [0, 0]
    names = ("status", "ran", "held", "first_start", "end", "preemptions", "restarts")
    return {name: getattr(books.ledger, name).tolist() for name in names}, calls


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srtf", "las"])
def test_one_instant_at_a_time_leaves_the_ledger_of_one_call(policy: str) -> None:
    whole, calls = ledger_after(policy, 10**6)
    assert calls == 1
    stepwise, calls = ledger_after(policy, 1)
    assert calls > 10
    assert stepwise == whole
    assert np.array(whole["ran"]).tolist() == WORLD.table.work_us.tolist()
