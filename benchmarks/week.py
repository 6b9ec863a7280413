"""The week of Philly jobs, and clusters, for speed benchmarks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.units import QUANTA_PER_UNIT
from workloads.convert import convert
from workloads.store import write_workload
from workloads.synthetic.synth import synth

JOBS = 10_650
"""Number of jobs of the Philly week, and of its synthetic substitute."""

CLUSTER = "pool-368"

_TRACE = Path("reference") / "replay" / "philly_week_pool.csv"


def philly_week(folder: Path, small: bool = False) -> tuple[Path, str]:
    """Write the week's workload file into the folder; returns its path and description.

    The source is the reference week in the shared data (RAY_SIM_SHARED, by default ``../shared``), else a
    synthetic week with the same number of jobs. Figures of the two must not be compared.
    """
    trace = Path(os.environ.get("RAY_SIM_SHARED", "../shared")) / _TRACE
    workload = folder / "week.parquet"
    if trace.exists() and not small:
        convert("csv", [trace], workload)
        return workload, f"{trace.name} on {CLUSTER}"
    jobs = JOBS // 10 if small else JOBS
    write_workload(*synth("philly", jobs, seed=0, load_scale=2.0), workload)
    return workload, f"a synthetic week, as there is no {_TRACE.name}, on {CLUSTER}"


def equal_servers(kinds: Sequence[ServerKind], offers: Mapping[str, int]) -> Cluster:
    """Servers of these kinds, each of which offers these amounts of resources."""
    count = len(kinds)
    quanta = [amount * QUANTA_PER_UNIT[resource] for resource, amount in offers.items()]
    return Cluster(
        name=f"{count}-servers",
        server_names=tuple(f"s{i}" for i in range(count)),
        resources=tuple(offers),
        capacity=np.tile(quanta, (count, 1)).astype(np.int64),
        speed=np.ones(count),
        vc=(None,) * count,
        kind=tuple(kinds),
        gpu_type=(None,) * count,
    )
