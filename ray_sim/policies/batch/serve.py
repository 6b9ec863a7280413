"""One decision of `batch`: which waiting jobs start, and which running ones stop for them."""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, NEVER, Bool, Pool
from ray_sim.kernels.core.placement import meets
from ray_sim.kernels.core.queue_arrays import Scores
from ray_sim.kernels.core.queue_dispatch import add_change, copy_matrix, order_changes, take_rows
from ray_sim.kernels.core.scored_placement import add_started, begin_scores, drop_running
from ray_sim.policies.batch.books import (
    BACKFILL,
    FAIR,
    GRACE_US,
    NEVER_PREEMPT,
    PENDING,
    PLANNED_TO,
    PREEMPT,
    RECLAIM,
    RESERVE,
    RESERVED,
    RULE,
    STAMP,
    STOPPED,
    Books,
    fits_now,
    plans,
    take_away,
)
from ray_sim.policies.batch.profile import (
    NOW_US,
    TAKEN,
    Profile,
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
def _begin(books: Books, profile: Profile, pool: Pool, now: int, running: I64, end: I64) -> None:
    """Start from what runs; nothing has been decided."""
    copy_matrix(pool.free, books.free)
    if plans(books):
        begin_profile(profile, pool, now, running, end)
    begin_scores(books.option[RULE], books.arrays, pool, running, len(running), books.out.scores)
    books.quotas.held[:] = 0
    for job in running:
        profile.gone[job] = False
        hold_quota(books.quotas, books.facts.team[job], job, 1)
    books.changes.size[0] = 0
    books.blocked[:] = False
    for place_of in (STOPPED, PENDING, PLANNED_TO, RESERVED):
        books.size[place_of] = 0
    books.size[STAMP] += 1


@kernel
def _count_start(scores: Scores | None, job: int) -> None:
    """Note a start, where the draws of placement depend on it."""
    if scores is not None:
        scores.tries[job] += 1


@outlined
def _start(books: Books, profile: Profile, pool: Pool, job: int, now: int, n: int) -> None:
    """Start a job on the n rows in `Books.out`."""
    rule, arrays, out = books.option[RULE], books.arrays, books.out
    add_change(books.changes, job, out, n)
    take_rows(arrays, job, books.free, out, n)
    if plans(books):
        plan_holding(arrays, profile, job, out, n, now, now + books.facts.limit[job], profile.cell)
    add_started(rule, arrays, job, out, n, out.scores)
    _count_start(out.scores, job)
    hold_quota(books.quotas, books.facts.team[job], job, 1)
    if books.quotas.held.shape[1] > 0:  # its team may borrow now, so what was no candidate may be one
        books.size[STAMP] += 1


@outlined
def _stop(books: Books, pool: Pool, victim: int, job: int, at_once: bool) -> None:
    """Note that a running job stops for another one."""
    if at_once:
        add_change(books.changes, victim, books.out, 0)
        drop_running(books.option[RULE], books.arrays, pool, victim, books.out.scores)
    books.stopped[books.size[STOPPED]], books.stopped_by[books.size[STOPPED]] = victim, job
    books.size[STOPPED] += 1
    books.size[STAMP] += 1


@outlined
def _reserve(books: Books, profile: Profile, pool: Pool, job: int, earliest: int) -> bool:
    """Plan a job at the first time, from ``earliest`` on, at which it fits; False if there is none."""
    arrays, limit, out = books.arrays, books.facts.limit[job], books.plan_out
    rule, plan = books.option[RULE], books.plan
    time, n = first_fit_in_time(rule, arrays, plan, profile, pool, job, earliest, limit, out)
    if n > 0:
        plan_holding(arrays, profile, job, out, n, time, time + limit, books.plan_cell)
    return n > 0


@kernel
def _plan_pending(books: Books, profile: Profile, pool: Pool) -> None:
    """Reserve for jobs without room, in order; called once a later job could start: only then it matters."""
    size = books.size
    while size[PLANNED_TO] < size[PENDING] and size[RESERVED] < books.option[RESERVE]:
        size[RESERVED] += _reserve(
            books, profile, pool, books.pending[size[PLANNED_TO]], profile.size[NOW_US]
        )
        size[PLANNED_TO] += 1


@outlined
def _keep_promises(
    books: Books, profile: Profile, pool: Pool, running: I64, promised: I64, by: I64, due: I64, now: int
) -> None:
    """Start promised jobs whose victims' grace is over or who have none left; plan the others."""
    for job in promised:
        n = 0
        for other in running:
            if by[other] == job:
                books.victim[n] = other
                n += 1
        if n > 0 and due[job] > now:
            hold_quota(books.quotas, books.facts.team[job], job, 1)
            _reserve(books, profile, pool, job, due[job])
            continue
        for i in range(n):
            by[books.victim[i]] = -1
            take_away(books, profile, pool, books.victim[i], 1)
        rows = fits_now(books, profile, pool, job, now + books.facts.limit[job])
        due[job] = NEVER if rows == 0 else STARTED
        if rows == 0:
            put_back(books, profile, pool, n)
            continue
        for i in range(n):
            _stop(books, pool, books.victim[i], job, True)
        _start(books, profile, pool, job, now, rows)


@outlined
def _promise(
    books: Books, profile: Profile, pool: Pool, job: int, n: int, by: I64, due: I64, now: int
) -> None:
    """Let n victims run on for the grace period, and plan the job they leave for after it."""
    put_back(books, profile, pool, n)
    due[job] = now + books.option[GRACE_US]
    for i in range(n):
        victim = books.victim[i]
        by[victim] = job
        move_end(profile, victim, due[job])
        _stop(books, pool, victim, job, False)
    hold_quota(books.quotas, books.facts.team[job], job, 1)
    _reserve(books, profile, pool, job, due[job])


@kernel
def _line_up(books: Books, waiting: I64, due: I64) -> None:
    """Link the waiting jobs of each team that are not promised a place, in order."""
    books.head[:] = -1
    for i in range(len(waiting) - 1, -1, -1):
        if due[waiting[i]] == NEVER:
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
def _try(
    books: Books,
    profile: Profile,
    pool: Pool,
    running: I64,
    by: I64,
    due: I64,
    now: int,
    job: int,
    passing: bool,
) -> bool:
    """Start a job, or stop others for it; False if neither is possible."""
    kind, limit = books.facts.kind[job], books.facts.limit[job]
    if books.failed_stamp[kind] == books.size[STAMP] and limit >= books.failed_limit[kind]:
        return False
    until, rows = now + limit, 0
    if passing:
        rows = place_job(books.option[RULE], books.arrays, job, books.free, pool.there, books.out)
    preempts = _may_preempt(books)
    planned = plans(books) and (profile.size[TAKEN] > 0 or books.size[PENDING] > 0)
    if planned and (rows > 0 or preempts):
        _plan_pending(books, profile, pool)
        if rows > 0:
            rows = fits_now(books, profile, pool, job, until)
    elif rows == 0 and not preempts:
        planned = False  # no limit is short enough
    if rows > 0:
        _start(books, profile, pool, job, now, rows)
        return True
    n = find_victims(books, profile, pool, running, by, job, until) if preempts else 0
    if n == 0:
        books.failed_stamp[kind], books.failed_limit[kind] = books.size[STAMP], limit if planned else 0
        return False
    if books.option[GRACE_US] > 0:
        _promise(books, profile, pool, job, n, by, due, now)
        return True
    rows = fits_now(books, profile, pool, job, until)
    for i in range(n):
        _stop(books, pool, books.victim[i], job, True)
    _start(books, profile, pool, job, now, rows)
    return True


@kernel
def _block(books: Books, job: int) -> None:
    """Let no job start that could use a server that a job without room could use."""
    c = books.arrays.job_class[job]
    for other in range(len(books.blocked)):
        books.blocked[other] = books.blocked[other] or meets(books.arrays, c, other)


@kernel
def serve(
    books: Books,
    profile: Profile,
    pool: Pool,
    now: int,
    running: I64,
    end: I64,
    waiting: I64,
    promised: I64,
    by: I64,
    due: I64,
    acted: Bool,
) -> None:
    """Write `Books.changes` and `Books.stopped`.

    Parameters
    ----------
    running, end : running jobs and their planned ends, ascending
    waiting : waiting jobs in order
    promised : those to which room is promised, by due time
    by : (J,) job for which a running one leaves, -1 for none; changed
    due : (J,) when a promised job is to start, NEVER for others; changed
    acted : (M,) set for teams of which a job waited for its quota
    """
    _begin(books, profile, pool, now, running, end)
    _keep_promises(books, profile, pool, running, promised, by, due, now)
    _line_up(books, waiting, due)
    _let_in(books, profile, pool, now, running, waiting, by, due, acted)
    for job in promised:
        if due[job] == STARTED:
            due[job] = NEVER
    order_changes(books.changes)


@outlined
def _let_in(
    books: Books,
    profile: Profile,
    pool: Pool,
    now: int,
    running: I64,
    waiting: I64,
    by: I64,
    due: I64,
    acted: Bool,
) -> None:
    """Try the waiting jobs by turns of their teams.

    A job that cannot start gets a reservation if it lacks room; without backfilling it blocks those behind.
    """
    m = _next_team(books, waiting)
    while m >= 0:
        at = books.head[m]
        job = waiting[at]
        books.head[m] = books.following[at]
        if not books.blocked[books.arrays.job_class[job]]:
            passing = passes(books.quotas, m, job)
            acted[m] = acted[m] or not passing
            if not _try(books, profile, pool, running, by, due, now, job, passing):
                if not passing and not books.option[BACKFILL]:
                    books.head[m] = -1
                elif passing and books.option[BACKFILL]:
                    books.pending[books.size[PENDING]] = job
                    books.size[PENDING] += 1
                elif passing:
                    _block(books, job)
        m = _next_team(books, waiting)
