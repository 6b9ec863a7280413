"""What a market offers to one job: the worked example of two GPU types."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray
from ray_sim.policies.shared.sold_plans import PricedServers
from ray_sim.solvers.planning.market import Constants, Market
from ray_sim.solvers.planning.schedule import Planning, Schedule, best_schedule
from tests.solvers.planning.small import EXAMPLE_A, floats, ints, servers

T4, V100 = 0, 1
JOB = replace(EXAMPLE_A, worker_demand=ints(2, 0), ps_demand=ints(0, 1), utility=floats(10))
"""Two workers of 2 GPUs train its 100 samples in a slot on one server, four across; a PS each, of a core."""


def half_full_market() -> PricedServers:
    """A T4 server of 4 GPUs and 4 cores, free, and a V100 server of 16 and 2, half full; one slot.

    L = 0.1 and U = 10, so a GPU or core costs 0.1 on the T4 server and sqrt(0.1 x 10) = 1 on the V100 server.
    """
    market = Market.empty(servers([4, 4], [16, 2]), Constants(0.1, floats(10, 10)), 1)
    market.load[0, V100] = 8, 1
    market.price[:] = market.constants.prices(market.load, market.cluster.capacity)
    return PricedServers(ints(T4, V100), market)


def plan_of(priced: PricedServers, offered: IntArray) -> Schedule:
    found = best_schedule(JOB, priced.offering(offered, 0).market, Planning(), Streams(0))
    assert isinstance(found, Schedule)
    return found


def rows(found: Schedule) -> list[list[int]]:
    plan = found.plan
    rows: list[list[int]] = np.stack([plan.server, plan.workers, plan.ps], axis=1).tolist()
    return rows


def test_workers_are_bought_on_the_type_that_is_accepted_and_parameter_servers_anywhere() -> None:
    priced = half_full_market()
    assert priced.market.price[0] == pytest.approx(np.array([[0.1, 0.1], [1, 1]]))
    # Any type: 4 GPUs and 2 cores of the T4 server at 0.1.
    anywhere = plan_of(priced, ints(4, 4, 16, 2).reshape(2, 2))
    assert rows(anywhere) == [[T4, 2, 2]]
    assert anywhere.payoff == pytest.approx(10 - 0.6)
    # V100 only: its one free core serves one worker, so the job is spread: 8 GPUs at 1, 4 cores of the T4
    # server at 0.1.
    confined = plan_of(priced, ints(0, 4, 16, 2).reshape(2, 2))
    assert rows(confined) == [[T4, 0, 4], [V100, 4, 0]]
    assert confined.payoff == pytest.approx(10 - 8.4)
    # Only what is sold raises prices: the T4 server's GPUs stay free.
    priced.market.sell(JOB, confined.plan)
    assert priced.market.price[0] == pytest.approx(np.array([[0.1, 10], [10, 1]]))


def test_a_market_that_offers_everything_is_the_market_itself() -> None:
    priced = half_full_market()
    assert priced.offering(priced.market.cluster.capacity, 0) is priced


def test_what_is_withheld_counts_as_load_from_a_slot_on() -> None:
    market = Market.empty(servers([4, 4], [16, 2]), Constants(0.1, floats(10, 10)), 3)
    offered = PricedServers(ints(5, 7), market).offering(np.eye(8, 2, -5, dtype=np.int64) * 4, 1).market
    # Server 5 of the run, the first here, offers 4 GPUs and no core, and server 7 nothing.
    assert offered.load.tolist() == [[[0, 0], [0, 0]], *[[[0, 4], [16, 2]]] * 2]
    assert market.load.max() == 0
