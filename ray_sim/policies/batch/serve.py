"""One decision of `batch`: which waiting jobs start, and which running ones stop for them."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, NEVER
from ray_sim.kernels.core.placement import meets
from ray_sim.kernels.core.queue_arrays import Scores
from ray_sim.kernels.core.queue_dispatch import add_change, copy_matrix, order_changes, take_rows
from ray_sim.kernels.core.scored_placement import add_started, begin_scores, drop_running
from ray_sim.policies.batch.books import (
    BACKFILL,
    FAIR,
    GRACE_US,
    NEVER_PREEMPT,
    NOW,
    PENDING,
    PLANNED_TO,
    PREEMPT,
    RECLAIM,
    RESERVE,
    RESERVED,
    RULE,
    RUNNING,
    STAMP,
    STOPPED,
    Books,
    fits_now,
    plans,
    take_away,
)
from ray_sim.policies.batch.profile import (
    TAKEN,
    begin_profile,
    first_fit_in_time,
    move_end,
    place_job,
    plan_holding,
)
from ray_sim.policies.batch.quotas import hold_quota, passes, share, within_nominal
from ray_sim.policies.batch.victims import find_victims, put_back

STARTED = -1
"""Due time, for the rest of the decision, of a promised job that starts."""


@kernel
def _begin(books: Books, now: int, running: I64, end: I64) -> None:
    """Start from what runs; nothing has been decided."""
    profile, scores = books.profile, books.out.scores
    copy_matrix(profile.pool.free, books.free)
    if plans(books):
        begin_profile(profile, now, running, end)
    begin_scores(books.option[RULE], now, books.arrays, profile.pool, running, len(running), scores)
    books.quotas.held[:] = 0
    for i in range(len(running)):
        books.running[i] = running[i]
        profile.gone[running[i]] = False
        hold_quota(books.quotas, books.facts.team[running[i]], running[i], 1)
    books.changes.size[0] = 0
    books.blocked[:] = False
    for place_of in (STOPPED, PENDING, PLANNED_TO, RESERVED):
        books.size[place_of] = 0
    books.size[RUNNING], books.size[NOW] = len(running), now
    books.size[STAMP] += 1


@kernel
def _count_start(scores: Scores | None, job: int) -> None:
    """Note a start, where the draws of placement depend on it."""
    if scores is not None:
        scores.tries[job] += 1


@outlined
def _start(books: Books, job: int, n: int) -> None:
    """Start a job on the n rows in `Books.out`."""
    rule, arrays, out, profile = books.option[RULE], books.arrays, books.out, books.profile
    add_change(books.changes, job, out, n)
    take_rows(arrays, job, books.free, out, n)
    if plans(books):
        now = books.size[NOW]
        plan_holding(profile, job, out, n, now, now + books.facts.limit[job], profile.cell)
    add_started(rule, arrays, job, out, n, out.scores)
    _count_start(out.scores, job)
    hold_quota(books.quotas, books.facts.team[job], job, 1)
    if books.quotas.held.shape[1] > 0:  # its team may borrow now, so what was no candidate may be one
        books.size[STAMP] += 1


@outlined
def _stop(books: Books, job: int, n: int, at_once: bool) -> None:
    """Note that the n victims stop for a job."""
    for victim in books.victim[:n]:
        if at_once:
            add_change(books.changes, victim, books.out, 0)
            drop_running(books.option[RULE], books.arrays, books.profile.pool, victim, books.out.scores)
        books.stopped[books.size[STOPPED]], books.stopped_by[books.size[STOPPED]] = victim, job
        books.size[STOPPED] += 1
        books.size[STAMP] += 1


@outlined
def _reserve(books: Books, job: int, earliest: int) -> bool:
    """Plan a job at the first time, from ``earliest`` on, at which it fits; False if there is none."""
    limit, out = books.facts.limit[job], books.plan_out
    time, n = first_fit_in_time(books.option[RULE], books.profile, job, earliest, limit, out)
    if n > 0:
        plan_holding(books.profile, job, out, n, time, time + limit, books.plan_cell)
    return n > 0


@kernel
def _plan_pending(books: Books) -> None:
    """Reserve for jobs without room, in order; called once a later job could start: only then it matters."""
    size = books.size
    while size[PLANNED_TO] < size[PENDING] and size[RESERVED] < books.option[RESERVE]:
        size[RESERVED] += _reserve(books, books.pending[size[PLANNED_TO]], size[NOW])
        size[PLANNED_TO] += 1


@outlined
def _keep_promises(books: Books, promised: I64) -> None:
    """Start promised jobs whose victims' grace is over or who have none left; plan the others."""
    by, due = books.kept.by, books.kept.due
    for job in promised:
        n = 0
        for other in books.running[: books.size[RUNNING]]:
            if by[other] == job:
                books.victim[n] = other
                n += 1
        if n > 0 and due[job] > books.size[NOW]:
            hold_quota(books.quotas, books.facts.team[job], job, 1)
            _reserve(books, job, due[job])
            continue
        for victim in books.victim[:n]:
            by[victim] = -1
            take_away(books, victim, 1)
        rows = fits_now(books, job)
        due[job] = NEVER if rows == 0 else STARTED
        if rows == 0:
            put_back(books, n)
        else:
            _stop(books, job, n, True)
            _start(books, job, rows)


