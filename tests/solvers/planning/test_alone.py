"""Which jobs can end by the horizon alone: against every way to hold tasks on tiny empty clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.model.units import IntArray, tolerant_ceil
from ray_sim.solvers.planning import oasis
from ray_sim.solvers.planning.alone import ends_alone
from ray_sim.solvers.planning.market import MarketCapacity
from ray_sim.solvers.planning.slot_job import SlotJob
from tests.solvers.planning.exact import choices, is_enough
from tests.solvers.planning.small import EXAMPLE_A, drawn_job, floats, ints, servers


def ends_by_enumeration(job: SlotJob, cluster: MarketCapacity) -> bool:
    """Whether any holding, the same in all slots, does the work."""
    slots = len(job.utility)
    return any(
        is_enough(job, (slots * choice.counts[0], slots * choice.counts[1]))
        for choice in choices(job, cluster.capacity)
    )


def drawn(seed: int) -> tuple[SlotJob, MarketCapacity]:
    """Up to three servers, and as much work as servers without bounds could do or a little less."""
    draw = np.random.default_rng(seed)
    n_servers, resources = int(draw.integers(1, 4)), int(draw.integers(1, 3))
    cluster = servers(*draw.integers(0, 6, (n_servers, resources)).tolist())
    job = drawn_job(draw, 0, 3, resources)
    most = job.most_workers * len(job.utility) / job.theta_internal
    return replace(job, samples=most * float(draw.uniform(0.2, 1.0))), cluster


@pytest.mark.slow
def test_a_job_ends_alone_exactly_if_some_enumerated_holding_does_its_work() -> None:
    ended = 0
    for seed in range(300):
        job, cluster = drawn(seed)
        expected = ends_by_enumeration(job, cluster)
        assert ends_alone(job, cluster) == expected, seed
        ended += expected
    assert 30 < ended < 270  # so that both answers are tested


def test_parameter_servers_may_leave_too_little_room_for_workers_on_many_servers() -> None:
    # Servers of 5, workers of 2, parameter servers of 3, one for each 2 workers. 12 workers and 6 parameter
    # servers take 24 + 18 = 42 of 10 x 5 = 50. A server holds two workers, or one and a parameter server: n
    # servers of 10 have one, and 20 - n workers need n = (20 - n) / 2: 13 workers on 10 servers, 12 on 9.
    job = replace(
        EXAMPLE_A, worker_demand=ints(2), ps_demand=ints(3), workers_per_ps=2.0, most_workers=20,
        theta_external=0.04, samples=12 / 0.04 * 2,
    )  # fmt: skip
    assert ends_alone(job, servers(*[[5]] * 10))
    assert ends_alone(job, servers(*[[5]] * 9))
    assert not ends_alone(job, servers(*[[5]] * 8))
    assert ends_alone(replace(job, samples=13 / 0.04 * 2), servers(*[[5]] * 10))
    assert not ends_alone(replace(job, samples=14 / 0.04 * 2), servers(*[[5]] * 10))


def test_with_roles_apart_a_job_ends_alone_exactly_if_both_sides_hold_enough() -> None:
    def places(demand: IntArray, capacity: IntArray) -> int:
        fit = [n for room in capacity for n in range(1, 10) if (n * demand <= room).all()]
        return len(fit)

    ended = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        sides = [servers(*draw.integers(0, 6, (int(draw.integers(1, 3)), 2)).tolist()) for _ in range(2)]
        job = drawn_job(draw, 0, 3, 2).apart()
        most = job.most_workers * len(job.utility) / job.theta_external
        job = replace(job, samples=most * float(draw.uniform(0.2, 1.0)))
        workers = min(job.most_workers, places(job.worker_demand, sides[0].capacity))
        ps = places(job.ps_demand, sides[1].capacity)
        workers = max(w for w in range(workers + 1) if tolerant_ceil(w / job.workers_per_ps) <= ps)
        expected = is_enough(job, (0, workers * len(job.utility)))
        assert oasis.ends_alone(job, *sides) == expected, seed
        ended += expected
    assert 20 < ended < 180


def test_a_job_that_only_a_server_without_bounds_could_end_makes_no_price() -> None:
    # Four workers could do 400 samples in two slots, but a server of 6 holds two pairs: 2 x 2 / 0.02 = 200.
    long = replace(EXAMPLE_A, number=1, samples=300.0, utility=floats(1e9, 1e-9))
    assert long.can_end
    assert not ends_alone(long, servers([6]))
    assert ends_alone(replace(long, samples=200.0), servers([6]))
