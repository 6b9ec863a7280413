"""Plans looked up by arrival, signal and duration, and what they are worth."""

from __future__ import annotations

import numpy as np

from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.policies.posted_price.menu import ExponentialPrices, RelaxedCapacity
from ray_sim.policies.posted_price.plan_book import PlanBook, value_plan
from ray_sim.policies.posted_price.planner import PlannedJob, new_launch, planned_job
from tests.kernels.by_hand import ints
from tests.policies.posted_price.random_jobs import Signal, job_of, statements_of


def test_one_signal_for_two_durations_one_that_is_not_launched_and_one_that_was_not_reported() -> None:
    """Told two binary digits, job 1 runs 2 or 3 rounds; after 4, told three, it is worth nothing.

    Job 0 holds a node in rounds 12 to 15, so that each of them has a price.
    """
    first = job_of(0, 1, [8] * 20 + [0], {(12, 4): 1.0}, Signal.PARTIAL)
    second = job_of(10, 1, [8] * 6 + [0], {(12, 2): 0.5, (12, 3): 0.25, (12, 4): 0.25}, Signal.PARTIAL)
    statements = statements_of([first, second])
    menu = ExponentialPrices(RelaxedCapacity(5, 1, 0.0, 30), most_duration=4, most_value=8.0)
    book = PlanBook(statements, menu, "partial", 4)
    book.make(0, planned_job(statements, 0), None)
    price = int(menu.node_prices(12, 1)[0][0])
    book.make(1, planned_job(statements, 1), None)
    for now, signal in ((12, 3), (11, 2)):
        assert book.come(ints([1]), now, ints([signal])).tolist() == [NEVER_ROUND]
    assert book.come(ints([1]), 12, ints([2])).tolist() == [12]
    assert book.state()["until"][1] == 12 + 3  # the longer of the two that the signal allows
    assert price > 0
    assert [book.prices(ints([1]), 12 + rounds).tolist() for rounds in (1, 2, 3, 4)] == [
        [rounds * price] for rounds in (1, 2, 3, 4)
    ]


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
