"""Charts of one run: jobs on servers, the queue, utilisation, fragmentation and what the policy reports."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.result import RunResult
from ray_sim.model.units import US_PER_S, BoolArray, IntArray
from ray_sim.reports.charts import line_chart, timeline_lines, timeline_to_end
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.history.explanation_text import MOST_IN_PAGE, explanation_sections
from ray_sim.reports.history.free_capacity import FreeCapacity
from ray_sim.reports.history.gantt import gantt
from ray_sim.reports.history.holdings import History, read_history
from ray_sim.reports.history.run_facts import RunFacts
from ray_sim.reports.history.waits import Waits
from ray_sim.reports.page import Chart
from ray_sim.reports.tables import columns_in_use

MOST_EXPLAINED = 100
"""Jobs whose reasons are in the page: those that waited longest."""

_OWN_COLUMNS = {
    "beta": "beta, a dual variable of the policy",
    "primal": "primal objective of the policy",
    "dual": "dual objective of the policy",
    "welfare": "welfare so far",
    "revenue": "revenue so far",
    "speed_error": "error of estimated speeds",
    "convergence_error": "error of estimated remaining samples",
}
"""Captions of columns of the timeline that only some kinds of jobs and policies have."""
_COMMON = ("time_s", "waiting", "running")


def run_charts(result: RunResult, explainer: RunExplainer | None) -> tuple[Chart, ...]:
    """Charts of a run; without an explainer those that need neither demands nor capacities."""
    if explainer is None:
        names = tuple(result.events["server"].drop_nulls().unique(maintain_order=True).to_list())
        history = read_history(result.events, result.jobs, names)
        bars = gantt(history, names, result.jobs)
    else:
        history, facts = explainer.history, explainer.facts
        bars = gantt(history, facts.servers, result.jobs, facts.there)
    timeline = timeline_to_end(result.timeline, result.jobs)
    told = {} if explainer is None else _explanations(result.jobs, explainer)
    note = f"{bars.left_out:,} shorter stays are left out." if bars.left_out else ""
    jobs = {"waiting": "waiting", "running": "running"}
    return (
        Chart("Jobs on servers", {**bars.data, "explanations": told}, note),
        line_chart("Jobs waiting and running", "jobs", timeline_lines(timeline, jobs)),
        *_utilisation(timeline, explainer),
        *([] if explainer is None else _placement_charts(explainer)),
        *_own(timeline),
    )


def _explanations(jobs: pl.DataFrame, explainer: RunExplainer) -> dict[str, object]:
    """Sections of text by job index, of the jobs that waited longest."""
    order = jobs.with_row_index("job").filter(pl.col("queue_s") > 0)
    longest = order.sort("queue_s", "job", descending=[True, False])["job"].head(MOST_EXPLAINED)
    return {str(job): explanation_sections(explainer.explain(job, MOST_IN_PAGE)) for job in longest.to_list()}


def _utilisation(timeline: pl.DataFrame, explainer: RunExplainer | None) -> list[Chart]:
    used = columns_in_use(timeline, "used_")
    if not used:
        return []
    lines = timeline_lines(timeline, used)
    if explainer is None:
        return [line_chart(f"Use of {name}", name, {name: line}) for name, line in lines.items()]
    facts = explainer.facts
    counted = ~facts.cloud if facts.chunked else np.ones(len(facts.servers), dtype=np.bool_)
    totals = dict(zip(facts.resources, facts.arrays.capacity[counted].sum(axis=0).tolist(), strict=True))
    shares = {
        name: (time_s, values / (totals[name] / facts.resources[name]))
        for name, (time_s, values) in lines.items()
        if totals[name]
    }
    return [line_chart("Utilisation", "used over all servers, available or not", shares)]


def _placement_charts(explainer: RunExplainer) -> list[Chart]:
    facts, history = explainer.facts, explainer.history
    charts = []
    if not facts.chunked:
        pieces = fragmentation(facts, explainer.free, explainer.waits, np.unique(history.time_us))
        charts.append(
            line_chart(
                "Fragmentation",
                "share of free capacity in pieces too small for the job that waits longest",
                timeline_lines(pieces, {"fragmentation": "fragmentation"}),
            )
        )
    if facts.cloud.any() and not facts.cloud.all():
        places = {"edge and plain servers": ~facts.cloud, "cloud": facts.cloud}
        charts.append(
            line_chart("Tasks by place", "tasks, or chunks in progress", _by_place(history, places))
        )
    return charts


def _by_place(history: History, places: Mapping[str, BoolArray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Tasks held on each set of servers over time."""
    stays = history.holdings
    lines = {}
    for name, servers in places.items():
        mine = servers[stays.server]
        times = np.concatenate([stays.begin_us[mine], stays.end_us[mine]])
        steps = np.concatenate([stays.tasks[mine], -stays.tasks[mine]])
        at, place = np.unique(times, return_inverse=True)
        held = np.cumsum(np.bincount(place, steps, minlength=len(at)))
        lines[name] = (at / US_PER_S, held)
    return lines


