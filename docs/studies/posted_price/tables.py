"""Print a table of the runs of sweeps: means over the seeds, with 95 % intervals.

    python tables.py results/posted-price-capacity-100 ...

Run it in this folder, where the sweeps ran: it draws their jobs again for bounds on welfare. `bound` holds
for schedules that know all arrivals and durations; `plans` for schedulers that learn what the signal tells,
left out where there are many jobs.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from ray_sim.model.figures import AnnouncedFigures
from ray_sim.reports.statistics import mean_interval
from runs import Run, read_runs

ANNOUNCED: dict[str, object] = {"truth": "announced", "slot_s": 600, "horizon_s": 1500000, "most_value": 1024}
"""World under which the jobs of rigid runs are valued: that of philly.yaml and google.yaml."""

FAILED = ("evicted_running", "cancelled_due", "cancelled_early")
"""Fates of jobs that count as evicted."""


def figures(run: Run) -> dict[str, float]:
    """Numbers of a run by column; nan where it has none."""
    own, welfare, nan = run.summary.figures_as(AnnouncedFigures), run.welfare, float("nan")
    told = None if own is None else own.welfare
    planned = (run.summary.policy_figures or {}).get("planned_welfare", nan)
    jct = run.summary.jct_s
    jct_h = nan if jct is None else jct.mean / 3600
    arrival = None if told is None else told.jct_from_arrival_s
    return {
        "welfare": welfare,
        "bound / welfare": run.bound() / welfare,
        "plans / welfare": run.plan_bound() / welfare,
        "revenue / welfare": nan if told is None else told.revenue / welfare,
        "eviction rate": nan if told is None or told.eviction_rate is None else told.eviction_rate,
        "evicted": nan if told is None else sum(told.fates[fate] for fate in FAILED),
        "planned / welfare": float(planned) / welfare,
        "completed": run.summary.completed,
        "JCT from birth, h": nan if told is None else jct_h,
        "from arrival, h": jct_h if told is None else (nan if arrival is None else arrival.mean / 3600),
    }


def cell(values: Sequence[float]) -> str:
    """A mean with its interval."""
    sample = np.array(values)
    if np.isnan(sample).any():
        return ""
    span = mean_interval(sample)
    between = "" if span is None else f" [{span.low:.3g}, {span.high:.3g}]"
    return f"{sample.mean():.3g}{between}" if abs(sample.mean()) < 1000 else f"{sample.mean():,.0f}{between}"


def table(policies: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Markdown: a row for each policy, a column for each figure that some run has."""
    runs = [run for rows in policies.values() for run in rows]
    columns = [name for name in runs[0] if not all(np.isnan(run[name]) for run in runs)]
    lines = ["| policy | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for policy, rows in policies.items():
        cells = [cell([run[name] for run in rows]) for name in columns]
        lines.append(" | ".join([f"| {policy}", *cells]) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> None:
    """Print a table for each workload and setting."""
    groups: dict[tuple[str, str], dict[str, list[dict[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for run in read_runs(arguments, ANNOUNCED):
        workload, setting, policy = run.label
        groups[workload, setting][policy].append(figures(run))
    for (workload, setting), policies in groups.items():
        print(f"\n{workload}, {setting}\n\n{table(policies)}")


if __name__ == "__main__":
    main(sys.argv[1:])
