"""Answers of a plan as lines to show, on a terminal and in a notebook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ray_sim.model.html import facts_html, table_html
from ray_sim.model.readable import duration, number
from ray_sim.reports.compare import in_seconds
from ray_sim.reports.statistics import bracketed, interval_text

if TYPE_CHECKING:
    from ray_sim.experiments.capacity.report import PlanReport, Point, PolicyPlan


def points_columns(report: PlanReport) -> list[str]:
    """Headings of the table of evaluated choices."""
    request = report.request
    axes = [f"{axis.name}.count" for axis in request.choices.axes]
    share = request.goal.quantile is not None
    columns = ["policy", *axes, "price", request.goal.key, "95 % interval", "runs that meet it", "goal"]
    bounds = [] if report.no_proof else ["share in time, any policy" if share else "bound, any policy"]
    return [*columns, *bounds]


def points_rows(report: PlanReport) -> list[list[object]]:
    """A row for each evaluated choice, see `points_columns`."""
    return [
        [plan.policy, *point.mix, point.price, *_cells(point), *([] if report.no_proof else [_bound(point)])]
        for plan in report.plans
        for point in plan.points
    ]


def _cells(point: Point) -> list[object]:
    met = "met" if point.met else "not met"
    return [
        point.mean,
        interval_text(point.interval, point.runs if math.isfinite(point.mean) else 0),
        f"{point.meeting} of {point.runs}",
        met,
    ]


def _bound(point: Point) -> float | None:
    return None if point.bound is None else point.bound.value


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
    text = duration if in_seconds(report.request.goal.key) else number
    return text(point.mean) + bracketed(point.interval, point.runs, text)


def answers(report: PlanReport) -> list[tuple[str, object]]:
    """Label and value of each line of the answer."""
    choices = report.request.choices
    rows: list[tuple[str, object]] = [("results", report.directory), ("goal", report.request.goal)]
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
    rows: list[tuple[str, object]] = [(plan.policy, answer), ("  search", _search(report, plan))]
    label = report.request.choices.label
    if plan.failing_above:
        failing = "; ".join(label(point.mix) for point in plan.failing_above)
        rows.append(("  not met with more servers", failing))
    doubtful = [point for point in plan.points if point.in_doubt(report.request.goal.limit)]
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
