"""Report of a plan: what each policy needs, what the bounds allow, and every evaluated mix."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ray_sim.experiments.capacity.answers import plan_html
from ray_sim.experiments.capacity.choices import Mix
from ray_sim.experiments.capacity.proof import Bound
from ray_sim.experiments.capacity.request import PlanRequest
from ray_sim.experiments.capacity.search import within
from ray_sim.experiments.sweep import SweepReport
from ray_sim.reports.statistics import ConfidenceInterval, mean_interval, metric_range


@dataclass(frozen=True, slots=True)
class Point:
    """A policy on a mix of servers, evaluated over all seeds."""

    mix: Mix
    price: float
    mean: float
    """Mean of the metric over seeds; infinite where jobs that count did not complete."""
    interval: ConfidenceInterval | None
    """95 % interval of the mean; None for too few runs, and where the mean is infinite."""
    runs: int
    meeting: int
    """Number of runs that meet the goal by themselves."""
    met: bool
    """Whether the mean meets the goal."""
    bound: Bound | None

    def in_doubt(self, limit: float) -> bool:
        """Whether the interval of the mean reaches across a limit, so that more seeds may change `met`."""
        return self.interval is not None and self.interval.low <= limit <= self.interval.high

    @classmethod
    def of(cls, request: PlanRequest, mix: Mix, values: list[float], bound: Bound | None) -> Point:
        """Point of the values of all seeds."""
        sample = np.array(values)
        mean = float(sample.mean())
        return cls(
            mix=mix,
            price=request.choices.price(mix),
            mean=mean,
            interval=mean_interval(sample, metric_range(request.goal.key)) if math.isfinite(mean) else None,
            runs=len(values),
            meeting=sum(map(request.goal.met, values)),
            met=request.goal.met(mean),
            bound=bound,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON; an infinite number is null."""
        return {
            **asdict(self),
            "mix": list(self.mix),
            "mean": _finite(self.mean),
            "bound": self.bound and {**asdict(self.bound), "value": _finite(self.bound.value)},
        }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """Answer of a plan for one policy."""

    policy: str
    best: Point | None
    """The cheapest mix that meets the goal; None where none does, or the search did not end."""
    assumed: bool
    """Whether the search assumed that more servers do not make the metric worse."""
    contradiction: tuple[Mix, Mix] | None
    """Two mixes, the first within the second, of which the second is worse: then every mix was tried."""
    points: tuple[Point, ...]
    """Evaluated mixes, cheapest first."""

    @property
    def failing_above(self) -> tuple[Point, ...]:
        """Evaluated mixes that do not meet the goal although a smaller one, `best`, does."""
        if self.best is None:
            return ()
        best = self.best.mix
        return tuple(point for point in self.points if not point.met and within(best, point.mix))

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        return {
            "policy": self.policy,
            "best": None if self.best is None else self.best.to_dict(),
            "assumed": self.assumed,
            "contradiction": self.contradiction and [list(mix) for mix in self.contradiction],
            "points": [point.to_dict() for point in self.points],
        }


@dataclass(frozen=True, slots=True)
class PlanReport:
    """Result of a plan."""

    request: PlanRequest
    directory: Path
    plans: tuple[PolicyPlan, ...]
    """Cheapest policy first; those that do not meet the goal last."""
    least: Mix | None
    """The cheapest mix that the bounds do not exclude; None if they exclude all."""
    no_proof: str | None
    """Reason why there is no bound; None where there is one."""
    complete: bool
    """Whether every search ended; not if a run failed, or the plan was stopped."""
    sweep: SweepReport | None
    """Report of the last sweep; None where the bounds exclude every mix."""

    @property
    def ok(self) -> bool:
        """Whether the plan is complete and some policy meets the goal."""
        return self.complete and any(plan.best for plan in self.plans)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        request, sweep = self.request, self.sweep
        return {
            "goal": {
                "metric": request.goal.key,
                "relation": request.goal.relation,
                "limit": request.goal.limit,
            },
            "vary": [asdict(axis) for axis in request.choices.axes],
            "seeds": list(request.seeds),
            "directory": str(self.directory),
            "policies": [plan.to_dict() for plan in self.plans],
            "least": None
            if self.least is None
            else {"mix": list(self.least), "price": request.choices.price(self.least)},
            "no_proof": self.no_proof,
            "complete": self.complete,
            "failures": []
            if sweep is None
            else [{"run": each.entry.label, "error": each.error} for each in sweep.failures],
            "stopped": None if sweep is None else sweep.stopped,
            "tracking_error": None if sweep is None else sweep.tracking_error,
        }

    def _repr_html_(self) -> str:
        return plan_html(self)
