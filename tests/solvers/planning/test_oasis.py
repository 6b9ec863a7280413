"""OASiS: the worked example, its constants, and the best schedule against all schedules there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.units import BoolArray, tolerant_ceil
from ray_sim.policies.shared.planning_parameters import DeclaredRanges
from ray_sim.solvers.planning.market import Constants, Market, Ranges, declared_constants
from ray_sim.solvers.planning.oasis import Sides, best_schedule, role_constants
from ray_sim.solvers.planning.schedule import Infeasible, NotWorthIt, Obstacle, Schedule
from ray_sim.solvers.planning.slot_job import SlotJob
from tests.proofs import instances
from tests.solvers.planning.small import drawn_job, floats, ints, offered_beside, servers

EXAMPLE_D = SlotJob(
    number=0,
    arrival=0,
    samples=6.0,  # E = 2 epochs of N = 3 chunks
    theta_internal=0.1,  # never used: the roles have servers of their own
    theta_external=1.0,  # k = 10 (0.05 + 0.05)
    most_workers=3,
    workers_per_ps=2.0,
    worker_demand=ints(2),
    ps_demand=ints(1),
    utility=floats(20, 12, 9),
)


def side(capacity: list[int], prices: list[float], slots: int) -> Market:
    """One resource at the same prices in every slot."""
    cluster = servers(*([c] for c in capacity))
    price = np.tile(np.array(prices)[:, None], (slots, 1, 1))
    return Market(cluster, Constants(0.1, floats(10)), np.zeros(price.shape, dtype=np.int64), price)


def test_example_6_d_takes_two_slots() -> None:
    # Two slots: 3 workers (2 on the cheap server: 2 x 2 x 0.5; 1 on the other: 2 x 1), 2 PS (0.8): 9.6,
    # and 12 - 9.6 = 2.4.
    # Three slots: 2 workers (2) and 1 PS (0.4): 7.2, 9 - 7.2 = 1.8.
    sides = Sides(side([4, 4], [0.5, 1], 3), side([2], [0.4], 3))
    found = best_schedule(EXAMPLE_D, sides, 6)
    assert isinstance(found, Schedule)
    assert (found.end, found.cost, found.payoff) == pytest.approx((1, 9.6, 2.4))
    rows = zip(found.plan.slot, found.plan.server, found.plan.workers, found.plan.ps, strict=True)
    of_slot = [(0, 2, 0), (1, 1, 0), (2, 0, 2)]  # servers 0 and 1 are for workers
    assert [tuple(map(int, row)) for row in rows] == [(slot, *row) for slot in (0, 1) for row in of_slot]
    later = best_schedule(replace(EXAMPLE_D, utility=floats(20, 11, 9)), sides, 6)
    assert isinstance(later, Schedule)
    assert (later.end, later.payoff) == pytest.approx((2, 1.8))


def test_the_constants_of_example_6_d() -> None:
    # 6 worker-slots. Workers: 6 x 2 = 12 of 3 slots x 8: 1 / eta = 12 / 24, L = 9 / (4 x 2 x 12). 3 workers
    # take ceil(6 / 3) = 2 slots: U = f(1) / 2.
    # Parameter servers: 6 x 1 = 6 of 3 x 2, L = 9 / (4 x 1 x 6), U = f(1) / 1.
    workers = role_constants([EXAMPLE_D], WORKER, servers([4], [4]), 3)
    ps = role_constants([EXAMPLE_D], PARAMETER_SERVER, servers([2]), 3)
    assert (workers.lowest, workers.highest[0]) == pytest.approx((9 / 96, 6))
    assert (ps.lowest, ps.highest[0]) == pytest.approx((9 / 24, 12))
    # U / L is 64 and 32, so at half the load prices are L x 8 and L x sqrt(32).
    assert workers.prices(ints(0, 2, 4), ints(4)) == pytest.approx([9 / 96, 0.75, 6])
    assert ps.prices(ints(0, 1, 2), ints(2)) == pytest.approx([9 / 24, 9 / 24 * 32**0.5, 12])


def test_declared_ranges_with_one_job_in_them_are_the_constants_of_example_6_d() -> None:
    # The job ends at once in slot 1 at the best, f(1) = 12, and in slot 2 at the latest, f(2) = 9.
    for role, cluster, demand, work in (
        (WORKER, servers([4], [4]), 2, 12),
        (PARAMETER_SERVER, servers([2]), 1, 6),
    ):
        traced = role_constants([EXAMPLE_D], role, cluster, 3)
        ranges = Ranges((9.0, 12.0), floats(demand), (float(work), float(work)))
        # Half of the bound on the initial dual to each side: L = 9 / (2 x 2 x 3 slots x capacity).
        declared = declared_constants(ranges, cluster, 3, markets=2)
        assert declared.lowest == pytest.approx(traced.lowest, rel=1e-15)
        assert declared.highest == pytest.approx(traced.highest, rel=1e-15)


@pytest.mark.parametrize("seed", range(30))
def test_declared_ranges_that_hold_every_job_hold_the_prices_of_both_sides(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sides = [servers(*draw.integers(1, 9, (2, 3)).tolist()) for _ in range(2)]
    jobs = [drawn_job(draw, n, 4, 3).apart() for n in range(6)]
    ended = [job for job in jobs if job.can_end and job.demand.any(axis=1).all()]
    if not ended:
        return
    utility = min(float(job.utility[-1]) for job in ended), max(float(job.utility[0]) for job in ended)
    demand = np.array([[job.demand[role] for job in ended] for role in range(2)], dtype=np.float64)
    slots = [tolerant_ceil(job.samples * job.theta_external) for job in ended]
    work = np.array([n * job.demand.sum(axis=1) for n, job in zip(slots, ended, strict=True)]).T
    least = [np.where(d > 0, d, np.inf).min(axis=0) for d in demand]
    least = [np.where(np.isinf(d), 0.0, d) for d in least]
    both = np.where(least[0] * least[1] > 0, np.minimum(*least), np.maximum(*least))
    together = DeclaredRanges(utility, both.tolist(), (work.min(), work.max()))
    in_turn = DeclaredRanges(
        utility,
        np.concatenate(least).tolist(),
        [f(work[role]) for role in range(2) for f in (np.min, np.max)],
    )
    names = ("workers", "parameter servers")
    for ranges in (in_turn, together):
        found = ranges.of_markets("oasis", ("a", "b", "c"), names)
        for role, of_side in enumerate(found):
            traced = role_constants(ended, role, sides[role], 4)
            declared = declared_constants(of_side, sides[role], 4, markets=2)
            assert declared.lowest <= traced.lowest * (1 + 1e-12)
            used = demand[role].any(axis=0)
            assert (declared.highest[used] >= traced.highest[used] * (1 - 1e-12)).all()


@pytest.mark.parametrize(
    ("job", "obstacle"),
    [
        (replace(EXAMPLE_D, samples=10.0), Obstacle.HORIZON),  # 3 slots of 3 workers
        (replace(EXAMPLE_D, ps_demand=ints(3)), Obstacle.ROOM),
    ],
)
def test_what_cannot_be_done_says_why(job: SlotJob, obstacle: Obstacle) -> None:
    outcome = best_schedule(job, Sides(side([4, 4], [0.5, 1], 3), side([2], [0.4], 3)), 6)
    assert outcome == Infeasible(obstacle)


def all_costs(job: SlotJob, sides: Sides, slot: int, barred: BoolArray) -> dict[int, float]:
    """For every number of workers in a slot the least cost of all placements of them and their PSs.

    No task that takes the first resource stands on ``barred`` servers, (2, S).
    """

    def least(market: Market, demand: np.ndarray, tasks: int) -> float:
        free = market.cluster.capacity - market.load[slot]
        price = (market.price[slot] * demand).sum(axis=1)
        no = barred[int(market is sides.ps)] & (demand[0] > 0)
        ways = product(range(tasks + 1), repeat=len(free))
        fine = (
            n
            for n in ways
            if sum(n) == tasks and not np.array(n)[no].any() and (np.outer(n, demand) <= free).all()
        )
        return min((float(np.dot(n, price)) for n in fine), default=np.inf)

    costs = {0: 0.0}
    for workers in range(1, job.most_workers + 1):
        ps = -(-workers // int(job.workers_per_ps))
        costs[workers] = least(sides.workers, job.worker_demand, workers) + least(sides.ps, job.ps_demand, ps)
    return costs


def all_payoffs(job: SlotJob, sides: Sides, barred: BoolArray) -> Iterator[float]:
    """Of every number of workers in every slot that is enough."""
    slots = [list(all_costs(job, sides, t, barred).items()) for t in range(job.arrival, len(sides.ps.load))]
    for choice in product(*slots):
        if sum(n for n, _ in choice) >= job.samples:
            end = max(slot for slot, (n, _) in enumerate(choice) if n)
            yield float(job.utility[end]) - sum(cost for _, cost in choice)


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("seed", range(instances(300, 40)))
def test_the_exact_search_finds_the_best_of_all_schedules(seed: int, typed: bool) -> None:
    # k = 1: a chunk-epoch is a worker-slot, so whole chunk-epochs leave nothing out.
    draw = np.random.default_rng(seed)
    slots, arrival = 3, int(draw.integers(0, 2))
    most = int(draw.integers(1, 4))
    job = replace(
        EXAMPLE_D,
        arrival=arrival,
        samples=float(most * draw.integers(1, 3)),
        most_workers=most,
        workers_per_ps=float(draw.integers(1, 4)),
        worker_demand=draw.integers(0, 3, 2),
        ps_demand=draw.integers(0, 3, 2),
        utility=np.sort(draw.integers(1, 30, slots - arrival))[::-1].astype(np.float64),
    )
    markets = []
    for _ in range(2):
        cluster = servers(*draw.integers(1, 7, (2, 2)).tolist())
        load = np.minimum(draw.integers(0, 4, (slots, 2, 2)), cluster.capacity)
        constants = Constants(0.1, floats(3, 5))
        markets.append(Market(cluster, constants, load, constants.prices(load, cluster.capacity)))
    barred = draw.random((2, 2)) < (0.4 if typed else 0.0)
    best = max(all_payoffs(job, Sides(*markets), barred), default=-np.inf)
    sides = Sides(*map(offered_beside, markets, barred))
    outcome = best_schedule(job, sides, int(job.samples))
    if np.isinf(best):
        assert isinstance(outcome, Infeasible)
    elif best <= 0:
        assert isinstance(outcome, NotWorthIt)
    else:
        assert isinstance(outcome, Schedule)
        assert outcome.payoff == pytest.approx(best)
