"""Progress of jobs: work left, rates, checkpoints, and the calendar of completions.

Progress of a job is linear from its anchor: work left now = `work_left` - `rate` x (now - anchor). The
anchor moves, and the finish time is computed, only when the rate changes or the job stops, so rounding does
not depend on how often a job is looked at. Invariant between decisions: the calendar holds the running jobs
with their `finish`, except jobs in chunks, whose sites keep calendars of chunks.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import (
    F64,
    I64,
    KEEP_ALL,
    KEEP_CHECKPOINT,
    NEVER,
    RUNNING,
    Calendar,
    Ledger,
)
from ray_sim.kernels.core.heap import schedule, unschedule


@kernel
def elapsed(ledger: Ledger, job: int, now: int) -> int:
    """Return microseconds of progress since the anchor; 0 during a restart pause."""
    if ledger.status[job] != RUNNING or now <= ledger.anchor[job]:
        return 0
    return now - ledger.anchor[job]


@kernel
def work_left(ledger: Ledger, job: int, now: int) -> float:
    """Return the work left now; the anchor stays."""
    return max(0.0, ledger.work_left[job] - ledger.rate[job] * elapsed(ledger, job, now))


@kernel
def executed(ledger: Ledger, job: int, now: int) -> int:
    """Return the microseconds in which the job has made progress so far."""
    return ledger.ran[job] + elapsed(ledger, job, now)


@kernel
def work_left_of(ledger: Ledger, jobs: I64, now: int, left: F64) -> None:
    """Set ``left``, (n,), to the work left of each of ``jobs``."""
    for i in range(len(jobs)):
        left[i] = work_left(ledger, jobs[i], now)


@kernel
def executed_of(ledger: Ledger, jobs: I64, now: int, ran: I64) -> None:
    """Set ``ran``, (n,), to the microseconds of progress of each of ``jobs``."""
    for i in range(len(jobs)):
        ran[i] = executed(ledger, jobs[i], now)


@outlined
def _note_checkpoint(ledger: Ledger, job: int, done: int) -> None:
    """Book the last checkpoint within ``done`` microseconds of progress since the anchor, if there is one.

    Checkpoints are every `checkpoint_us` of progress; at 0 every moment is one.
    """
    every = ledger.checkpoint_us[0]
    since = ledger.ran[job] + done - ledger.saved_ran[job]
    saved = since if every == 0 else since - since % every
    if saved > 0:
        ledger.saved_ran[job] += saved
        before = ledger.rate[job] * (ledger.saved_ran[job] - ledger.ran[job])
        ledger.saved[job] = max(0.0, ledger.work_left[job] - before)


@outlined
def save(ledger: Ledger, job: int, now: int) -> None:
    """Save a job as it is: a scheduler that suspends or moves a job loses no work."""
    ledger.saved[job] = work_left(ledger, job, now)
    ledger.saved_ran[job] = executed(ledger, job, now)


@kernel
def fall_back(ledger: Ledger, job: int) -> None:
    """Set a stopped job back to its last checkpoint and count the progress lost."""
    ledger.work_left[job] = ledger.saved[job]
    ledger.lost[job] += ledger.ran[job] - ledger.saved_ran[job]
    ledger.saved_ran[job] = ledger.ran[job]


@kernel
def _settle(ledger: Ledger, job: int, now: int) -> None:
    """Book the progress since the anchor and move the anchor to now, or leave it at the end of a pause."""
    done = elapsed(ledger, job, now)
    if len(ledger.saved) > 0:
        _note_checkpoint(ledger, job, done)
    ledger.work_left[job] = max(0.0, ledger.work_left[job] - ledger.rate[job] * done)
    ledger.ran[job] += done
    ledger.anchor[job] = max(ledger.anchor[job], now)


@outlined
def keep_progress(ledger: Ledger, job: int, keep: int, work: float) -> int:
    """Set a job whose progress is booked back to what it keeps; return the microseconds of progress lost.

    Parameters
    ----------
    keep : `KEEP_ALL`, `KEEP_CHECKPOINT` or `KEEP_NOTHING`
    work : all work of the job, which is left under `KEEP_NOTHING`; its lost time is then all it ever ran
    """
    before = ledger.lost[job]
    if keep == KEEP_ALL:
        ledger.saved[job] = ledger.work_left[job]
    elif keep == KEEP_CHECKPOINT:
        fall_back(ledger, job)
    else:
        ledger.work_left[job] = work
        ledger.saved[job] = work
        ledger.lost[job] = ledger.ran[job]
    ledger.saved_ran[job] = ledger.ran[job]
    return int(ledger.lost[job] - before)


@outlined
def set_back(now: int, ledger: Ledger, jobs: I64, keep: int, work: F64, lost: I64) -> None:
    """Set the running ones of ``jobs`` back to what they keep, before they are placed anew or suspended.

    Parameters
    ----------
    work : (J,) all work of each job
    lost : (n,) set to the microseconds of progress that each loses
    """
    for i in range(len(jobs)):
        job, lost[i] = jobs[i], 0
        if ledger.status[job] == RUNNING:
            _settle(ledger, job, now)
            lost[i] = keep_progress(ledger, job, keep, work[job])
            ledger.rate[job] = -1.0  # none, so that any rate that follows gives another time of completion


@kernel
def set_rate(ledger: Ledger, calendar: Calendar, job: int, now: int, rate: float, pause: int) -> None:
    """Set the rate of a running job, in work per microsecond, after a pause in microseconds; O(log n).

    Setting the same rate without a pause leaves the anchor, and so the finish time, unchanged.
    """
    if rate == ledger.rate[job] and pause == 0 and calendar.position[job] >= 0:
        return
    _settle(ledger, job, now)
    ledger.rate[job] = rate
    ledger.anchor[job] = max(ledger.anchor[job], now + pause)  # a pause that is still going on ends no sooner
    finish = NEVER
    if ledger.work_left[job] <= 0.0:
        finish = ledger.anchor[job]
    elif rate > 0.0:
        span = np.ceil(ledger.work_left[job] / rate)
        if span < NEVER - ledger.anchor[job]:
            finish = ledger.anchor[job] + int(span)
    schedule(calendar, ledger.finish, job, finish)


@kernel
def stop_progress(ledger: Ledger, calendar: Calendar, job: int, now: int) -> None:
    """Stop the progress of a running job and remove it from the calendar; O(log n)."""
    _settle(ledger, job, now)
    ledger.rate[job] = 0.0
    ledger.held[job] += now - ledger.held_since[job]
    ledger.last_stop[job] = now
    unschedule(calendar, ledger.finish, job)
    ledger.finish[job] = NEVER
