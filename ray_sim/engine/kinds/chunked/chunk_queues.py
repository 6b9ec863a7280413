"""Chunk queues of a site's workers: room for them, their state, and what may be asked of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_sim.engine.sites.part import NO_EVENTS
from ray_sim.engine.states import State, UnfitStateError, all_within, same, section, within
from ray_sim.kernels.chunked.commands import add_rows, drop_rows, resume, set_keys, set_ps
from ray_sim.kernels.chunked.increments import (
    Candidates,
    ChosenWorkers,
    DispatchedChunks,
    betas,
    expect,
    forget,
    send,
)
from ray_sim.kernels.chunked.instants import advance
from ray_sim.kernels.chunked.queue_state import (
    DONE,
    EVENTS,
    QUEUED,
    ROWS,
    RUNNING,
    SERVED,
    UPLOADING,
    ChunkRows,
    Queues,
    new_queues,
)
from ray_sim.kernels.chunked.row_progress import loads_at, work_of_jobs
from ray_sim.kernels.chunked.worker_simulation import ReadQueues, new_plans
from ray_sim.model.units import NEVER_US, BoolArray, FloatArray, IntArray

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
        self._plans = new_plans(0, 0, len(on_demand))

    @property
    def next_us(self) -> int:
        """When something happens next."""
        return self._now_us if len(self._gone) or len(self._ended) else self._following

    def dispatch(self, chunks: ChunkRows) -> None:
        """Add chunks; work left is microseconds on that worker."""
        self._make_room(chunks)
        self._following = add_rows(self._q, self._now_us, _contiguous(chunks))

    def set_ps(self, jobs: IntArray, holding: IntArray) -> None:
        """Note whether each job holds a parameter server from now on, 0 or 1."""
        self._following = set_ps(self._q, self._now_us, *map(np.ascontiguousarray, (jobs, holding)))

    def set_keys(self, jobs: IntArray, keys: IntArray) -> None:
        """Give all chunks of each job, sorted, another key."""
        self._following = set_keys(self._q, self._now_us, *map(np.ascontiguousarray, (jobs, keys)))

    def lose(self, workers: IntArray) -> None:
        """Drop all chunks on these workers."""
        self._gone = workers

    def withdraw(self, jobs: IntArray) -> None:
        """These jobs have ended: their chunks leave."""
        self._ended = jobs

    def stop(self, jobs: IntArray) -> None:
        """Drop all chunks of these jobs, which `advance` at this instant, the next call, reports as lost."""
        self._drop(stopped=jobs)
        self._following = self._now_us

    def come_to(self, now_us: int) -> None:
        """It is ``now_us``, when something may be due, but nothing before."""
        assert self.next_us >= now_us, f"at {now_us} us what happened at {self.next_us} us is not reported"
        self._now_us = now_us

    def advance(self, now_us: int) -> IntArray:
        """Go on to ``now_us``; returns (n, EVENT_COLUMNS) rows of what happens there.

        Events are those of `ray_sim.kernels.chunked.queue_state`, in order for each chunk. A chunk that has
        its worker keeps it when others come by themselves: `next_us` is now, and the next call at this
        instant, after what is commanded, settles who gets it.
        """
        self._now_us = now_us
        if self.next_us > now_us:
            return NO_EVENTS
        if len(self._gone) or len(self._ended):
            self._drop(self._gone, ended=self._ended)
            self._gone, self._ended = _NOTHING, _NOTHING
        self._following = advance(self._q, now_us)
        events = self._q.event[: self._q.size[EVENTS]].copy()
        self._q.size[EVENTS] = 0
        return events

    def _drop(
        self, gone: IntArray = _NOTHING, stopped: IntArray = _NOTHING, ended: IntArray = _NOTHING
    ) -> None:
        workers, jobs = len(self._on_demand), self._n_jobs
        drop_rows(self._q, self._now_us, _among(gone, workers), _among(stopped, jobs), _among(ended, jobs))

    def loads(self, now_us: int) -> tuple[IntArray, IntArray]:
        """(W,) microseconds of work left on each worker, and (W,) chunks on it that are not done."""
        loads = np.empty(len(self._on_demand), dtype=np.int64)
        loads_at(self._q, now_us, loads)
        return loads, self._q.rows.copy()

    def work(self, jobs: IntArray, chunks: IntArray, now_us: int) -> tuple[IntArray, IntArray]:
        """Microseconds of work left, and of training done, of each job's chunks here that are not done.

        Parameters
        ----------
        jobs, chunks : (n,) jobs, and how many chunks each has in all

        Returns
        -------
        (n,) each; see `ray_sim.kernels.chunked.row_progress.work_of_jobs`
        """
        of_job = np.ones(self._n_jobs, dtype=np.int64)
        of_job[jobs] = chunks
        left, trained = np.zeros((2, self._n_jobs), dtype=np.int64)
        work_of_jobs(self._q, now_us, of_job, left, trained)
        return left[jobs], trained[jobs]

    def time_left(self, jobs: IntArray, now_us: int) -> tuple[IntArray, IntArray]:
        """Return jobs with chunks on these workers, and the least time in us until each is done, (n,) each.

        The time is that of workers that serve no other job: a worker trains the job's chunks one after
        another, in the order in which their uploads end.
        """
        q = self._q
        live = np.flatnonzero(q.phase[: q.size[ROWS]] != DONE)
        live = live[np.isin(q.job[live], jobs)]
        if len(live) == 0:
            return _NOTHING, _NOTHING
        # A chunk's own worker on demand trains no other.
        group = np.where(self._on_demand[q.worker[live]], -1 - live, q.worker[live])
        order = np.lexsort((-q.ready[live], group, q.job[live]))
        live, group = live[order], group[order]
        left = q.left[live] - np.where(q.phase[live] == RUNNING, now_us - q.anchor[live], 0)
        # A worker ends no sooner than any chunk is there and is trained, and those after it too.
        begins = np.flatnonzero(np.diff(q.job[live], prepend=-1) | np.diff(group, prepend=group[0]))
        up_to = np.cumsum(left)
        before = np.repeat(up_to[begins] - left[begins], np.diff(begins, append=len(live)))
        needs = np.maximum(q.ready[live] - now_us, 0) + up_to - before
        found, at = np.unique(q.job[live], return_inverse=True)
        longest = np.zeros(len(found), dtype=np.int64)
        np.maximum.at(longest, at, needs)
        return found, longest

    def betas(self, now_us: int) -> FloatArray:
        """(W,) sum over the chunks on each worker of (work left) / (D p)."""
        beta = np.zeros(len(self._on_demand))
        betas(ReadQueues.of(self._q), now_us, beta)
        return beta

    def send(
        self,
        candidates: Candidates,
        expected: DispatchedChunks,
        count: int,
        rule: int,
        now_us: int,
        preempt: bool,
        exact: bool,
        counted: bool,
    ) -> ChosenWorkers:
        """Best workers and cost increments of ``count`` chunks, one after another; nothing is sent.

        Parameters
        ----------
        expected : chunks that are on their way already
        others : see `ray_sim.kernels.chunked.increments.send`
        """
        q = self._q
        room = len(q.job) + len(expected.worker) + count + 1  # exact increments try one more than are sent
        if len(self._plans.left) < room or len(self._plans.row) != len(q.queue):
            self._plans = new_plans(2 * room, len(q.queue), len(q.version))
        chosen, read = ChosenWorkers(*np.empty((3, count), dtype=np.int64)), ReadQueues.of(q)
        expect(read, self._plans, expected)
        send(read, self._plans, candidates, rule, now_us, preempt, exact, counted, chosen)
        forget(self._plans, expected)
        return chosen

    def _make_room(self, chunks: ChunkRows) -> None:
        """Room for more rows, and for all rows of a worker in its queue."""
        n = len(chunks.worker)
        if int(self._q.size[ROWS]) + n > len(self._q.job):
            saved = self.state()
            self._build(saved, 2 * (len(saved["rows.job"]) + n))
        queued = np.bincount(chunks.worker, minlength=len(self._on_demand))
        self._make_queues_longer(self._q.rows + queued)

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
        rows = {name: getattr(q, name)[live] for name in (*ChunkRows._fields, "phase", "owed")}
        rows["anchor"] = np.where(q.phase[live] == RUNNING, q.anchor[live], 0)
        rows["since"] = np.where(q.phase[live] >= SERVED, q.since[live], 0)
        return {
            **{f"rows.{name}": column.astype(np.int64) for name, column in rows.items()},
            "holds_ps": np.flatnonzero(q.holds_ps),
            "gone": self._gone.copy(),
            "ended": self._ended.copy(),
            "clock": np.array([self._now_us]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._check(state)
        self._gone, self._ended = state["gone"].copy(), state["ended"].copy()
        self._build(state, max(_FEWEST, 2 * len(state["rows.job"])))

    def _check(self, state: Mapping[str, np.ndarray]) -> None:
        """Refuse numbers out of range, rows that lack a column, and queues and workers that cannot be."""
        rows, on_demand, jobs = section(state, "rows"), self._on_demand, self._n_jobs
        all_within({name: column for name, column in rows.items() if name != "key"})
        for name, column in rows.items():
            same(f"rows.{name}", rows["job"].shape, column.shape)
        phase, now_us = within(rows, "phase", UPLOADING, RUNNING), within(state, "clock", 0, NEVER_US)[0]
        worker = within(rows, "worker", 0, len(on_demand) - 1)
        most = {"job": jobs - 1, "overtakes": 1, "owed": rows["left"], "anchor": now_us, "since": now_us}
        for name, high in most.items():
            within(rows, name, 0, high)
        for name, count in (("holds_ps", jobs), ("ended", jobs), ("gone", len(on_demand))):
            within(state, name, 0, count - 1)
        served = np.bincount(worker[phase >= SERVED], minlength=len(on_demand))
        if (on_demand[worker] & (phase == QUEUED)).any() or (served > 1)[~on_demand].any():
            raise UnfitStateError("rows.phase: a chunk waits for a worker of its own, or two have one worker")

    def _build(self, state: Mapping[str, np.ndarray], room: int) -> None:
        self._now_us = int(state["clock"][0])
        self._q = new_queues(room, self._on_demand, self._n_jobs, self._preemption_us)
        self._plans = new_plans(0, 0, len(self._on_demand))  # what is known is of other rows
        self._q.holds_ps[state["holds_ps"]] = True
        rows = section(state, "rows")
        chunks = ChunkRows(*(rows[name] for name in ChunkRows._fields))
        self._make_queues_longer(np.bincount(chunks.worker, minlength=len(self._on_demand)))
        add_rows(self._q, -1, _contiguous(chunks))
        resumed = (rows[name] for name in ("phase", "anchor", "owed", "since"))
        self._following = resume(self._q, self._now_us, *resumed)


def _contiguous(chunks: ChunkRows) -> ChunkRows:
    """The layout for which kernels are compiled."""
    return ChunkRows(*map(np.ascontiguousarray, chunks))


def _among(numbers: IntArray, n: int) -> BoolArray:
    """(n,) which numbers are listed."""
    mask = np.zeros(n, dtype=np.bool_)
    mask[numbers] = True
    return mask
