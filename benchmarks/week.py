"""The week of real jobs that speeds are measured on."""

from __future__ import annotations

import os
from pathlib import Path

from workloads.convert import convert
from workloads.store import write_workload
from workloads.synthetic.synth import synth

JOBS = 10_650
"""Jobs of the Philly week; the synthetic stand-in has as many."""

CLUSTER = "pool-368"

_TRACE = Path("reference") / "replay" / "philly_week_pool.csv"


def philly_week(folder: Path) -> tuple[Path, str]:
    """A workload file in the folder, and what it is.

    It is the reference week where the shared data is (RAY_SIM_SHARED, by default ``../shared``), else
    a synthetic week of as many jobs: figures of the two must not be compared.
    """
    trace = Path(os.environ.get("RAY_SIM_SHARED", "../shared")) / _TRACE
    workload = folder / "week.parquet"
    if trace.exists():
        convert("csv", [trace], workload)
        return workload, f"{trace.name} on {CLUSTER}"
    write_workload(*synth("philly", JOBS, seed=0, load_scale=2.0), workload)
    return workload, f"a synthetic week, as there is no {_TRACE.name}, on {CLUSTER}"
