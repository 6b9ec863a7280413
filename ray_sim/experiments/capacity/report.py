"""Report of a plan: what each policy needs, what the bounds allow, every evaluated mix; its lines to show."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ray_sim.experiments.capacity.proof import Bound
from ray_sim.experiments.capacity.request import Mix, PlanRequest, within
from ray_sim.model.html import facts_html, table_html
from ray_sim.model.readable import number, text_of
from ray_sim.reports.page import Cell, Table, number_cell
from ray_sim.reports.statistics import (
    ConfidenceInterval,
    bracketed,
    interval_text,
    mean_interval,
    metric_range,
    ratio_interval,
    ratio_of_means,
)

if TYPE_CHECKING:
    from ray_sim.experiments.sweep import SweepReport


@dataclass(frozen=True, slots=True)
class Point:
    """A policy on a mix of servers, evaluated over all seeds."""

    mix: Mix
    price: float
    mean: float
    """Mean of the metric over seeds; infinite where jobs that count did not complete."""
    interval: ConfidenceInterval | None
    """95 % interval of the mean; None for too few runs, and where the mean is infinite."""
    ratio: float | None
    """Mean over that of the scenario as it is now, if the goal is relative to it; None if that is 0."""
    ratio_interval: ConfidenceInterval | None
    """95 % interval of the ratio, paired by seed; None as in `interval`, and where it has no bounds."""
    in_doubt: bool
    """Whether the interval reaches across the limit, so that more seeds may change `met`."""
    runs: int
    """Number of runs; of a relative goal, of pairs with those of now."""
    meeting: int
    """Number of runs that meet the goal by themselves."""
    met: bool
    """Whether the mean meets the goal."""
    bound: Bound | None

    @classmethod
    def of(cls, request: PlanRequest, mix: Mix, values: list[float], bound: Bound | None) -> Point:
        """Point of the values of all seeds."""
        sample, goal = np.array(values), request.goal
        mean, finite = float(sample.mean()), bool(np.isfinite(sample).all())
        interval = mean_interval(sample, metric_range(goal.key)) if finite else None
        ratio = ratio_ends = None
        paired, limits = goal.paired(sample)
        across, limit = interval, goal.limit
        if goal.factor is not None and finite:
            now = limits / goal.factor
            ratio, ratio_ends = ratio_of_means(paired, now), ratio_interval(paired, now)
            across, limit = mean_interval(paired - limits), 0.0
        return cls(
            mix=mix,
            price=request.choices.price(mix),
            mean=mean,
            interval=interval,
            ratio=ratio,
            ratio_interval=ratio_ends,
            in_doubt=across is not None and across.low <= limit <= across.high,
            runs=len(paired),
            meeting=sum(map(goal.met, paired.tolist(), limits.tolist())),
            met=goal.met(mean),
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
    not_monotone: tuple[Mix, ...]
    """Evaluated mixes that are worse than one within them."""
    points: tuple[Point, ...]
    """Evaluated mixes, cheapest first."""

    @property
    def cost(self) -> tuple[float, float]:
        """Order of policies: by the price of the servers they need, then by the metric there."""
        return (math.inf, 0.0) if self.best is None else (self.best.price, self.best.mean)

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
            "not_monotone": [list(mix) for mix in self.not_monotone],
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
                "limit": _finite(request.goal.limit),
                "factor": request.goal.factor,
                "now": list(request.goal.now),
            },
            "vary": [asdict(axis) for axis in request.choices.axes],
            "fixed_price": request.choices.fixed_price,
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


def points_table(report: PlanReport) -> Table:
    """Table with a row for each evaluated choice."""
    goal = report.request.goal
    axes = [f"{axis.name}.count" for axis in report.request.choices.axes]
    share = goal.quantile is not None
    ratio = [] if goal.factor is None else ["x now"]
    columns = ["policy", *axes, "price", goal.key, "95 % interval", *ratio, "runs that meet it", "goal"]
    bounds = [] if report.no_proof else ["share in time, any policy" if share else "bound, any policy"]
    rows = [_point_cells(report, plan.policy, point) for plan in report.plans for point in plan.points]
    return Table((*columns, *bounds), tuple(rows))


def _point_cells(report: PlanReport, policy: str, point: Point) -> tuple[Cell, ...]:
    goal, bound = report.request.goal, point.bound
    text = text_of(goal.key)
    of_bound = number if goal.quantile is not None else text
    return (
        Cell(policy),
        *map(number_cell, (*point.mix, point.price, text(point.mean))),
        Cell(interval_text(point.interval, point.runs if math.isfinite(point.mean) else 0, text)),
        *([] if goal.factor is None else [Cell(_ratio_text(point))]),
        Cell(f"{point.meeting} of {point.runs}"),
        Cell("met" if point.met else "not met"),
        *([] if report.no_proof else [number_cell(bound and of_bound(bound.value))]),
    )


def plan_html(report: PlanReport) -> str:
    """The answer and the evaluated choices as HTML elements, for notebooks."""
    axes = [f"{axis.name}.count" for axis in report.request.choices.axes]
    columns = ["policy", *axes, "price", f"mean {report.request.goal.key}", "goal"]
    rows = [
        [
            (plan.policy, False, False),
            *((number(count), True, False) for count in (*point.mix, point.price)),
            (_mean_text(report, point), True, False),
            ("met" if point.met else "not met", False, point is plan.best),
        ]
        for plan in report.plans
        for point in plan.points
    ]
    facts = [(label.strip(), number(value)) for label, value in answers(report)]
    return facts_html("plan", facts) + table_html("evaluated, with 95 % intervals", columns, rows)


def _mean_text(report: PlanReport, point: Point) -> str:
    if not math.isfinite(point.mean):
        return "jobs did not complete"
    text = text_of(report.request.goal.key)
    return text(point.mean) + bracketed(point.interval, point.runs, text)


def _ratio_text(point: Point) -> str:
    return number(point.ratio) + bracketed(point.ratio_interval, point.runs if point.ratio else 0)


def answers(report: PlanReport) -> list[tuple[str, object]]:
    """Label and value of each line of the answer."""
    choices = report.request.choices
    goal = report.request.goal
    rows: list[tuple[str, object]] = [("results", report.directory), ("goal", goal)]
    if goal.now:
        scenario, text = report.request.scenario, text_of(goal.key)
        where = f"on {scenario.cluster} under {scenario.policy}"
        now = f"{text(float(np.mean(goal.now)))} {where}, so the limit is {text(goal.limit)}"
        rows.append(("now", now))
    for plan in report.plans:
        rows += _policy_rows(report, plan)
    if report.no_proof:
        rows.append(("bound", f"no proof: {report.no_proof}"))
    elif report.least is None:
        rows.append(("bound", "proves that no policy meets the goal with any of these"))
    elif not choices.axes:
        rows.append(("bound", "does not exclude that a policy meets the goal"))
    elif report.least == choices.mixes()[0]:
        rows.append(("bound", "excludes no choice"))
    else:
        priced = _priced(report, report.least)
        rows.append(("bound", f"excludes what is cheaper than {priced}"))
    best = next((plan.best for plan in report.plans if plan.best), None)
    if best is not None and report.least is not None and choices.axes and not report.no_proof:
        saved = best.price - choices.price(report.least)
        rows.append(("a better policy saves at most", f"{number(saved)} of {number(best.price)}"))
    return rows


def _policy_rows(report: PlanReport, plan: PolicyPlan) -> list[tuple[str, object]]:
    if plan.best is None:
        answer = "no choice meets the goal" if report.complete else _so_far(report, plan)
    elif report.request.choices.axes:
        answer = f"needs {_priced(report, plan.best.mix)}"
    else:
        answer = "meets the goal"
    if plan.best is not None and plan.best.ratio is not None:
        answer += f": {_ratio_text(plan.best)} x now"
    rows: list[tuple[str, object]] = [(plan.policy, answer), ("  search", _search(report, plan))]
    if plan.points and plan.points[0].runs < report.request.seed_count:
        rows.append(("  seeds", "nothing here depends on a seed: one run per choice, and no interval"))
    label = report.request.choices.label
    if plan.not_monotone:
        rows.append(("  worse than with fewer servers", "; ".join(map(label, plan.not_monotone))))
    if plan.failing_above:
        failing = "; ".join(label(point.mix) for point in plan.failing_above)
        rows.append(("  not met with more servers", failing))
    doubtful = [point for point in plan.points if point.in_doubt]
    if doubtful and report.request.choices.axes:
        prices = [point.price for point in doubtful]
        ends = dict.fromkeys([number(min(prices)), number(max(prices))])
        span = f"price {' to '.join(ends)}"
        text = f"{len(doubtful)} of {len(plan.points)} choices, {span}; more --seeds may change it"
        rows.append(("  interval reaches across", text))
    elif doubtful:
        rows.append(("  interval reaches across", "more --seeds may change it"))
    return rows


def _so_far(report: PlanReport, plan: PolicyPlan) -> str:
    """Answer of a search that did not end."""
    met = [point for point in plan.points if point.met]
    if not met or not report.request.choices.axes:
        return "not known, the search did not end"
    return f"needs {_priced(report, met[0].mix)}, or fewer; the search did not end"


def _search(report: PlanReport, plan: PolicyPlan) -> str:
    label = report.request.choices.label
    if plan.contradiction is not None:
        small, large = map(label, plan.contradiction)
        return f"every cheaper choice, since {large} is worse than {small}"
    if not report.request.choices.axes:
        return "the given servers"
    if not plan.assumed:
        return "every cheaper choice; more servers are not assumed to help"
    mixes = report.request.choices.mixes()
    if not plan.points:
        return f"none of {len(mixes):,} choices run"
    run = f"{len(plan.points)} of {len(mixes):,} choices run; assumes more servers help"
    return f"{run}; fewer may suffice" if _left_out(report, plan) else run


def _left_out(report: PlanReport, plan: PolicyPlan) -> bool:
    """Whether a choice before the answer was neither run nor excluded."""
    if plan.best is None or report.least is None:
        return False
    mixes, run = report.request.choices.mixes(), {point.mix for point in plan.points}
    allowed = mixes[mixes.index(report.least) : mixes.index(plan.best.mix)]
    return any(mix not in run for mix in allowed)


def _priced(report: PlanReport, mix: tuple[int, ...]) -> str:
    choices = report.request.choices
    return f"{choices.label(mix)}, price {number(choices.price(mix))}"