@outlined
def _promise(books: Books, job: int, n: int) -> None:
    """Let n victims run on for the grace period, and plan the job they leave for after it."""
    due = books.size[NOW] + books.option[GRACE_US]
    put_back(books, n)
    for victim in books.victim[:n]:
        books.kept.by[victim] = job
        move_end(books.profile, victim, due)
    _stop(books, job, n, False)
    books.kept.due[job] = due
    hold_quota(books.quotas, books.facts.team[job], job, 1)
    _reserve(books, job, due)


@kernel
def _line_up(books: Books, waiting: I64) -> None:
    """Link the waiting jobs of each team that are not promised a place, in order."""
    books.head[:] = -1
    for i in range(len(waiting) - 1, -1, -1):
        if books.kept.due[waiting[i]] == NEVER:
            m = books.facts.team[waiting[i]]
            books.following[i] = books.head[m]
            books.head[m] = i


@outlined
def _next_team(books: Books, waiting: I64) -> int:
    """Team whose first job has its turn: one that need not borrow, the least share if fair, the order."""
    quotas, best, best_borrows, best_share = books.quotas, -1, True, 0.0
    for m in range(len(books.head)):
        if books.head[m] < 0:
            continue
        job = waiting[books.head[m]]
        borrowing = not within_nominal(quotas, m, job)
        of_team = share(quotas, m, job, 1) if books.option[FAIR] else 0.0
        better = best < 0 or (best_borrows and not borrowing)
        if best >= 0 and borrowing == best_borrows:
            better = of_team < best_share or (of_team == best_share and books.head[m] < books.head[best])
        if better:
            best, best_borrows, best_share = m, borrowing, of_team
    return best


@kernel
def _may_preempt(books: Books) -> bool:
    """Whether jobs are stopped for others at all."""
    others = len(books.head) > 1 and books.option[RECLAIM] != NEVER_PREEMPT
    return bool(others or books.option[PREEMPT] != NEVER_PREEMPT)


@outlined
def _try(books: Books, job: int, passing: bool) -> bool:
    """Start a job, or stop others for it; False if neither is possible.

    A failure holds for all jobs of the kind with this limit or a longer one until something stops or, with
    quotas, starts. It holds for every limit where nothing is planned.
    """
    kind, limit, profile = books.facts.kind[job], books.facts.limit[job], books.profile
    if books.failed_stamp[kind] == books.size[STAMP] and limit >= books.failed_limit[kind]:
        return False
    rows = 0
    if passing:
        rows = place_job(books.option[RULE], books.arrays, job, books.free, profile.pool.there, books.out)
    preempts = _may_preempt(books)
    planned = plans(books) and (profile.size[TAKEN] > 0 or books.size[PENDING] > 0)
    if planned and (rows > 0 or preempts):
        _plan_pending(books)
        if rows > 0:
            rows = fits_now(books, job)
    elif rows == 0 and not preempts:
        planned = False
    n = 0
    if rows == 0 and preempts:
        n = find_victims(books, job)
    if n > 0:
        if books.option[GRACE_US] > 0:
            _promise(books, job, n)
            return True
        rows = fits_now(books, job)
        _stop(books, job, n, True)
    if rows > 0:
        _start(books, job, rows)
        return True
    books.failed_stamp[kind], books.failed_limit[kind] = books.size[STAMP], limit if planned else 0
    return False


@kernel
def _block(books: Books, job: int) -> None:
    """Let no job start that could use a server that a job without room could use."""
    c = books.arrays.job_class[job]
    for other in range(len(books.blocked)):
        books.blocked[other] = books.blocked[other] or meets(books.arrays, c, other)


@outlined
def _let_in(books: Books, waiting: I64) -> None:
    """Try the waiting jobs by turns of their teams.

    A job that cannot start gets a reservation if it lacks room; without backfilling it blocks those behind.
    """
    m = _next_team(books, waiting)
    while m >= 0:
        job = waiting[books.head[m]]
        books.head[m] = books.following[books.head[m]]
        if not books.blocked[books.arrays.job_class[job]]:
            passing = passes(books.quotas, m, job)
            books.kept.acted[m] = books.kept.acted[m] or not passing
            if not _try(books, job, passing):
                if not passing and not books.option[BACKFILL]:
                    books.head[m] = -1
                elif passing and books.option[BACKFILL]:
                    books.pending[books.size[PENDING]] = job
                    books.size[PENDING] += 1
                elif passing:
                    _block(books, job)
        m = _next_team(books, waiting)


@kernel
def serve(books: Books, now: int, running: I64, end: I64, waiting: I64, promised: I64) -> None:
    """Write `Books.changes` and `Books.stopped`; change `Books.kept`.

    Parameters
    ----------
    running, end : running jobs and their planned ends, ascending
    waiting : waiting jobs in order
    promised : those to which room is promised, by due time
    """
    _begin(books, now, running, end)
    _keep_promises(books, promised)
    _line_up(books, waiting)
    _let_in(books, waiting)
    for job in promised:
        if books.kept.due[job] == STARTED:
            books.kept.due[job] = NEVER
    order_changes(books.changes)
