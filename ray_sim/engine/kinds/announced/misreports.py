"""Users who misreport their statements by a rule, for studies of incentives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from ray_sim.engine.kinds.announced.bounds import StatementBounds
from ray_sim.engine.kinds.announced.rounds import signals
from ray_sim.model.job import JobTable
from ray_sim.model.parameters import MAX_FACTOR, Parameter, Value
from ray_sim.model.statement import NANO, Outlooks, Statements
from ray_sim.model.streams import Streams, text_entities
from ray_sim.model.units import BoolArray

HONEST = "none"

_SOURCE = "docs/models/posted_price.md#strategic-users"

PARAMETERS = (
    Parameter(
        "misreport",
        "choice",
        HONEST,
        "what some users report in place of the truth. value: the value times misreport_factor; deadline: "
        "times of the value function times the factor; collapsed: the mean arrival and duration as certain; "
        "gpus: the GPUs times the factor, rounded up",
        source=_SOURCE,
        choices=(HONEST, "value", "deadline", "collapsed", "gpus"),
    ),
    Parameter(
        "misreport_share",
        "float",
        0.1,
        "probability with which a user misreports; of a job, where the workload has no users",
        minimum=0.0,
        maximum=1.0,
        source=_SOURCE,
    ),
    Parameter(
        "misreport_factor",
        "float",
        2.0,
        "factor of the misreports",
        minimum=0.0,
        exclusive=True,
        maximum=MAX_FACTOR,
        source=_SOURCE,
    ),
)

Rule = Callable[[Statements, StatementBounds, float, str], Statements]
"""Every statement as its owner would misreport it, from (statements, bounds, factor, signal)."""


def misreported(
    reported: Statements, table: JobTable, bounds: StatementBounds, values: Mapping[str, Value]
) -> tuple[Statements, BoolArray]:
    """The reports where some users misreport, and (J,) whose they are. Misreports keep the bounds."""
    rule = str(values["misreport"])
    if rule == HONEST:
        return reported, np.zeros(len(reported), dtype=np.bool_)
    lying = _liars(table, values)
    other = _RULES[rule](reported, bounds, float(str(values["misreport_factor"])), str(values["signal"]))
    both = Statements(
        birth=reported.birth,
        concurrency=np.where(lying, other.concurrency, reported.concurrency),
        value_row=reported.value_row + np.where(lying, len(reported.values), 0),
        outlook_row=reported.outlook_row + np.where(lying, len(reported.outlooks.ptr) - 1, 0),
        values=np.concatenate([reported.values, other.values]),
        outlooks=_joined(reported.outlooks, other.outlooks),
    )
    return both, lying


def _liars(table: JobTable, values: Mapping[str, Value]) -> BoolArray:
    names = table.job_id if table.user is None else table.user.fill_null("")
    entities = text_entities(names.to_list())
    drawn = Streams(0).uniforms("misreport", entities)  # the same users in every run
    return drawn < float(str(values["misreport_share"]))


def _value(truth: Statements, bounds: StatementBounds, factor: float, signal: str) -> Statements:
    worth = np.minimum(np.rint(truth.values * factor), bounds.value * NANO).astype(np.int64)
    return replace(truth, values=np.where(worth < NANO, 0, worth))


def _deadline(truth: Statements, bounds: StatementBounds, factor: float, signal: str) -> Statements:
    last = truth.values.shape[1] - 1
    at = np.minimum(np.arange(last + 1) / factor, last).astype(np.int64)
    worth = truth.values[:, at].copy()
    worth[:, min(bounds.delay, last) :] = 0
    return replace(truth, values=worth)


def _gpus(truth: Statements, bounds: StatementBounds, factor: float, signal: str) -> Statements:
    gpus = np.ceil(truth.concurrency * factor).astype(np.int64)
    return replace(truth, concurrency=np.clip(gpus, 1, bounds.concurrency))


def _collapsed(truth: Statements, bounds: StatementBounds, factor: float, signal: str) -> Statements:
    all_points = truth.outlooks
    first, weight = all_points.ptr[:-1], all_points.probability

    def mean(points: np.ndarray) -> np.ndarray:
        return np.rint(np.add.reduceat(weight * points, first)).astype(np.int64) if len(first) else points[:0]

    duration = np.maximum(mean(all_points.duration), 1)
    alone = Outlooks(
        ptr=np.arange(len(first) + 1),
        arrival=mean(all_points.arrival),
        duration=duration,
        probability=np.ones(len(first)),
        signal=signals(signal, duration),
    )
    return replace(truth, outlooks=alone)


_RULES: Mapping[str, Rule] = {"value": _value, "deadline": _deadline, "gpus": _gpus, "collapsed": _collapsed}


def _joined(one: Outlooks, other: Outlooks) -> Outlooks:
    names = ("arrival", "duration", "probability", "signal")
    columns = {name: np.concatenate([getattr(one, name), getattr(other, name)]) for name in names}
    return Outlooks(ptr=np.concatenate([one.ptr, other.ptr[1:] + one.ptr[-1]]), **columns)
