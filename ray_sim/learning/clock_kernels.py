"""Time in a batch of episodes: arrivals, completions, slot boundaries, rewards, and the next episode.

The order of events and the arithmetic of progress are those of the engine (docs/engine.md): within an instant
completions, arrivals, the decision; progress is linear from an anchor that moves when the rate changes.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64, NEVER
from ray_sim.learning.batch_arrays import Batch
from ray_sim.learning.placing_kernels import (
    give_back,
    go_on_placing,
    number,
    open_decision,
    place_task,
    start_placed,
)

_RATES, _DECISION, _END = range(3)
"""States of an episode: it waits for rates of its running jobs, waits for an action, or is over."""


@kernel
def _next_slot_us(batch: Batch, e: int) -> int:
    """Return the first slot boundary, now or later, without a decision."""
    slot = batch.sets.clock[0]
    index = max((max(batch.runs.now[e], 0) + slot - 1) // slot, batch.runs.last_slot[e] + 1)
    return index * slot


@kernel
def _next_instant(batch: Batch, e: int) -> int:
    """Return when something happens next in an episode, `NEVER` if nothing will; O(running)."""
    sets, runs = batch.sets, batch.runs
    instant = NEVER
    for i in range(runs.n_running[e]):
        instant = min(instant, runs.finish[e, runs.running[e, i]])
    arriving = number(batch, e, runs.next_job[e])
    if arriving < sets.first[runs.job_set[e] + 1]:
        instant = min(instant, sets.submit[arriving])
    runs.idle[e] = runs.idle[e] + 1 if instant == NEVER else 0
    instant = min(instant, runs.review[e])
    return min(instant, _next_slot_us(batch, e)) if runs.unseen_events[e] else instant


@kernel
def _complete(batch: Batch, e: int) -> bool:
    """End the jobs that are done now; return whether there are any."""
    runs, now, kept = batch.runs, batch.runs.now[e], 0
    for i in range(runs.n_running[e]):
        job = runs.running[e, i]
        if runs.finish[e, job] <= now:
            give_back(batch, e, job)
            batch.sets.completion[number(batch, e, job)] = now
            runs.completed[e] += 1
        else:
            runs.running[e, kept] = job
            kept += 1
    found = kept < runs.n_running[e]
    runs.n_running[e] = kept
    runs.unseen_events[e] |= found
    return found


@kernel
def _submit(batch: Batch, e: int) -> None:
    """Let the jobs come that are submitted now."""
    sets, runs = batch.sets, batch.runs
    end = sets.first[runs.job_set[e] + 1]
    while True:
        arriving = number(batch, e, runs.next_job[e])
        if arriving == end or sets.submit[arriving] > runs.now[e]:
            return
        runs.waiting[e, runs.n_waiting[e]] = runs.next_job[e]
        runs.n_waiting[e] += 1
        runs.next_job[e] += 1
        runs.unseen_events[e] = True


@kernel
def _decides_now(batch: Batch, e: int) -> bool:
    """Whether there is a decision now; then its events count as seen."""
    runs, now = batch.runs, batch.runs.now[e]
    at_slot = runs.unseen_events[e] and _next_slot_us(batch, e) == now
    if not at_slot and runs.review[e] > now:
        return False
    if at_slot:
        runs.last_slot[e] = now // batch.sets.clock[0]
    runs.unseen_events[e] = False
    return True


@kernel
def _advance(batch: Batch, e: int, instant: int) -> None:
    """Let time pass, with the jobs that wait or run in the system."""
    runs = batch.runs
    there = runs.n_waiting[e] + runs.n_running[e]
    runs.present[e] += there * (instant - runs.now[e])
    runs.now[e] = instant


@outlined
def _run_on(batch: Batch, e: int) -> int:
    """Run an episode to the next decision with a valid action, change of rates, or its end; return which.

    After a completion the other jobs get their rates before anything else happens.
    """
    while True:
        instant = _next_instant(batch, e)
        idle = batch.runs.idle[e] > batch.sets.clock[2] and instant > batch.runs.now[e]
        if instant > batch.sets.clock[1] or idle:
            if batch.sets.clock[1] < NEVER - 1:
                _advance(batch, e, batch.sets.clock[1])
            return _END
        _advance(batch, e, instant)
        if _complete(batch, e) and batch.runs.n_running[e] > 0:
            return _RATES
        _submit(batch, e)
        if _decides_now(batch, e) and open_decision(batch, e):
            return _DECISION


@kernel
def _left_at(batch: Batch, e: int, job: int, now: int) -> float:
    """Return the samples that a running job has left."""
    runs = batch.runs
    return max(0.0, runs.left[e, job] - runs.rate[e, job] * (now - runs.anchor[e, job]))


@kernel
def _read(batch: Batch, e: int, now: int) -> float:
    """Return the shares of work done so far, summed over jobs, and keep them; the increase is a reward."""
    runs, share = batch.runs, 0.0
    for i in range(runs.n_running[e]):
        job = runs.running[e, i]
        share += 1.0 - _left_at(batch, e, job, now) / batch.sets.work[number(batch, e, job)]
    before = runs.reading[e]
    runs.reading[e] = runs.completed[e] + share
    return runs.reading[e] - before


@outlined
def begin_episode(batch: Batch, e: int, job_set: int) -> None:
    """Begin an episode with a set, at its first decision with a valid action.

    The set must have a job that fits. No job runs before that decision, so no rates are needed.
    """
    sets, runs = batch.sets, batch.runs
    runs.job_set[e], runs.now[e], runs.next_job[e] = job_set, -1, 0
    runs.review[e], runs.last_slot[e], runs.unseen_events[e] = NEVER, -1, False
    runs.n_waiting[e], runs.n_running[e], runs.completed[e] = 0, 0, 0
    runs.idle[e], runs.reading[e] = 0, 0.0
    runs.present[e] = 0.0
    runs.tasks[e] = 0
    for server in range(sets.capacity.shape[0]):
        for r in range(sets.capacity.shape[1]):
            runs.free[e, server, r] = sets.capacity[server, r]
    for at in range(sets.first[job_set], sets.first[job_set + 1]):
        sets.completion[at] = NEVER
    _run_on(batch, e)
    runs.since[e] = runs.now[e]


@kernel
def begin_all(batch: Batch) -> None:
    """Begin all episodes, number e with set e, modulo the number of sets."""
    for e in range(len(batch.runs.now)):
        begin_episode(batch, e, e % (len(batch.sets.first) - 1))


@outlined
def _settle(batch: Batch, e: int, stage: int) -> bool:
    """Answer for an episode that ran on; return whether it waits for rates.

    After its end the next one begins, with the set that follows by the number of episodes.
    """
    runs, answers = batch.runs, batch.answers
    if stage == _RATES:
        return True
    answers.interval_ended[e] = True
    answers.reward[e] = _read(batch, e, runs.now[e])
    answers.length[e], answers.present[e] = runs.now[e] - runs.since[e], runs.present[e]
    runs.since[e], runs.present[e] = runs.now[e], 0.0
    if stage == _DECISION:
        return False
    answers.episode_ended[e] = True
    begin_episode(batch, e, (runs.job_set[e] + len(runs.now)) % (len(batch.sets.first) - 1))
    return False


@kernel
def act(batch: Batch, actions: I64) -> int:
    """Carry out a valid action in every episode; return the number of those in `queue`.

    Episodes whose decision is over run on, up to an instant at which they need rates, which queues them.
    """
    answers, n = batch.answers, 0
    answers.reward[:] = 0.0
    answers.length[:] = 0.0
    answers.present[:] = 0.0
    answers.interval_ended[:] = False
    answers.episode_ended[:] = False
    for e in range(len(actions)):
        place_task(batch, e, actions[e])
        if batch.boards.valid[e] > 0 or go_on_placing(batch, e):
            continue
        start_placed(batch, e)
        stage = _RATES if batch.boards.n_placed[e] > 0 else _run_on(batch, e)
        if _settle(batch, e, stage):
            answers.queue[n] = e
            n += 1
    return n


@kernel
def gather(batch: Batch, n: int, job: I64, tasks: I64) -> None:
    """Set ``job``, (n, K), and ``tasks``, (n, K, 2, S), to those of the running jobs of queued episodes.

    Job numbers are those among all J jobs, -1 beyond the running ones. O(n K S).
    """
    runs = batch.runs
    for i in range(n):
        e = batch.answers.queue[i]
        for k in range(job.shape[1]):
            job[i, k] = -1
            tasks[i, k] = 0
            if k < runs.n_running[e]:
                running = runs.running[e, k]
                job[i, k] = number(batch, e, running)
                for role in range(2):
                    for server in range(tasks.shape[3]):
                        tasks[i, k, role, server] = runs.tasks[e, running, role, server]


@kernel
def _set_rate(batch: Batch, e: int, job: int, rate: float) -> None:
    """Set the rate of a running job from now on; an equal rate leaves anchor and finish as they are."""
    runs, now = batch.runs, batch.runs.now[e]
    if rate == runs.rate[e, job]:
        return
    runs.left[e, job] = _left_at(batch, e, job, now)
    runs.anchor[e, job], runs.rate[e, job] = now, rate
    runs.finish[e, job] = NEVER
    if runs.left[e, job] <= 0.0:
        runs.finish[e, job] = now
    elif rate > 0.0:
        span = np.ceil(runs.left[e, job] / rate)
        if span < NEVER - now:
            runs.finish[e, job] = now + int(span)


@kernel
def resume(batch: Batch, n: int, rates: F64) -> int:
    """Set the rates, (n, K), of the jobs of queued episodes, which run on; return those queued again."""
    runs, queue, kept = batch.runs, batch.answers.queue, 0
    for i in range(n):
        e = queue[i]
        for k in range(runs.n_running[e]):
            _set_rate(batch, e, runs.running[e, k], rates[i, k])
        if _settle(batch, e, _run_on(batch, e)):
            queue[kept] = e
            kept += 1
    return kept
