"""One decision of `batch`: which waiting jobs start, and which running ones stop for them."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, NEVER
from ray_sim.kernels.core.placement import meets
from ray_sim.kernels.core.queue_dispatch import add_change, copy_matrix, count_try, order_changes, take_rows
from ray_sim.kernels.core.scored_placement import add_started, begin_scores, drop_running
from ray_sim.policies.batch.books import (
    BACKFILL,
    FAIR,
    GRACE_US,
    NOW,
    PENDING,
    PLANNED_TO,
    RESERVE,
    RESERVED,
    RULE,
    STAMP,
    STOPPED,
    Books,
    fits_now,
    take_away,
)
from ray_sim.policies.batch.profile import (
    TAKEN,
    begin_profile,
    first_fit_in_time,
    move_end,
    place_job,
    plan_job,
)
from ray_sim.policies.batch.quotas import borrows, hold_quota, passes, share
from ray_sim.policies.batch.victims import find_victims, put_back


@kernel
def _begin(books: Books, now: int, running: I64, end: I64) -> None:
    """Start from what runs; nothing has been decided."""
    copy_matrix(books.pool.free, books.free)
    begin_profile(books.profile, books.pool, running, end)
    begin_scores(books.option[RULE], now, books.arrays, books.pool, running, len(running), books.out.scores)
    books.quotas.held[:] = 0
    for job in running:
        hold_quota(books.quotas, books.team[job], job, 1)
    books.changes.size[0] = 0
    books.blocked[:] = False
    for place_of in (STOPPED, PENDING, PLANNED_TO, RESERVED):
        books.size[place_of] = 0
    books.size[NOW] = now
    books.size[STAMP] += 1


@kernel
def _note_stop(books: Books, victim: int, job: int) -> None:
    """Note that a victim stops for a job, now or after the grace period."""
    n = books.size[STOPPED]
    books.stopped[n], books.stopped_by[n] = victim, job
    books.size[STOPPED] += 1
    books.size[STAMP] += 1


@outlined
def _start(books: Books, job: int, rows: int, n: int) -> None:
    """Start a job on the rows in `Books.out`; the n victims stop now."""
    rule, arrays, out, profile = books.option[RULE], books.arrays, books.out, books.profile
    for victim in books.victim[:n]:
        add_change(books.changes, victim, out, 0)
        drop_running(rule, arrays, books.pool, victim, out.scores)
        _note_stop(books, victim, job)
    add_change(books.changes, job, out, rows)
    take_rows(arrays, job, books.free, out, rows)
    add_started(rule, arrays, job, out, rows, out.scores)
    count_try(books.tries, job)
    hold_quota(books.quotas, books.team[job], job, 1)
    if books.quotas.held.shape[1] > 0:  # its team may borrow now, so what was no candidate may be one
        books.size[STAMP] += 1
    for k in range(rows):
        out.server[k] = profile.cell[out.server[k]]
    plan_job(profile, job, out, rows, 0, books.size[NOW] + books.limit[job])


@outlined
def _reserve(books: Books, job: int, earliest: int) -> bool:
    """Plan a job at the first time, from ``earliest`` on, at which it fits; False if there is none."""
    limit, out = books.limit[job], books.plan_out
    time, rows = first_fit_in_time(books.option[RULE], books.profile, job, earliest, limit, out)
    if rows > 0:
        plan_job(books.profile, job, out, rows, time, time + limit)
    return rows > 0


@kernel
def _plan_pending(books: Books) -> None:
    """Reserve for jobs without room, in order; called once a later job could start: only then it matters."""
    size = books.size
    while size[PLANNED_TO] < size[PENDING] and size[RESERVED] < books.option[RESERVE]:
        size[RESERVED] += _reserve(books, books.pending[size[PLANNED_TO]], size[NOW])
        size[PLANNED_TO] += 1


@kernel
def _keep_promises(books: Books, running: I64, promised: I64) -> None:
    """Start promised jobs whose victims' grace is over or who have none left; plan the others."""
    by, due, now = books.by, books.due, books.size[NOW]
    for job in promised:
        n = 0
        for other in running:
            if by[other] == job:
                books.victim[n] = other
                n += 1
        if n > 0 and due[job] > now:
            hold_quota(books.quotas, books.team[job], job, 1)
            _reserve(books, job, due[job])
            continue
        for victim in books.victim[:n]:
            by[victim] = -1
            take_away(books, victim, 1)
        rows = fits_now(books, job)
        due[job] = now if rows > 0 else NEVER
        if rows > 0:
            _start(books, job, rows, n)
        else:
            put_back(books, n)


