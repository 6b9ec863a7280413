"""Chunk queues of a site's workers: room for them, their state, and what may be asked of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.holdings import State
from ray_sim.kernels.chunks import (
    DONE,
    EVENT_COLUMNS,
    EVENTS,
    ROWS,
    RUNNING,
    Queues,
    add_rows,
    advance,
    drop_rows,
    loads_at,
    new_queues,
    resume,
    set_keys,
    set_ps,
)
from ray_sim.kernels.increments import Candidates, betas, expect, forget, new_plans, send
from ray_sim.model.units import NEVER_US, BoolArray, FloatArray, IntArray

NO_EVENTS: IntArray = np.empty((0, EVENT_COLUMNS), dtype=np.int64)

CHUNK_COLUMNS = ("worker", "key", "job", "unit", "ready", "left", "overtakes")
"""Columns of a dispatched chunk."""

_FEWEST = 64

_NOTHING: IntArray = np.empty(0, dtype=np.int64)


class ChunkQueues:
    """Each worker trains the first chunk, by (key, order of dispatch), of those that have been uploaded.

    Time moves only in `advance`, never past `next_us`. Workers are numbered from 0 here.
    """

    def __init__(self, on_demand: BoolArray, n_jobs: int, preemption_us: int = 0) -> None:
        self._on_demand = on_demand
        self._n_jobs = n_jobs
        self._preemption_us = preemption_us
        """Work that a chunk owes more each time it is preempted."""
        self._now_us = 0
        self._q: Queues = new_queues(_FEWEST, on_demand, n_jobs, preemption_us)
        self._gone, self._ended = _NOTHING, _NOTHING
        """Workers and jobs whose chunks leave first of all that happens next."""
        self._following = NEVER_US
        self._plans = new_plans(0, 0)

    @property
    def next_us(self) -> int:
        """When something happens next."""
        return self._now_us if len(self._gone) or len(self._ended) else self._following

    def dispatch(self, chunks: IntArray) -> None:
        """Add chunks, (n, 7) columns `CHUNK_COLUMNS`; work is microseconds on that worker."""
        self._make_room(chunks)
        self._following = add_rows(self._q, self._now_us, np.ascontiguousarray(chunks))

    def set_ps(self, holdings: IntArray) -> None:
        """Note who holds a parameter server from now on: (n, 2) rows job, 0 or 1."""
        self._following = set_ps(self._q, self._now_us, np.ascontiguousarray(holdings))

    def set_keys(self, keys: IntArray) -> None:
        """Give all chunks of some jobs another key: (n, 2) rows job, key, by job."""
        jobs, new = (np.ascontiguousarray(column) for column in keys.T)
        self._following = set_keys(self._q, self._now_us, jobs, new)

    def lose(self, workers: IntArray) -> None:
        """What is on these workers is lost."""
        self._gone = workers

    def withdraw(self, jobs: IntArray) -> None:
        """These jobs have ended: their chunks leave."""
        self._ended = jobs

    def advance(self, now_us: int) -> IntArray:
        """Go on to ``now_us``; returns (n, EVENT_COLUMNS) rows of what happens there.

        Events are those of `ray_sim.kernels.chunks`, in order for each chunk.
        """
        self._now_us = now_us
        if self.next_us > now_us:
            return NO_EVENTS
        if len(self._gone) or len(self._ended):
            drop_rows(
                self._q, now_us, _among(self._gone, len(self._on_demand)), _among(self._ended, self._n_jobs)
            )
            self._gone, self._ended = _NOTHING, _NOTHING
        self._following = advance(self._q, now_us)
        events = self._q.event[: self._q.size[EVENTS]].copy()
        self._q.size[EVENTS] = 0
        return events

    def loads(self, now_us: int) -> tuple[IntArray, IntArray]:
        """(W,) microseconds of work left on each worker, and (W,) chunks on it that are not done."""
        loads = np.empty(len(self._on_demand), dtype=np.int64)
        loads_at(self._q, now_us, loads)
        return loads, self._q.rows.copy()

    def time_left(self, jobs: IntArray, now_us: int) -> IntArray:
        """(n, 2) rows job, microseconds that its chunks here need at least, of the jobs with any.

        As if its worker served nothing else, once a chunk has been uploaded.
        """
        q = self._q
        live = np.flatnonzero(q.phase[: q.size[ROWS]] != DONE)
        live = live[np.isin(q.job[live], jobs)]
        if len(live) == 0:
            return np.empty((0, 2), dtype=np.int64)
        left = q.left[live] - np.where(q.phase[live] == RUNNING, now_us - q.anchor[live], 0)
        # A chunk's own worker on demand trains no other.
        group = np.where(self._on_demand[q.worker[live]], -1 - live, q.worker[live])
        _, of = np.unique(np.stack([q.job[live], group]), axis=1, return_inverse=True)
        in_turn = np.zeros(len(live), dtype=np.int64)
        np.add.at(in_turn, of, left)
        alone = np.maximum(q.ready[live] - now_us, 0) + left
        found, at = np.unique(q.job[live], return_inverse=True)
        longest = np.zeros(len(found), dtype=np.int64)
        np.maximum.at(longest, at, np.maximum(alone, in_turn[of]))
        return np.stack([found, longest], axis=1)

    def betas(self, now_us: int) -> FloatArray:
        """(W,) sum over the chunks on each worker of (work left) / key, of keys above 0."""
        beta = np.zeros(len(self._on_demand))
        betas(self._q, now_us, beta)
        return beta

    def send(
        self,
        candidates: Candidates,
        expected: IntArray,
        count: int,
        rule: int,
        now_us: int,
        ready_us: int,
        preempt: bool,
        exact: bool,
    ) -> IntArray:
        """Where chunks would go, one after another, and at what increment; nothing is sent.

        Parameters
        ----------
        expected : (n, 4) worker, key, ready, work of chunks that are on their way already
        others : see `ray_sim.kernels.increments.send`

        Returns
        -------
        (count, 3) rows worker, rank, increment
        """
        self._make_rows_for(len(expected) + count + 1)  # exact increments try one more than are sent
        q = self._q
        if (len(self._plans.left), len(self._plans.work_behind)) != (len(q.job), len(q.queue)):
            self._plans = new_plans(len(q.job), len(q.queue))
            q.in_order[:] = False
        rows = np.empty((count, 3), dtype=np.int64)
        expect(q, self._plans, expected)
        send(q, self._plans, candidates, rule, now_us, ready_us, preempt, exact, rows)
        forget(q, expected)
        return rows

    def _make_room(self, chunks: IntArray) -> None:
        """Room for more rows, and for all rows of a worker in its queue."""
        self._make_rows_for(len(chunks))
        queued = np.bincount(chunks[:, 0], minlength=len(self._on_demand))
        self._make_queues_longer(self._q.rows + queued)

    def _make_rows_for(self, chunks: int) -> None:
        if int(self._q.size[ROWS]) + chunks > len(self._q.job):
            saved = self.state()
            self._build(saved, 2 * (len(saved["rows"]) + chunks))

    def _make_queues_longer(self, most: IntArray) -> None:
        """Queues that may get too long move to the end of the array, with room for twice as many."""
        q = self._q
        short = np.flatnonzero((most > q.room) & ~self._on_demand)
        if len(short) == 0:
            return
        longer = 2 * most[short]
        moved = np.concatenate([[0], np.cumsum(longer)]) + len(q.queue)
        queue = np.empty(moved[-1], dtype=np.int64)
        queue[: len(q.queue)] = q.queue
        for worker, base in zip(short.tolist(), moved.tolist(), strict=False):
            begin, n = q.base[worker], q.waiting[worker]
            queue[base : base + n] = queue[begin : begin + n]
        q.base[short], q.room[short] = moved[:-1], longer
        self._q = q._replace(queue=queue)

    def state(self) -> State:
        """Arrays that `restore` takes: chunks not done, in the order of dispatch, with all that is theirs."""
        q = self._q
        live = np.flatnonzero(q.phase[: q.size[ROWS]] != DONE)
        columns = [getattr(q, name)[live] for name in (*CHUNK_COLUMNS, "phase")]
        anchor = np.where(q.phase[live] == RUNNING, q.anchor[live], 0)
        return {
            "rows": np.stack([*columns, anchor, q.owed[live]], axis=1).astype(np.int64),
            "holds_ps": np.flatnonzero(q.holds_ps),
            "gone": self._gone.copy(),
            "ended": self._ended.copy(),
            "clock": np.array([self._now_us]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._gone, self._ended = state["gone"].copy(), state["ended"].copy()
        self._build(state, max(_FEWEST, 2 * len(state["rows"])))

    def _build(self, state: Mapping[str, np.ndarray], room: int) -> None:
        self._now_us = int(state["clock"][0])
        self._q = new_queues(room, self._on_demand, self._n_jobs, self._preemption_us)
        self._q.holds_ps[state["holds_ps"]] = True
        chunks = np.ascontiguousarray(state["rows"][:, : len(CHUNK_COLUMNS)])
        self._make_queues_longer(np.bincount(chunks[:, 0], minlength=len(self._on_demand)))
        add_rows(self._q, self._now_us, chunks)
        phase, anchor, owed = (np.ascontiguousarray(column) for column in state["rows"][:, -3:].T)
        self._following = resume(self._q, self._now_us, phase, anchor, owed)


def _among(numbers: IntArray, n: int) -> BoolArray:
    """(n,) which numbers are listed."""
    listed = np.zeros(n, dtype=np.bool_)
    listed[numbers] = True
    return listed
