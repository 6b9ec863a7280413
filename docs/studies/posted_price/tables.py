"""Print a table of the runs of sweeps: means over the seeds, with 95 % intervals.

    python tables.py results/posted-price-capacity-100 ...

Run it in this folder, where the sweeps ran: it draws their jobs again for bounds on welfare. `bound` holds
for schedules that know all arrivals and durations; `plans` for schedulers that learn what the signal tells,
left out where there are many jobs.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ray_sim.reports.statistics import mean_interval
from runs import Run, read_runs

ANNOUNCED: dict[str, object] = {"truth": "announced", "slot_s": 600, "horizon_s": 1500000, "most_value": 1024}
"""World under which the jobs of rigid runs are valued: that of philly.yaml and google.yaml."""

COLUMNS = (
    "policy",
    "welfare",
    "bound / welfare",
    "plans / welfare",
    "revenue / welfare",
    "eviction rate",
    "planned / welfare",
    "completed",
    "JCT from birth, h",
    "from arrival, h",
)


def figures(run: Run) -> list[float]:
    """Numbers of a run, in the order of the columns; nan where it has none."""
    told, welfare, nan = run.summary.welfare, run.welfare, float("nan")
    planned = (run.summary.policy_figures or {}).get("planned_welfare", nan)
    jct = run.summary.jct_s
    jct_h = nan if jct is None else jct.mean / 3600
    arrival = None if told is None else told.jct_from_arrival_s
    return [
        welfare,
        run.bound() / welfare,
        run.plan_bound() / welfare,
        nan if told is None else told.revenue / welfare,
        nan if told is None else told.eviction_rate,
        float(planned) / welfare,
        run.summary.completed,
        nan if told is None else jct_h,
        jct_h if told is None else (nan if arrival is None else arrival.mean / 3600),
    ]


def cell(values: Sequence[float]) -> str:
    """A mean with its interval."""
    sample = np.array(values)
    if np.isnan(sample).any():
        return ""
    span = mean_interval(sample)
    between = "" if span is None else f" [{span.low:.3g}, {span.high:.3g}]"
    return f"{sample.mean():.3g}{between}" if abs(sample.mean()) < 1000 else f"{sample.mean():,.0f}{between}"


def main(arguments: Sequence[str]) -> None:
    """Print a table for each workload and setting."""
    groups: dict[tuple[str, str], dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for run in read_runs(arguments, ANNOUNCED):
        workload, setting, policy = run.label
        groups[workload, setting][policy].append(figures(run))
    for (workload, setting), policies in groups.items():
        print(f"\n{workload}, {setting}\n\n| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|")
        for policy, rows in policies.items():
            print(" | ".join([f"| {policy}", *(cell(column) for column in zip(*rows, strict=True))]) + " |")


if __name__ == "__main__":
    main(sys.argv[1:])
