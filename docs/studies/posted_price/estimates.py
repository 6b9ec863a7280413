"""Print at how many births some estimate of failure is above 0: runs of posted_price.

    python estimates.py results/posted-price-regret ...

Each run is repeated, with its seed: means over the seeds, with 95 % intervals.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ray_sim.engine.run import run_world
from ray_sim.model.units import FloatArray
from ray_sim.policies.posted_price.planner_kernels import PlannedJob
from ray_sim.policies.posted_price.policy import PostedPrice
from ray_sim.reports.statistics import mean_interval
from runs import announced_world, read_runs


class Watched(PostedPrice):
    """Counts births, and those at which a start and a duration may fail."""

    births: int = 0
    uncertain: int = 0

    def _failures(self, report: PlannedJob) -> FloatArray | None:
        estimates = super()._failures(report)
        self.births += 1
        self.uncertain += estimates is not None and bool((estimates > 0).any())
        return estimates


def main(arguments: Sequence[str]) -> None:
    """Print a line for each policy."""
    shares: dict[str, list[float]] = defaultdict(list)
    for run in read_runs(arguments):
        params: dict[str, Any] = dict(run.scenario.params)
        policy = Watched(**params)
        run_world(announced_world(run.jobs_of.model_dump_json()), policy, seed=run.seed)
        shares[run.label[2]].append(policy.uncertain / policy.births)
    for label, found in shares.items():
        span = mean_interval(np.array(found))
        between = "" if span is None else f" [{span.low:.2f}, {span.high:.2f}]"
        print(f"{label}: {np.mean(found):.2f}{between} of the births")


if __name__ == "__main__":
    main(sys.argv[1:])
