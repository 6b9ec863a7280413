"""Errors of a policy's estimates of speed and work left."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.decision import Decision
from ray_sim.engine.kinds.elastic.decision import Estimates
from ray_sim.engine.states import State, all_within, same
from ray_sim.engine.validation import job_name
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import RUNNING, WAITING, Ledger
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.units import FloatArray, IntArray

SPEED, WORK_LEFT = range(2)


class EstimateErrors:
    """Errors |estimate - true| of speed and of work left, added up decision by decision.

    Those of speed are relative to the true speed, those of work left to the whole work of the job: at the end
    of a job little is left in truth, or only what rounding to microseconds leaves.
    """

    def __init__(self, work: FloatArray) -> None:
        """``work`` is the whole work of each job, (J,)."""
        self._work = work
        self._time_us: list[int] = []
        self._total: list[FloatArray] = []
        """(2,) sums of errors."""
        self._known: list[IntArray] = []
        """(2,) numbers of errors."""

    def add(self, now_us: int, estimates: Estimates, speed: FloatArray, work_left: FloatArray) -> None:
        """Compare a decision's estimates with the truth, (n,) each.

        Estimates that are NaN, true speeds of 0 and jobs without work are left out.
        """
        estimated = np.stack([estimates.speed, estimates.work_left]).astype(np.float64)
        true = np.stack([speed, work_left])
        whole = np.stack([speed, self._work[estimates.job]])
        known = np.isfinite(estimated) & (whole > 0)
        error = np.divide(np.abs(estimated - true), whole, out=np.zeros_like(true), where=known)
        self._time_us.append(now_us)
        self._total.append(error.sum(axis=1))
        self._known.append(known.sum(axis=1))

    def means(self) -> FloatArray:
        """(2,) over all estimates of the run; NaN where none was given."""
        total, known = self._columns()
        return _mean(total.sum(axis=0), known.sum(axis=0))

    def means_at(self, time_us: IntArray) -> FloatArray:
        """(n, 2) over the estimates given at each of these instants, increasing; NaN where none was."""
        total, known = self._columns()
        instant = np.searchsorted(time_us, self._time_us)
        sums, counts = np.zeros((len(time_us) + 1, 2)), np.zeros((len(time_us) + 1, 2), dtype=np.int64)
        np.add.at(sums, instant, total)
        np.add.at(counts, instant, known)
        return _mean(sums[:-1], counts[:-1])

    def _columns(self) -> tuple[FloatArray, IntArray]:
        """(decisions, 2) sums and numbers of errors."""
        total, known = np.array(self._total, dtype=np.float64), np.array(self._known, dtype=np.int64)
        return total.reshape(-1, 2), known.reshape(-1, 2)

    def state(self) -> State:
        """Arrays that `restore` takes."""
        total, known = self._columns()
        return {"time_us": np.array(self._time_us, dtype=np.int64), "total": total, "known": known}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        all_within(state)
        for name in ("total", "known"):
            same(name, [len(state["time_us"]), 2], state[name].shape)
        self._time_us = state["time_us"].tolist()
        self._total, self._known = list(state["total"].copy()), list(state["known"].copy())


def _mean(total: FloatArray, count: IntArray) -> FloatArray:
    mean: FloatArray = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return mean


def check_estimates(
    where: str, world: World, ledger: Ledger, decision: Decision, estimates: Estimates
) -> None:
    """Refuse estimates but of jobs that stay in the system, each at most once.

    Raises
    ------
    InfeasibleDecisionError : it names the first fault, after ``where``
    """
    columns: dict[str, object] = {name: getattr(estimates, name) for name in ("job", "speed", "work_left")}
    for name, column in columns.items():
        kinds, expected = ("i", "whole numbers") if name == "job" else ("iuf", "numbers")
        if not isinstance(column, np.ndarray) or column.dtype.kind not in kinds:
            found = column.dtype if isinstance(column, np.ndarray) else type(column).__name__
            raise InfeasibleDecisionError(
                f"at {where} tells estimates whose {name} is {found}; expected an array of {expected}"
            )
    jobs = estimates.job
    shapes = [np.shape(column) for column in (jobs, estimates.speed, estimates.work_left)]
    if len(shapes[0]) != 1 or len(set(shapes)) != 1:
        raise InfeasibleDecisionError(
            f"at {where} tells estimates job, speed and work_left of shapes "
            f"{', '.join(map(str, shapes))}; give one number of each for every job"
        )
    there = (jobs >= 0) & (jobs < len(world.table))
    here = np.isin(ledger.status[np.where(there, jobs, 0)], (WAITING, RUNNING))
    ended = np.isin(jobs, np.concatenate([decision.reject, decision.evict]))
    for wrong, text in (
        (~(there & here) | ended, "which is not in the system then"),
        (np.diff(jobs, prepend=-1) <= 0, "twice or out of order"),
    ):
        if wrong.any():
            job = int(jobs[np.argmax(wrong)])
            raise InfeasibleDecisionError(f"at {where} tells an estimate of {job_name(world, job)} {text}")
    for name, estimated in (("speed", estimates.speed), ("work_left", estimates.work_left)):
        wrong = np.isinf(estimated) | (estimated < 0)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise InfeasibleDecisionError(
                f"at {where} tells {name} {estimated[first]:g} of {job_name(world, int(jobs[first]))}; "
                f"tell a number >= 0, or NaN for none"
            )
