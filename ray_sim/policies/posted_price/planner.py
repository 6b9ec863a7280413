"""Planner: the launch plan of a job that maximises its expected utility at the prices of its birth.

Source: Babaioff et al. (WWW 2022), algorithm 1, step 1.
"""

from __future__ import annotations

import numpy as np

from ray_sim.model.statement import NANO, NEVER_ROUND, Statements
from ray_sim.model.units import BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.planner_kernels import (
    JobOffer,
    Launch,
    PlannedJob,
    plan_starts,
    sum_before,
)
from ray_sim.policy_api import longest_rounds

_NO_FAILURE: FloatArray = np.zeros((0, 0))
_NONE_BOUGHT: BoolArray = np.zeros(0, dtype=np.bool_)


def planned_job(statements: Statements, job: int) -> PlannedJob:
    """Return the statement of one job; its arrays are views, arrivals are absolute."""
    outlooks = statements.outlooks
    row, birth = int(statements.outlook_row[job]), int(statements.birth[job])
    points = slice(int(outlooks.ptr[row]), int(outlooks.ptr[row + 1]))
    return PlannedJob(
        birth=birth,
        concurrency=int(statements.concurrency[job]),
        values=statements.values[statements.value_row[job]],
        arrival=outlooks.arrival[points] + birth,
        duration=outlooks.duration[points],
        probability=outlooks.probability[points],
        signal=outlooks.signal[points],
    )


def rounds_touched(job: PlannedJob, most_duration: int) -> int:
    """Return how many rounds from the birth on a job may touch: S - 1 + D_m."""
    return len(job.values) - 2 + most_duration


def threshold(failure: FloatArray, eps: float) -> FloatArray:
    """Return f(q): probabilities of failure of at most eps / 10 count as 0. Source: algorithm 2."""
    kept: FloatArray = np.where(failure > eps / 10.0, failure, 0.0)
    return kept


def new_launch(points: int) -> Launch:
    """Return a plan of this number of points that launches none."""
    start, best = np.full((2, points), NEVER_ROUND)
    price, refusal = np.zeros((2, points), dtype=np.int64)
    return Launch(start, best, price, np.zeros(points), refusal)


class Planner:
    """Chooses launch plans; keeps work space from one job to the next, and nothing else.

    Parameters
    ----------
    signal : ``none``, ``partial`` or ``full``: signal of durations at the arrival
    most_duration : D_m, upper bound on durations
    """

    def __init__(self, signal: str, most_duration: int) -> None:
        self._signal, self._most_duration = signal, most_duration
        self._price_before: IntArray = np.zeros(1, dtype=np.int64)
        self._sold_out_before: IntArray = np.zeros(1, dtype=np.int64)

    def plan(
        self,
        job: PlannedJob,
        node_prices: tuple[IntArray, BoolArray],
        failure: FloatArray | None = None,
        bought: BoolArray | None = None,
    ) -> tuple[Launch, float]:
        """Return the plan, and the expected utility.

        Points with the same arrival and signal form a group with one start t >= arrival. It is the earliest
        that maximises the sum over the group of P (V(t + d) - price(t, d)) (1 - E(t, d)), among the starts
        with which no duration that its signal allows touches a sold-out round. A group is not launched
        unless the maximum is > 0.

        Parameters
        ----------
        job
            The reported statement.
        node_prices
            (R,) nano and (R,) sold out, from the birth on, as of `Menu.node_prices`; R is the horizon, or at
            least `rounds_touched`.
        failure
            (starts, >= longest duration + 1) E by rounds from the birth to the start and by duration, after
            `threshold`, for all starts with a value; None if all are 0.
        bought
            (n,) points that may buy at zero surplus, for menus that allow it; None for others. A group of
            such points only is launched if the maximum is >= 0. Node prices of these menus are rounded
            down, so any other group is launched only if it exceeds the most that rounding can be worth, c d
            nano.

        Returns
        -------
        tuple
            The plan by point; expected utility in units, >= 0.
        """
        rounds = len(node_prices[0])
        if len(self._price_before) <= rounds:
            self._price_before = np.zeros(rounds + 1, dtype=np.int64)
            self._sold_out_before = np.zeros(rounds + 1, dtype=np.int64)
        offer = JobOffer(
            price_before=self._price_before[: rounds + 1],
            sold_out_before=self._sold_out_before[: rounds + 1],
            failure=_NO_FAILURE if failure is None else failure,
            longest=longest_rounds(self._signal, job.signal, self._most_duration),
            rounded=bought is not None,
            bought=_NONE_BOUGHT if bought is None else bought,
        )
        sum_before(*node_prices, offer.price_before, offer.sold_out_before)
        made = new_launch(len(job.arrival))
        return made, plan_starts(job, offer, made) / NANO
