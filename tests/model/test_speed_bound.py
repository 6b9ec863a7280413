"""Lower bounds of speed against all placements of some workers and parameter servers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.speed_bound import PLAN_MARGIN, SpeedBound
from ray_sim.model.step_time import pd_ors_sample_s
from ray_sim.model.training_progress import Nic, SpeedProgress, pd_ors_progress, placement_progress
from tests.proofs import seeds
from tests.training import ONE, Placement, profile, rows

SERVERS = 3


def drawn(draw: np.random.Generator, exchange: Exchange) -> TrainingProfile:
    """A job whose transfers within a server may take longer than those between servers."""
    return profile(
        exchange=exchange,
        batch=float(draw.integers(5, 20)),
        sample_s=draw.uniform(0.01, 1),
        gradient_mb=draw.uniform(1, 100),
        bandwidth_mbps=draw.uniform(50, 500),
        internal_bandwidth_mbps=draw.uniform(50, 1000),
        step_s=draw.choice([0.0, 1.0]),
        step_s_per_worker=draw.choice([0.0, 0.3]),
        step_s_per_ps=draw.choice([0.0, 0.3]),
        workers_per_ps=draw.choice([1.0, 2.0, 3.0]),
    )


def placements(workers: int, ps: int, *, on_one_server: bool) -> Iterator[Placement]:
    """All placements of these tasks on three servers."""
    if on_one_server:
        for server in range(SERVERS):
            yield [(0, 0)] * server + [(workers, ps)]
        return
    for w, p in product(splits(workers), splits(ps)):
        yield list(zip(w, p, strict=True))


def splits(tasks: int) -> Iterator[tuple[int, ...]]:
    for first in range(tasks + 1):
        for second in range(tasks - first + 1):
            yield first, second, tasks - first - second


def slowest(progress: SpeedProgress, workers: int, ps: int, *, on_one_server: bool) -> float:
    found = [rows(placement) for placement in placements(workers, ps, on_one_server=on_one_server)]
    return min(float(progress.samples_per_s(ONE, each)[0]) for each in found)


@pytest.mark.parametrize("on_one_server", [True, False])
@pytest.mark.parametrize("exchange", list(Exchange))
@pytest.mark.parametrize("seed", seeds(60, quick=6))
def test_no_placement_is_slower_and_one_is_as_slow(
    seed: int, exchange: Exchange, *, on_one_server: bool
) -> None:
    draw = np.random.default_rng(seed)
    job, speed = drawn(draw, exchange), draw.choice([0.5, 1.0, 2.0], SERVERS)
    workers, ps = (int(n) for n in draw.integers(1, 5, 2))
    ps = 0 if exchange == Exchange.ALL_REDUCE else ps
    nic = list(Nic)[seed % len(Nic)]
    progress = placement_progress(job, speed, nic, request_s=draw.choice([0.0, 0.02]))
    assert isinstance(progress, SpeedBound)
    least = slowest(progress, workers, ps, on_one_server=on_one_server)
    longest = progress.longest_sample_s(
        ONE, np.array([workers]), np.array([ps]), np.array([speed.min()]), on_one_server=on_one_server
    )
    assert workers / longest[0] <= least
    assert workers / longest[0] == pytest.approx(least, rel=2 * PLAN_MARGIN)


@pytest.mark.parametrize("on_one_server", [True, False])
@pytest.mark.parametrize("seed", seeds(60, quick=6))
def test_the_form_of_pd_ors_has_no_slower_placement_either(seed: int, *, on_one_server: bool) -> None:
    draw = np.random.default_rng(seed)
    job, speed = drawn(draw, Exchange.SYNC), draw.choice([0.5, 1.0, 2.0], SERVERS)
    workers, ps = (int(n) for n in draw.integers(1, 5, 2))
    progress = pd_ors_progress(job, speed)
    least = slowest(progress, workers, ps, on_one_server=on_one_server)
    longest = progress.longest_sample_s(
        ONE, np.array([workers]), np.array([ps]), np.array([speed.min()]), on_one_server=on_one_server
    )
    assert workers / longest[0] == pytest.approx(least, rel=1e-12)


def test_at_speed_1_it_is_the_published_form_to_the_last_bit() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        job = profile(sample_s=draw.uniform(0.01, 1), gradient_mb=draw.uniform(1, 100), workers_per_ps=2.3)
        progress = pd_ors_progress(job, np.ones(2))
        for internal in (True, False):
            bound = progress.longest_sample_s(
                ONE, np.array([7]), np.array([4]), np.ones(1), on_one_server=internal
            )
            assert bound == pd_ors_sample_s(job, ONE, internal)