@kernel
def _promise(books: Books, job: int, n: int) -> None:
    """Let n victims run on for the grace period, and plan the job they leave for after it."""
    due = books.size[NOW] + books.option[GRACE_US]
    put_back(books, n)
    for victim in books.victim[:n]:
        books.by[victim] = job
        move_end(books.profile, victim, due)
        _note_stop(books, victim, job)
    books.due[job] = due
    hold_quota(books.quotas, books.team[job], job, 1)
    _reserve(books, job, due)


@kernel
def _advance(books: Books, waiting: I64, m: int) -> None:
    """Find the next job of a team that is not promised a place."""
    i = books.head[m] + 1
    while i < len(waiting) and (books.team[waiting[i]] != m or books.due[waiting[i]] < NEVER):
        i += 1
    books.head[m] = i


@kernel
def _next_team(books: Books, waiting: I64) -> int:
    """Team whose first job has its turn: one that need not borrow, the least share if fair, the order."""
    quotas, best, first = books.quotas, -1, (2, 0.0, 0)
    for m in range(len(books.head)):
        if books.head[m] < len(waiting):
            job = waiting[books.head[m]]
            of_team = share(quotas, m, job, 1) if books.option[FAIR] else 0.0
            turn = (int(borrows(quotas, m, quotas.need[job], 1)), of_team, books.head[m])
            if turn < first:
                best, first = m, turn
    return best


@kernel
def _try(books: Books, job: int, passing: bool, stoppable: I64) -> bool:
    """Start a job, or stop others for it; False if neither is possible.

    A failure holds for all jobs of the kind with this limit or a longer one until something stops or, with
    quotas, starts. It holds for every limit where nothing is planned.
    """
    kind, limit, preempts = books.kind[job], books.limit[job], len(stoppable) > 0
    if books.failed_stamp[kind] == books.size[STAMP] and limit >= books.failed_limit[kind]:
        return False
    rows = 0
    if passing:
        rows = place_job(books.option[RULE], books.arrays, job, books.free, books.pool.there, books.out)
    planned = (rows > 0 or preempts) and (books.profile.size[TAKEN] > 0 or books.size[PENDING] > 0)
    if planned:
        _plan_pending(books)
        rows = fits_now(books, job) if rows > 0 else 0
    n = find_victims(books, job, stoppable) if rows == 0 and preempts else 0
    if n > 0 and books.option[GRACE_US] > 0:
        _promise(books, job, n)
        return True
    if n > 0:
        rows = fits_now(books, job)
    if rows > 0:
        _start(books, job, rows, n)
        return True
    books.failed_stamp[kind], books.failed_limit[kind] = books.size[STAMP], limit if planned else 0
    return False


@kernel
def _block(books: Books, job: int) -> None:
    """Let no job start that could use a server that a job without room could use."""
    c = books.arrays.job_class[job]
    for other in range(len(books.blocked)):
        books.blocked[other] = books.blocked[other] or meets(books.arrays, c, other)


@kernel
def _let_in(books: Books, waiting: I64, stoppable: I64) -> None:
    """Try the waiting jobs by turns of their teams.

    A job that cannot start gets a reservation if it lacks room; without backfilling it blocks those behind.
    """
    while True:
        m = _next_team(books, waiting)
        if m < 0:
            return
        job = waiting[books.head[m]]
        _advance(books, waiting, m)
        if books.blocked[books.arrays.job_class[job]]:
            continue
        passing = passes(books.quotas, m, job)
        books.acted[m] = books.acted[m] or not passing
        if _try(books, job, passing, stoppable):
            continue
        if passing and not books.option[BACKFILL]:
            _block(books, job)
        elif passing and books.option[RESERVE]:
            books.pending[books.size[PENDING]] = job
            books.size[PENDING] += 1
        elif not (passing or books.option[BACKFILL]):
            books.head[m] = len(waiting)


@kernel
def serve(
    books: Books, now: int, running: I64, end: I64, stoppable: I64, waiting: I64, promised: I64
) -> None:
    """Write `Books.changes` and `Books.stopped`; change `by`, `due` and `acted`.

    Parameters
    ----------
    running, end : running jobs and their planned ends, ascending
    stoppable : preemptible running jobs, the first to be stopped first; none if no job may be stopped
    waiting : waiting jobs in order
    promised : those to which room is promised, by due time
    """
    _begin(books, now, running, end)
    _keep_promises(books, running, promised)
    books.head[:] = -1
    for m in range(len(books.head)):
        _advance(books, waiting, m)
    _let_in(books, waiting, stoppable)
    for job in promised:
        if books.due[job] <= now:
            books.due[job] = NEVER
    order_changes(books.changes)
