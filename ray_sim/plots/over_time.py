"""Pictures of runs over time: jobs that wait, resources in use, jobs on servers, also while it is stepped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.view import View
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.readable import duration, instant, time_unit
from ray_sim.model.units import US_PER_S
from ray_sim.plots.sources import Results, axes_of, draw_names, one_run, runs_data
from ray_sim.reports.history.gantt import gantt as gantt_bars
from ray_sim.reports.history.holdings import read_history
from ray_sim.reports.page import MOST_POINTS, timeline_lines
from ray_sim.reports.plots import colour, literal_text, thin_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_STAYS = 2_000
"""Stays of jobs on servers in a picture; the page of `ray_sim.report` shows more, with zoom."""

_FEW = 0.1
"""Share of the most jobs present at a time below which the rest of a run is out of view."""

_NAMED_SHARE = 0.05
"""Share of the time from which on a bar has room for the name of its job."""


def queue(results: Results, ax: Axes | None = None) -> Axes:
    """Number of jobs that wait over time, of the first seed of each policy.

    If less than 10 % of the most jobs present at a time go on for longer than all before them, the axis of
    time ends soon after the others.
    """
    return _over_time(_first(results), "waiting", 1.0, "jobs waiting", ax)


def utilisation(
    results: Results, ax: Axes | None = None, *, resource: str = "gpu", capacity: float | None = None
) -> Axes:
    """A resource in use over time, of the first seed of each policy; the axis of time is as that of `queue`.

    Parameters
    ----------
    capacity : total of the servers in the resource's unit; with it the picture shows shares

    Raises
    ------
    UnknownNameError : no run uses such a resource
    InvalidInputError : the capacity is not above 0
    """
    if capacity is not None and not capacity > 0:
        raise InvalidInputError(f"capacity: expected a number above 0, found {capacity}")
    timelines = _first(results)
    used = {name for timeline in timelines.values() for name in timeline.columns if name.startswith("used_")}
    if f"used_{resource}" not in used:
        raise UnknownNameError("resource", resource, [name.removeprefix("used_") for name in used])
    title = f"{resource} in use" if capacity is None else f"share of {resource} in use"
    return _over_time(timelines, f"used_{resource}", capacity or 1.0, title, ax)


def _first(results: Results) -> dict[str, pl.DataFrame]:
    """The first timeline of each label."""
    return {label: next(iter(each.values())) for label, each in runs_data(results).timelines.items()}


def _over_time(
    timelines: Mapping[str, pl.DataFrame], column: str, divisor: float, title: str, ax: Axes | None
) -> Axes:
    filled = [each for each in timelines.values() if each.height]
    begin_s = min((float(each["time_s"][0]) for each in filled), default=0.0)
    end_s = max([begin_s + 1, *map(_busy_end_s, filled)])
    origin_s, unit, factor = _scale(begin_s, end_s)
    ax = axes_of(ax)
    for index, (label, timeline) in enumerate(timelines.items()):
        if column in timeline.columns:
            time_s, values = timeline_lines(timeline, {column: label})[label]
            seen = np.searchsorted(time_s, end_s, side="right")
            kept = np.append(
                thin_steps(time_s[:seen], values[:seen], MOST_POINTS), np.arange(seen, len(values))[-1:]
            )
            style: dict[str, Any] = {"where": "post", "linewidth": 1.2, "color": colour(index)}
            drawn_s = (time_s[kept] - origin_s) / factor
            ax.step(drawn_s, values[kept] / divisor, label=literal_text(label), **style)
    ax.set_xlabel(_time_text(origin_s, unit))
    ax.set_ylabel(title)
    ax.set_xlim((begin_s - origin_s) / factor, (end_s - origin_s) / factor)
    ax.set_ylim(bottom=0)
    draw_names(ax)
    return ax


def _scale(begin_s: float, end_s: float) -> tuple[float, str, float]:
    """Second of the axis's zero, its unit and the seconds of a unit.

    The zero is that of the times, or the begin where that is long after it, as in a workload of dates.
    """
    origin_s = begin_s if begin_s > 10 * (end_s - begin_s) else 0.0
    return origin_s, *time_unit(end_s - origin_s)


def _time_text(origin_s: float, unit: str) -> str:
    return f"time since {instant(origin_s)}, {unit}" if origin_s else f"time, {unit}"


def _busy_end_s(timeline: pl.DataFrame) -> float:
    """End of the axis of time for one run, see `queue`."""
    time_s = timeline["time_s"].to_numpy()
    present = (timeline["waiting"] + timeline["running"]).to_numpy()
    busy = np.flatnonzero(present >= _FEW * present.max())
    begin_s, end_s = float(time_s[0]), float(time_s[-1])
    busy_s = float(time_s[min(busy[-1] + 1, len(time_s) - 1)]) - begin_s
    return end_s if end_s - begin_s <= 2 * busy_s else begin_s + 1.1 * busy_s


def gantt(results: Results, ax: Axes | None = None) -> Axes:
    """Jobs on servers over time, of one run of at most `MOST_STAYS` stays; colours tell neighbours apart.

    Raises
    ------
    InvalidInputError : several runs, no stay, or too many
    """
    result = one_run(results)
    servers = result.events["server"].drop_nulls().unique(maintain_order=True).to_list()
    history = read_history(result.events, result.jobs, tuple(servers))
    stays = len(history.holdings)
    if not 0 < stays <= MOST_STAYS:
        raise InvalidInputError(
            f"gantt: {stays:,} stays of jobs on servers; expected 1 to {MOST_STAYS:,}. Take a smaller window "
            "of the workload, or write the page of `ray_sim.report`"
        )
    data: Mapping[str, Any] = gantt_bars(history, servers, result.jobs).data
    lane = np.repeat(np.arange(len(data["bars"])), data["bars"])
    begin_s = data["origin_s"] + np.cumsum(data["begin"]) / 1000
    length_s = np.array(data["length"]) / 1000
    first_s, last_s = float(begin_s.min()), float((begin_s + length_s).max())
    origin_s, unit, factor = _scale(first_s, last_s)
    left = (begin_s - origin_s) / factor
    ax = axes_of(ax)
    colours = [colour(job) for job in data["job"]]
    ax.barh(lane, length_s / factor, left=left, color=colours, edgecolor="white", linewidth=0.5)
    long = length_s >= _NAMED_SHARE * (last_s - first_s)
    for index in np.flatnonzero(long):
        name = literal_text(data["jobs"]["id"][data["job"][index]])
        middle = left[index] + length_s[index] / 2 / factor
        ax.text(middle, lane[index], name, ha="center", va="center", fontsize="x-small", clip_on=True)
    lanes = np.array(data["lanes"])
    for border in np.cumsum(lanes)[:-1]:
        ax.axhline(border - 0.5, color="#7a7a7a", linewidth=0.5)
    ax.set_yticks(np.cumsum(lanes) - (lanes + 1) / 2, [literal_text(name) for name in data["servers"]])
    ax.set_ylim(lanes.sum() - 0.5, -0.5)
    ax.set_xlabel(_time_text(origin_s, unit))
    return ax


MOST_SERVERS = 64
"""Servers in a picture."""


def state(simulation: Simulation, view: View, ax: Axes | None = None, *, resource: str = "gpu") -> Axes:
    """Draw how much of a resource each job holds on each server now; the axes are cleared first.

    Call it after ``simulation.apply``, with the view of that decision.

    Parameters
    ----------
    view : what `simulation.advance` returned

    Raises
    ------
    InvalidInputError : more than `MOST_SERVERS` servers, or jobs that train in chunks
    UnknownNameError : the servers have no such resource
    """
    world = simulation.core.world
    names = world.cluster.server_names
    if len(names) > MOST_SERVERS:
        raise InvalidInputError(f"state: {len(names):,} servers; expected at most {MOST_SERVERS}")
    if isinstance(world.facts, ChunkFacts):
        raise InvalidInputError("state: chunks are no placements; draw `ray_sim.plots.gantt` of the result")
    if resource not in world.facts.resources:
        raise UnknownNameError("resource", resource, world.facts.resources)
    axis, quanta = list(world.facts.resources).index(resource), world.facts.resources[resource]
    jobs = np.concatenate([view.waiting, view.running])
    held = view.placements.of(jobs)
    amount = world.arrays.demand[held.job, held.role, axis] * held.count / quanta
    ax = axes_of(ax)
    ax.clear()
    offered = world.arrays.capacity[:, axis] * view.available / quanta
    ax.barh(range(len(names)), offered, color="none", edgecolor="#7a7a7a")
    taken = np.zeros(len(names))
    for job, server, width in zip(held.job, held.server, amount, strict=True):
        ax.barh(server, width, left=taken[server], color=colour(int(job)), edgecolor="white", linewidth=0.5)
        taken[server] += width
    ax.set_yticks(range(len(names)), [literal_text(name) for name in names], fontsize="small")
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(f"{resource} in use")
    now = duration(view.now_us / US_PER_S)
    ax.set_title(f"{now}: {len(view.waiting):,} waiting, {len(view.running):,} running")
    return ax
