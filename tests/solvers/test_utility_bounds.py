"""Upper bounds on total utility: what they are in closed form, and how they change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.model.streams import Streams
from ray_sim.solvers.utility_bounds import (
    MOST_JOBS,
    BucketProblem,
    UtilityBounds,
    least_costs,
    price_bound,
    utility_bounds,
)
from tests.proofs import instances, seeds

ROUNDED = 2e-9
SOLVER = 2e-6
"""U3 is rounded up by 1e-6."""


def claims(worth: list[list[float]], first: list[int], need: list[float], offer: float) -> BucketProblem:
    """Jobs that can do half of their work in a bucket, of one resource."""
    n, buckets = np.shape(worth)
    return BucketProblem(
        worth=np.array(worth, dtype=np.float64),
        first=np.array(first),
        most=np.full((n, buckets), 0.5),
        resource_time=np.array(need, dtype=np.float64)[:, None],
        offer=np.full((buckets, 1), float(offer)),
    )


def random_claims(seed: int, jobs: int = 12, buckets: int = 10) -> BucketProblem:
    """Jobs of some buckets each that crowd two resources, worth less and less."""
    draw = Streams(seed).generator("claims")
    begin, span = draw.integers(0, buckets, jobs), draw.integers(1, 5, jobs)
    first = begin + span - 1
    need = draw.uniform(0.0, 2.0, (jobs, 2)) * span[:, None]
    return BucketProblem(
        worth=np.sort(draw.uniform(0, 10, (jobs, buckets)), axis=1)[:, ::-1].copy(),
        first=np.where(first < buckets, first, buckets),
        most=np.where(np.arange(buckets) >= begin[:, None], 1.0 / span[:, None], 0.0),
        resource_time=need,
        offer=np.full((buckets, 2), float(draw.uniform(0.3, 1.0)) * need.sum() / 2 / buckets),
    )


def of(bounds: UtilityBounds) -> tuple[float, float, float]:
    assert bounds.u3 is not None
    return bounds.u1, bounds.u2, bounds.u3


def test_one_job_earns_what_it_is_worth_at_its_earliest() -> None:
    found = of(utility_bounds(claims([[9, 5, 2]], [1], [4], 2)))
    assert found == pytest.approx((5, 5, 5), rel=SOLVER)


def test_alike_jobs_that_all_fit_at_once_have_no_gap() -> None:
    found = of(utility_bounds(claims([[9, 5, 2]] * 3, [1] * 3, [4] * 3, 6)))
    assert found == pytest.approx((15, 15, 15), rel=SOLVER)


def test_two_jobs_that_share_a_server_cannot_both_be_first() -> None:
    """Each needs 4 of the 2 a bucket, so 2 buckets alone: one ends in bucket 1, the other in bucket 3.

    The programme may do half of each by bucket 1 and the rest by bucket 3, which earns the same.
    """
    found = of(utility_bounds(claims([[9, 5, 3, 1]] * 2, [1, 1], [4, 4], 2)))
    assert found[0] == pytest.approx(10)
    assert found[1:] == pytest.approx((6, 6), rel=SOLVER)


def test_prices_of_the_example_of_three_jobs() -> None:
    """Example 1.A, after its three jobs: a unit of 6 costs 3 in slot 0, U, and in slot 1.

    Each job takes 2 x 2 + 2 x 1 = 6 of the one resource, so at these prices it pays 18 and none is worth it;
    what is on offer is worth 2 x 18. Where all costs nothing each earns what it is worth in slot 0.
    """
    jobs = claims([[5, 4], [9, 3], [2, 1]], [0, 0, 0], [6, 6, 6], 6)
    jobs = replace(jobs, most=np.ones((3, 2)))
    assert price_bound(jobs, np.full((2, 1), 3.0)) == pytest.approx(36, rel=ROUNDED)
    assert price_bound(jobs, np.zeros((2, 1))) == pytest.approx(16, rel=ROUNDED)
    # At 4/6 and 2/6: payoffs 5 - 4 and 4 - 2, 9 - 4 and 3 - 2, 2 - 4 and 1 - 2; sold for 4 + 2.
    assert price_bound(jobs, np.array([[4 / 6], [2 / 6]])) == pytest.approx(2 + 5 + 0 + 6, rel=ROUNDED)
    assert of(utility_bounds(jobs))[1:] == pytest.approx((13, 13), rel=SOLVER)


def test_jobs_that_never_complete_do_not_count() -> None:
    both = claims([[9, 5], [9, 9]], [1, 2], [4, 4], 2)
    assert of(utility_bounds(both)) == pytest.approx((5, 5, 5), rel=SOLVER)
    assert of(utility_bounds(both.of(np.array([1])))) == (0, 0, 0)


def test_a_bucket_without_end_is_never_full() -> None:
    jobs = claims([[9, 5, 2]] * 3, [1] * 3, [4] * 3, 2)
    endless = replace(jobs, offer=np.array([[2.0], [2.0], [np.inf]]), most=np.array([[0.5, 0.5, 1.0]] * 3))
    assert of(utility_bounds(endless))[1:] == pytest.approx((5 + 2 + 2,) * 2, rel=SOLVER)


@pytest.mark.parametrize("seed", seeds(20))
def test_at_its_own_prices_u2_is_no_larger_than_u3(seed: int) -> None:
    u1, u2, u3 = of(utility_bounds(random_claims(seed)))
    assert u2 <= u3 * (1 + SOLVER)
    assert u2 <= u1 * (1 + SOLVER)


@pytest.mark.parametrize("seed", seeds(20))
def test_another_job_never_lowers_a_bound(seed: int) -> None:
    full = random_claims(seed)
    fewer = full.of(np.arange(1, 12))
    prices = Streams(seed).generator("prices").uniform(0, 2, (10, 2))
    with_all, without = utility_bounds(full), utility_bounds(fewer)
    assert with_all.u1 >= without.u1
    assert of(with_all)[2] >= of(without)[2] * (1 - SOLVER)
    assert price_bound(full, prices) >= price_bound(fewer, prices)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20))
def test_more_servers_never_lower_a_bound(seed: int) -> None:
    scarce = random_claims(seed)
    ample = replace(scarce, offer=scarce.offer * 1.5)
    assert of(utility_bounds(ample))[2] >= of(utility_bounds(scarce))[2] * (1 - SOLVER)
    endless = of(utility_bounds(replace(scarce, offer=np.full_like(scarce.offer, np.inf))))
    assert endless == pytest.approx((endless[0],) * 3, rel=SOLVER)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(20))
def test_merged_buckets_only_loosen(seed: int) -> None:
    fine = random_claims(seed)
    coarse = fine.merged(np.array([0, 3, 6, 9]))
    assert of(utility_bounds(coarse))[2] >= of(utility_bounds(fine))[2] * (1 - SOLVER)
    assert utility_bounds(coarse).u1 == pytest.approx(utility_bounds(fine).u1)


def test_all_scales_with_the_utilities() -> None:
    jobs = random_claims(3)
    larger = replace(jobs, worth=jobs.worth * 1024)
    assert of(utility_bounds(larger)) == pytest.approx(
        [1024 * u for u in of(utility_bounds(jobs))], rel=SOLVER
    )


def test_beyond_so_many_jobs_the_programme_is_left_out_and_a_sample_sets_the_prices() -> None:
    few = random_claims(1)
    copies = MOST_JOBS // 4
    many = few.of(np.tile(np.arange(12), copies))
    found = utility_bounds(replace(many, offer=few.offer * copies))
    assert found.u3 is None
    assert found.left_out is not None
    assert f"more than {MOST_JOBS:,} jobs" in found.left_out
    assert found.bound == min(found.u1, found.u2)
    assert found.u2 < found.u1


@given(seed=st.integers(0, 2**20), buckets=st.integers(1, 6))
@settings(deadline=None, max_examples=instances(60))
def test_least_costs_are_those_of_the_cheapest_pieces_so_far(seed: int, buckets: int) -> None:
    draw = np.random.default_rng(seed)
    cost, units = (
        draw.integers(0, 5, (2, buckets, 3)).astype(float),
        draw.choice([0, 0.2, 0.7], (2, buckets, 3)),
    )
    found = least_costs((cost[:, k], units[:, k]) for k in range(buckets))
    for i in range(2):
        for k in range(buckets):
            pieces = sorted(zip(cost[i, : k + 1].ravel(), units[i, : k + 1].ravel(), strict=True))
            left, total = 1.0, 0.0
            for price, size in pieces:
                total += price * min(size, left)
                left -= min(size, left)
            assert found[i, k] == pytest.approx(total if left < 1e-9 else np.inf)


@pytest.mark.parametrize("name", ["worth", "most", "resource_time", "offer"])
def test_numbers_that_cannot_be_are_refused_by_name(name: str) -> None:
    jobs = claims([[9, 5]], [1], [4], 2)
    for wrong in (-1.0, np.nan):
        with pytest.raises(ValueError, match=name):
            replace(jobs, **{name: np.full_like(getattr(jobs, name), wrong)})
