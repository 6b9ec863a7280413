"""Totals of a run so far, for rewards: work done, time in the system, completions.

`engine/run_meter.py` calls `read_meter` once per decision of an environment. Sums run in the order of jobs:
another order gives other last bits of rewards.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import COMPLETED, F64, I64, RUNNING, WAITING, Ledger
from ray_sim.kernels.core.progress import work_left


class MeterBooks(NamedTuple):
    """Arrays of a meter."""

    ledger: Ledger
    submit: I64
    """(J,) microseconds."""
    work: F64
    """(J,) work of each job."""
    present: I64
    """(J,) jobs in the system at the last reading, in order of job."""
    tally: I64
    """(4,) jobs that are present, that were submitted, that completed; microseconds that ended jobs were
    there."""
    reading: F64
    """(2,) results: shares of work done, summed over jobs; microseconds in the system, summed over jobs."""


@kernel
def read_meter(meter: MeterBooks, now: int, arrivals: int) -> None:
    """Set `reading` to the totals at ``now``, when ``arrivals`` jobs were submitted; O(jobs present).

    A completed job counts 1, a job without work 0 until then, a rejected or evicted one 0 for good.
    """
    ledger, submit, count = meter.ledger, meter.submit, meter.tally
    n = count[0]
    for job in range(count[1], arrivals):
        meter.present[n] = job
        n += 1
    count[1] = arrivals
    kept, share, present_us = 0, 0.0, 0
    for i in range(n):
        job = meter.present[i]
        status = ledger.status[job]
        if status == WAITING or status == RUNNING:
            meter.present[kept] = job
            kept += 1
            present_us += now - submit[job]
            if meter.work[job] > 0.0:
                share += 1.0 - work_left(ledger, job, now) / meter.work[job]
        else:
            count[3] += ledger.end[job] - submit[job]
            if status == COMPLETED:
                count[2] += 1
    count[0] = kept
    meter.reading[0] = count[2] + share
    meter.reading[1] = float(count[3] + present_us)
