"""Runs across an axis of a sweep: each policy with itself, on the same seeds, at every value of the axis.

`ray-sim compare --across`, the report of a sweep and the notebook's picture show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import polars as pl

from ray_sim.model.errors import UnknownNameError
from ray_sim.model.readable import in_seconds, time_unit
from ray_sim.model.text import shown
from ray_sim.reports.compare import RUNS_SCHEMA, GroupComparison, compare_policies
from ray_sim.reports.curves import Axis, Curves, Point, curves_svg
from ray_sim.reports.findings import PlaceComparison
from ray_sim.reports.page import STEPS, Chart, Picture, Section, Table
from ray_sim.reports.shape_samples import X
from ray_sim.reports.statistics import mean_interval, metric_range
from ray_sim.reports.sweep_report import verdict_table
from ray_sim.reports.tables import Place, RunRow, place_title


class Across(StrEnum):
    """Axis of a sweep; the world is that with partition and trim, the parameters are those of policies."""

    WORKLOAD = "workload"
    CLUSTER = "cluster"
    WORLD = "world"
    PARAMS = "params"


def axis_of(name: str) -> Across:
    """The axis of a name; `UnknownNameError` where there is none."""
    if name not in list(Across):
        raise UnknownNameError("axis", name, Across)
    return Across(name)


def turned(place: Place, policy: str, across: Across) -> tuple[Place, str, str]:
    """Place of a run without the axis, its line over the axis, and its value of the axis.

    The line is the policy; across its parameters, its name.
    """
    labels = dict(zip(("workload", "cluster", "world"), place, strict=True))
    name = re.split(r"[({]", policy, maxsplit=1)[0]
    params = re.sub(r"^\((.*)\)$", r"\1", policy.removeprefix(name))
    value = labels.get(across, params) or "defaults"
    workload, cluster, setting = (labels | {across.value: ""} if across in labels else labels).values()
    return (workload, cluster, setting), name if across is Across.PARAMS else policy, value


@dataclass(frozen=True, slots=True)
class Scale:
    """Values of an axis, in the order in which they are shown."""

    across: Across
    title: str
    """What x is, such as servers; the axis where x is a name."""
    xs: Mapping[str, X]
    """Number by value, ascending; the value itself where it has no number."""
    first: str
    """Value that the sweep has first: the baseline, unless another is named."""

    @property
    def numeric(self) -> bool:
        """Whether x is a number."""
        return any(x != value for value, x in self.xs.items())


def scale_of(across: Across, facts: Mapping[str, Mapping[str, object]], names: Iterable[str]) -> Scale:
    """Scale by the first fact that is a different number at each value; without one, by the values' names.

    Parameters
    ----------
    facts : numbers and texts by value of the axis, in the order of the sweep
    names : names of facts that may be x, the preferred one first
    """
    first = next(iter(facts))
    for name in names:
        xs = {value: float(str(found[name])) for value, found in facts.items() if is_number(found.get(name))}
        if len(set(xs.values())) == len(facts):
            return Scale(across, name, {value: xs[value] for value in sorted(xs, key=xs.__getitem__)}, first)
    return Scale(across, str(across), {value: value for value in facts}, first)


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compare_across(
    runs: pl.DataFrame, metric: str, scale: Scale, baseline: str | None = None
) -> GroupComparison:
    """Compare the values of an axis, in its order, with the baseline, by default the first in the sweep.

    Parameters
    ----------
    runs : columns of `RUNS_SCHEMA`, where the value of the axis is the policy; at least two values
    """
    there = set(runs.drop_nulls("value")["policy"])
    first = next(value for value in (scale.first, *scale.xs) if value in there)
    found, order = compare_policies(runs, metric, baseline or first), list(scale.xs)
    policies = sorted(found.policies, key=lambda each: order.index(each.policy))
    return replace(found, policies=tuple(policies))


Lines = Mapping[tuple[Place, str], PlaceComparison]
"""Values of an axis by place, without the axis, and policy; at least two values each, in their order."""


def axis_lines(rows: Sequence[RunRow], scale: Scale, metric: str) -> Lines:
    """Lines of finished runs; those without two values of the axis are left out."""
    runs: dict[tuple[Place, str], list[tuple[str, int | None, float | None, int]]] = {}
    for row in rows:
        place, line, value = turned(row.place, row.policy, scale.across)
        found = (value, row.seed, row.summary.flat().get(metric), row.summary.completed)
        runs.setdefault((place, line), []).append(found)
    lines = {}
    for key, each in runs.items():
        frame = pl.DataFrame(each, schema=RUNS_SCHEMA, orient="row").drop_nulls("value")
        values = {value: frame.filter(policy=value)["value"].to_numpy() for value in scale.xs}
        values = {value: sample for value, sample in values.items() if len(sample)}
        if len(values) > 1:
            lines[key] = PlaceComparison(metric, values, compare_across(frame, metric, scale))
    return lines


def line_curves(lines: Lines, scale: Scale, metric: str) -> Curves:
    """Curves of lines, whose names have the place where there are several; times in the unit that fits."""
    several = len({place for place, _ in lines}) > 1
    means = [float(sample.mean()) for line in lines.values() for sample in line.values.values()]
    unit, factor = time_unit(max(means)) if in_seconds(metric) else (None, 1.0)
    names = {key: f"{key[1]} ({place_title(key[0])})" if several else key[1] for key in lines}
    points = tuple(
        Point(names[key], scale.xs[value], len(sample), float(sample.mean()) / factor, ends, None)
        for key, line in lines.items()
        for value, sample in line.values.items()
        for ends in [mean_interval(sample / factor, metric_range(metric))]
    )
    xs = [x for x in scale.xs.values() if any(x == point.x for point in points)]
    return Curves(Axis(scale.title), Axis(metric, unit), tuple(xs), tuple(names.values()), points)


def axis_chart(caption: str, curves: Curves) -> Chart:
    """Means over an axis of numbers with their 95 % intervals, a line for each series."""
    series: list[dict[str, object]] = []
    for name in curves.series:
        points = [point for point in curves.points if point.series == name]
        ends = [point.interval for point in points]
        line = {
            "name": shown(name),
            "x": [point.x for point in points],
            "y": [point.mean for point in points],
        }
        low, high = [each and each.low for each in ends], [each and each.high for each in ends]
        series.append({**line, "low": low, "high": high})
    titles = {"x_title": curves.x.title, "y_title": curves.y.title}
    data = {**STEPS, "x": "number", "points": True, "shared": True, "series": series, **titles}
    return Chart(caption, data)


MOST_NAMES = 8
"""Most values without a number that a chart has beside each other."""


def axis_section(rows: Sequence[RunRow], scale: Scale, metrics: Iterable[str]) -> Section | None:
    """Section of a sweep's report: each metric over the axis as a chart, or of names a picture, and tables.

    None where no policy has two values of the axis, and where they have too many names for a chart.
    """
    if not scale.numeric and (scale.across is Across.WORKLOAD or len(scale.xs) > MOST_NAMES):
        return None
    pictures: list[Picture] = []
    charts: list[Chart] = []
    tables: list[Table | None] = []
    notes: list[str] = []
    for metric in metrics:
        lines = axis_lines(rows, scale, metric)
        for place in dict.fromkeys(place for place, _ in lines):
            here = {key: line for key, line in lines.items() if key[0] == place}
            curves, caption = (
                line_curves(here, scale, metric),
                ", ".join(filter(None, [metric, place_title(place)])),
            )
            if scale.numeric:
                charts.append(axis_chart(caption, curves))
            else:
                pictures.append(
                    Picture(curves_svg(curves, f"across-{scale.across}-{len(pictures)}"), caption)
                )
        for (place, policy), line in lines.items():
            heading = ", ".join(filter(None, [policy, place_title(place), scale.across]))
            tables.append(verdict_table(line, heading, is_best=False))
            notes += line.comparison.notes if line.comparison else ()
    text = tuple(f"{note[0].upper()}{note[1:]}." for note in dict.fromkeys(notes))
    found = tuple(filter(None, tables))
    if not found:
        return None
    drawn, title = tuple(pictures), f"Across {scale.across}"
    return Section(title, text=text, tables=found, pictures=drawn, pictures_first=True, charts=tuple(charts))
