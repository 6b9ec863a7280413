"""Plans looked up by arrival and signal, and by duration: against dictionaries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings

from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.policies.posted_price.plan_book import PlannedPoints, find_prices, find_starts, value_plan
from ray_sim.policies.posted_price.planner import PlannedJob, new_launch
from tests.kernels.by_hand import SEEDS, ints
from tests.proofs import instances


class Point(NamedTuple):
    """A point of a distribution, rounds after the birth, and its plan."""

    arrival: int
    duration: int
    signal: int
    start: int
    price: int


def planned(births: list[int], points: list[list[Point]]) -> PlannedPoints:
    """Jobs with a distribution of their own each."""
    flat = ints([point for of_job in points for point in of_job]).reshape(-1, len(Point._fields))
    ptr = ints(np.cumsum([0, *map(len, points)]))
    columns = {name: flat[:, i].copy() for i, name in enumerate(Point._fields)}
    return PlannedPoints(
        birth=ints(births), row=np.arange(len(births)), of_row=ptr.copy(), ptr=ptr, **columns
    )


def starts(points: PlannedPoints, job: int, now: int, signal: int) -> tuple[int, int]:
    """Start and latest end of a job that comes."""
    start, until = np.full((2, len(points.birth)), -7)
    find_starts(points, ints([job]), now, ints([signal]), start, until)
    return int(start[job]), int(until[job])


def price(points: PlannedPoints, job: int, now: int, arrival: int, signal: int, start: int) -> int:
    """Price of a job that came and started as said and completes now."""
    arrived, told, began = np.full((3, len(points.birth)), -7)
    arrived[job], told[job], began[job] = arrival, signal, start
    found = ints([0])
    find_prices(points, ints([job]), now, arrived, told, began, found)
    return int(found[0])


def test_one_signal_for_two_durations_and_one_that_is_not_launched() -> None:
    points = planned(
        [0, 10],
        [
            [Point(0, 1, 0, 5, 9)],
            [Point(2, 3, 0, 14, 50), Point(2, 5, 0, 14, 70), Point(2, 9, 1, NEVER_ROUND, 0)],
        ],
    )
    assert starts(points, 1, 12, 0) == (14, 19)  # the longer of the two that the signal allows
    assert starts(points, 1, 12, 1) == starts(points, 1, 11, 0) == (NEVER_ROUND, 0)
    assert [price(points, 1, 14 + rounds, 12, 0, 14) for rounds in (3, 4, 5)] == [50, -1, 70]
    assert price(points, 1, 23, 12, 0, 14) == -1  # 9 rounds were reported with another signal
    assert starts(points, 0, 0, 0) == (5, 6)


def test_the_value_of_a_plan_counts_what_is_launched_and_ends_by_the_horizon() -> None:
    # Values 4, 3, 1, 0 after 0, 1, 2, 3 rounds. Point 0 ends at 1: 3. Point 1 ends after T = 13, 2 is not
    # launched. Point 3 ends at 2, worth 1, priced 2.
    job = PlannedJob(
        10, 1, ints([4, 3, 1, 0]) * NANO, ints([10] * 4), ints([1, 4, 1, 2]), np.array([0.5, 0.1, 0.2, 0.2]),
        ints([0] * 4),
    )  # fmt: skip
    made = new_launch(4)
    made.start[:], made.price[:] = ints([10, 10, NEVER_ROUND, 10]), ints([NANO, 0, 0, 2 * NANO])
    assert value_plan(job, made, 13) == (0.5 * 3 * NANO + 0.2 * 1 * NANO, True)
    assert not value_plan(job, made._replace(price=ints([2 * NANO, 0, 0, NANO])), 13)[1]
    later = made._replace(start=ints([10, 10, NEVER_ROUND, 15]))
    assert value_plan(job, later, 20)[0] == 0.5 * 3 * NANO  # worth nothing after the last value


@settings(max_examples=instances(300))
@given(seed=SEEDS)
def test_plans_are_found_as_in_dictionaries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    births, jobs = rng.integers(0, 3, 4).tolist(), []
    for birth in births:
        drawn = {tuple(rng.integers([0, 1, 0], [3, 5, 2]).tolist()) for _ in range(5)}
        groups = {
            (a, s): NEVER_ROUND if rng.random() < 0.3 else birth + a + int(rng.integers(4))
            for a, _, s in drawn
        }
        jobs.append([Point(a, d, s, groups[a, s], int(rng.integers(99))) for a, d, s in sorted(drawn)])
    points = planned(births, jobs)
    for job, (birth, of_job) in enumerate(zip(births, jobs, strict=True)):
        for now in range(6):
            for signal in range(2):
                told = [p for p in of_job if birth + p.arrival == now and p.signal == signal]
                launched = [p for p in told if p.start != NEVER_ROUND]
                start = launched[0].start if launched else NEVER_ROUND
                assert starts(points, job, now, signal) == (
                    start,
                    max((start + p.duration for p in launched), default=0),
                )
                prices = {p.duration: p.price for p in told}
                for rounds in range(1, 5):
                    assert price(points, job, 20 + rounds, now, signal, 20) == prices.get(rounds, -1)
