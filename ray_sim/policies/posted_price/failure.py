"""Failure oracles: the probability that a job born now will be cancelled or evicted.

The mechanism evicts the most recently born active job while the load of running and due jobs exceeds the
capacity C. Hence whether a job fails depends on jobs born before it only: a job of c nodes, born in b, that
runs in [t', t' + d) fails if and only if in some round tau of [b, t' + d) the load of active earlier jobs,
before the evictions of tau, exceeds C - c [t' <= tau].

Evictions of the earlier jobs need not be simulated. Let S be the sum of the loads of all earlier jobs active
in b, as if none were evicted, and e the first round from b on with S(e) > C. No earlier job is evicted before
e, so the load is S up to e; in e the new job is evicted or cancelled itself, unless it has ended. So it fails
if and only if S(tau) > C - c [t' <= tau] for some tau of [b, t' + d). Loads of independent jobs add, and an
observation of one job changes its own load and no other.

Source: Babaioff, Lempel, Lucier, Menache, Slivkins, Wong, Truthful Online Scheduling of Cloud Workloads under
Uncertainty (WWW 2022), section 3 (framework, lemma); the oracles are ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.statement import NEVER_ROUND
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.posted_price.active_jobs import ActiveJobs
from ray_sim.policies.posted_price.plan import Plan

MOST_ESTIMATES = 250_000_000
"""Most failure estimates of one job: 2 GB."""

OracleState: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""Arrays of a snapshot, by name."""


class FailureOracle(ABC):
    """Failure estimates of new jobs, from the plans of earlier jobs and the observations of them.

    Rounds are absolute. In each round the mechanism asks for `failures` of each job born in it and adds the
    job, one after the other, and then passes the observations of the round to `observe`.

    Parameters
    ----------
    capacity : nodes, C >= 1
    longest : rounds, D >= 1, upper bound of durations
    """

    def __init__(self, capacity: int, longest: int) -> None:
        self._capacity, self._longest = capacity, longest
        self._jobs = ActiveJobs(longest)
        self._round = 0
        """Loads of earlier rounds are not kept."""

    def certain(self, concurrency: int) -> bool:
        """Whether `failures` of a job of so many nodes is 0 for every start and duration."""
        return self._jobs.loads() + concurrency <= self._capacity

    def failures(
        self, birth: int, concurrency: int, last_start: int, longest: int | None = None
    ) -> FloatArray:
        """(last_start - birth + 1, longest + 1) failure estimates E[t' - birth, d] of a new job.

        It is born after all others.

        Parameters
        ----------
        birth : round, not before the births of others, after the last round observed
        concurrency : nodes, >= 1
        last_start : round, >= birth
        longest : rounds, in 1 .. D, longest duration that is asked for; D by default

        Returns
        -------
        for a start in t' and a run of d rounds, the probability that the job is cancelled or evicted, in
        [0, 1] and non-decreasing in d; column 0 is unused

        Raises
        ------
        ValueError : the birth is earlier than allowed
        InvalidScenarioError : there are more than `MOST_ESTIMATES`
        """
        self._go_to(birth)
        shape = (last_start - birth + 1, 1 + (self._longest if longest is None else longest))
        if shape[0] * shape[1] > MOST_ESTIMATES:
            raise InvalidScenarioError(
                f"posted_price: a job with {shape[0]:,} rounds in which it may start and a duration of up to "
                f"{shape[1] - 1:,} rounds has more than {MOST_ESTIMATES:,} failure estimates: choose longer "
                "rounds (-w slot_s), or cut durations by -w clip_statements=true with most_duration_s"
            )
        failures = np.zeros(shape)
        if not self.certain(concurrency):
            self._reach(last_start + shape[1] - 1)
            self._estimate(birth, concurrency, failures)
        return failures

    def add(self, job: int, concurrency: int, plan: Plan) -> None:
        """Add a job with its launch plan.

        Parameters
        ----------
        job : index, above those of the jobs added before
        concurrency : nodes, >= 1
        plan : a plan that never starts adds no load

        Raises
        ------
        ValueError : the index is not above the others
        """
        launched = plan.start < NEVER_ROUND
        if not launched.any():
            return
        self._reach(int((plan.start + plan.duration)[launched].max()))
        if self._jobs.full(len(plan.arrival)):
            self._moved(self._jobs.make_room(len(plan.arrival)))
        self._added(self._jobs.append(job, concurrency, plan))

    def observe(
        self, round_: int, arrived: IntArray, signals: IntArray, completed: IntArray, removed: IntArray
    ) -> None:
        """Take the observations of a round, after its last step.

        A job that has not arrived until the round arrives later; one that has started and has not ended ends
        later, and if its plan knows no later end, after D rounds. Rounds without observations may be left
        out. Jobs that are not known are ignored.

        Parameters
        ----------
        round_ : after the last round observed, and not before the last birth
        arrived, signals : (k,) jobs that arrived in the round, and their signals
        completed : jobs that finished at the round
        removed : jobs evicted, cancelled or not launched in the round; may have arrived in it too

        Raises
        ------
        ValueError : the round is earlier than allowed
        """
        self._go_to(round_ + 1)
        rows = self._jobs.observe(round_, arrived, signals, completed, removed)
        self._reach(self._jobs.overrun(rows))
        self._changed(rows)

    def state(self) -> OracleState:
        """Arrays of a snapshot; an oracle of equal parameters gives the same later answers from it."""
        return {**self._jobs.state(), "round": np.array([self._round])}

    def restore(self, state: OracleState) -> None:
        """Continue from a snapshot of an oracle of equal parameters."""
        self._jobs.restore(state)
        self._round = int(state["round"][0])

    def _go_to(self, round_: int) -> None:
        if round_ < self._round:
            raise ValueError(f"round {round_}: must not be before round {self._round}")
        if round_ > self._round:
            self._pass_rounds(round_)
            self._round = round_

    def _pass_rounds(self, until: int) -> None:  # noqa: B027  # nothing to do by default
        """Drop loads of rounds before ``until``."""

    def _reach(self, end: int) -> None:  # noqa: B027  # nothing to do by default
        """Take memory for loads of rounds before ``end``."""

    def _moved(self, kept: IntArray) -> None:  # noqa: B027  # nothing to do by default
        """Follow a move of rows: the new rows are these old ones."""

    def _added(self, row: int) -> None:  # noqa: B027  # nothing to do by default
        """Follow the addition of a job."""

    def _changed(self, rows: IntArray) -> None:  # noqa: B027  # nothing to do by default
        """Follow changes of the points that remain of jobs."""

    @abstractmethod
    def _estimate(self, birth: int, concurrency: int, failures: FloatArray) -> None:
        """Write the estimates into zeros of the form that `failures` returns."""


def ring_size(rounds: int) -> int:
    """Smallest power of two, at least 64, that is not below a number of rounds."""
    return max(64, 1 << max(rounds - 1, 0).bit_length())


def widened(ring: npt.NDArray[Any], since: int, width: int) -> npt.NDArray[Any]:
    """Copy an array by round modulo its length to a greater length; rounds before ``since`` become 0."""
    rounds = np.arange(since, since + len(ring))
    widened = np.zeros((width, *ring.shape[1:]), ring.dtype)
    widened[rounds % width] = ring[rounds % len(ring)]
    return widened
