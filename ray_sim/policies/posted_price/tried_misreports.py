"""Misreports of a statement: the grid on which an audit looks for a gain over the truth.

`ray_sim.policies.posted_price.misreport_audit` tries each of them. A larger grid finds larger gains
and takes longer; the names of misreports are in `summary.json`, under the audit.

Source: Babaioff et al., Truthful Online Scheduling of Cloud Workloads under Uncertainty (WWW 2022), section
2: users may misreport their whole statement. The grid is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ray_sim.model.statement import NANO
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.posted_price.planner_kernels import PlannedJob
from ray_sim.policy_api import StatementBounds, signals

_SCALES = (0.25, 0.5, 2.0, 4.0)
_FAR_DIVISOR = 4
"""The far deadlines move by 1 / 4 of the rounds in which a finish has a value, at least by 2 rounds."""


@dataclass(frozen=True, slots=True)
class Misreport:
    """A statement in place of the truth."""

    kind: str
    report: PlannedJob


def misreports(truth: PlannedJob, bounds: StatementBounds, signal: str) -> Iterator[Misreport]:
    """Statements that the platform accepts in place of the truth; each differs from it.

    Parameters
    ----------
    signal : ``none``, ``partial`` or ``full``: signal of durations at the arrival
    """
    for kind, report in _all(truth, bounds, signal):
        if not same_statement(report, truth):
            yield Misreport(kind, report)


def _all(truth: PlannedJob, bounds: StatementBounds, signal: str) -> Iterator[tuple[str, PlannedJob]]:
    for scale in _SCALES:
        yield f"value x {scale:g}", truth._replace(values=_scaled(truth.values, scale, bounds.value))
    far = max(2, int(np.count_nonzero(truth.values)) // _FAR_DIVISOR)
    for rounds in (1, -1, far, -far):
        yield f"deadline {rounds:+d}", truth._replace(values=_moved(truth.values, rounds))
    for nodes in _concurrencies(truth.concurrency, bounds.concurrency):
        yield f"nodes {nodes - truth.concurrency:+d}", truth._replace(concurrency=nodes)
    for kind, arrival, duration, probability in _outlooks(truth, bounds.duration):
        yield kind, _with_points(truth, arrival, duration, probability, signal)


def _scaled(values: IntArray, scale: float, most: float) -> IntArray:
    """Values times ``scale``, at most the platform's bound; below 1, the smallest value, they become 0."""
    scaled = np.minimum(np.rint(values * scale), most * NANO).astype(np.int64)
    return np.where(scaled < NANO, 0, scaled)


def _moved(values: IntArray, rounds: int) -> IntArray:
    """Values with the deadline moved: round k has what round k - ``rounds`` had; the last entry stays 0."""
    at = np.arange(len(values)) - rounds
    moved = np.where(at < len(values), values[np.clip(at, 0, len(values) - 1)], 0)
    moved[-1] = 0
    return moved


def _concurrencies(true: int, most: int) -> list[int]:
    """A node fewer, and more by powers of two up to the bound."""
    steps = [true + (1 << k) for k in range(max(most - true, 1).bit_length())]
    more = sorted({min(nodes, most) for nodes in steps if most > true})
    return [true - 1, *more] if true > 1 else more


_Points = tuple[str, IntArray, IntArray, FloatArray]
"""Kind, arrivals, durations and probabilities."""


def _outlooks(truth: PlannedJob, longest: int) -> Iterator[_Points]:
    arrival, duration, probability = truth.arrival, truth.duration, truth.probability
    for rounds in (1, -1):
        yield f"arrival {rounds:+d}", np.maximum(arrival + rounds, truth.birth), duration, probability
    yield "durations x 2", arrival, np.minimum(2 * duration, longest), probability
    yield "durations / 2", arrival, -(-duration // 2), probability
    yield "collapsed", _mean(arrival, probability), _mean(duration, probability), np.ones(1)
    groups = np.stack([arrival, truth.signal])
    last = np.append((np.diff(groups) != 0).any(axis=0), True)
    first = np.append(True, last[:-1])
    for kind, kept in (("longest hidden", ~last | first), ("only the shortest", first)):
        left = probability[kept]
        yield kind, arrival[kept], duration[kept], left / left.sum()
    if len(arrival) > 1:
        yield "probabilities reversed", arrival, duration, probability[::-1]


def _mean(points: IntArray, probability: FloatArray) -> IntArray:
    return np.array([round(float(points @ probability) / float(probability.sum()))], dtype=np.int64)


def _with_points(
    truth: PlannedJob, arrival: IntArray, duration: IntArray, probability: FloatArray, signal: str
) -> PlannedJob:
    """The statement with these points, sorted; equal points are one."""
    signalled = signals(signal, duration)
    keys, row = np.unique(np.stack([arrival, signalled, duration]), axis=1, return_inverse=True)
    summed: FloatArray = np.zeros(keys.shape[1])
    np.add.at(summed, row.ravel(), probability)
    return truth._replace(
        arrival=keys[0].copy(),
        duration=keys[2].copy(),
        probability=summed,
        signal=keys[1].copy(),
    )


def same_statement(one: PlannedJob, other: PlannedJob) -> bool:
    """Whether two statements say the same."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in PlannedJob._fields)