def _own(timeline: pl.DataFrame) -> list[Chart]:
    """A chart for each column that the policy or the kind of jobs adds."""
    own = [name for name in timeline.columns if name not in _COMMON and not name.startswith("used_")]
    return [
        line_chart(
            _OWN_COLUMNS.get(name, f"{name}, of the policy"), name, timeline_lines(timeline, {name: name})
        )
        for name in own
        if timeline[name].count()
    ]


MOST_INSTANTS = 500
"""Instants at which fragmentation is computed."""


def fragmentation(facts: RunFacts, free: FreeCapacity, waits: Waits, times_us: IntArray) -> pl.DataFrame:
    """Share of free capacity that the job that waits longest cannot use, at some instants.

    At an instant, take the waiting job with the earliest submission and the servers of its partition. What is
    free on one server is a piece; it is too small if it holds neither the whole gang nor, where the gang is
    larger, the largest server's worth of it. Fragmentation is the share of free capacity in pieces that are
    too small, of the resource with the largest share: 0 if no job waits or nothing is free.

    Parameters
    ----------
    times_us : instants to choose from, increasing; at most `MOST_INSTANTS` are taken, evenly

    Returns
    -------
    columns ``time_s`` and ``fragmentation``
    """
    evenly = np.linspace(0, len(times_us) - 1, min(len(times_us), MOST_INSTANTS)).round()
    instants = times_us[np.unique(evenly.astype(np.int64))]
    by_time = np.argsort(free.time_us, kind="stable")
    state = np.zeros_like(facts.arrays.capacity)
    ends = np.searchsorted(free.time_us[by_time], instants, side="right")
    shares, begin = [], 0
    for time_us, end in zip(instants.tolist(), ends.tolist(), strict=True):
        rows = by_time[begin:end]
        state[free.server[rows]] = free.free[rows]
        begin = end
        shares.append(_share(facts, state, _longest_waiting(waits, time_us)))
    return pl.DataFrame({"time_s": instants / US_PER_S, "fragmentation": np.array(shares)})


def _longest_waiting(waits: Waits, time_us: int) -> int | None:
    """The lowest index of the jobs that wait at an instant; jobs are numbered by submission."""
    now = (waits.begin_us <= time_us) & (time_us < waits.end_us)
    return int(waits.job[now].min()) if now.any() else None


def _share(facts: RunFacts, free: IntArray, job: int | None) -> float:
    if job is None:
        return 0.0
    mine = facts.eligible(job)
    whole = facts.whole_demand(job)
    needed = whole > 0
    pieces = np.maximum(free[mine][:, needed], 0)
    total = pieces.sum(axis=0)
    if not needed.any() or not (total > 0).any():
        return 0.0
    wanted = np.minimum(whole, facts.arrays.capacity[mine].max(axis=0))[needed]
    useful = np.all(pieces >= wanted, axis=1)
    lost = pieces[~useful].sum(axis=0)
    return float(np.max(lost[total > 0] / total[total > 0]))
