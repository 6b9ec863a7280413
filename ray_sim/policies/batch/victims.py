"""Jobs that `batch` stops for another one: candidates are removed in order until it fits, then given back.

Never a job that is not preemptible, that started at this decision, or that leaves for another one already.
`ray_sim.policies.batch.serve` calls `find_victims`.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.core.heap import heap_sort
from ray_sim.kernels.core.placement import meets
from ray_sim.policies.batch.books import (
    ANY,
    CANDIDATES,
    FAIR,
    LOWER_OR_NEWER,
    NEVER_PREEMPT,
    NOMINAL,
    PREEMPT,
    RECLAIM,
    RUNNING,
    Books,
    fits_now,
    take_away,
)
from ray_sim.policies.batch.quotas import available, below_nominal, borrows, passes, share, within_nominal

WAITS, REMOVED, PASSED, LEFT = range(4)
"""Marks of a candidate: not looked at, removed, passed over, and passed over for good."""


@kernel
def _find_lacking(books: Books, job: int, room: bool) -> None:
    """Mark the resources of quotas that a job lacks: those not available, or all it needs without room."""
    quotas, m = books.quotas, books.facts.team[job]
    for k in range(len(books.lacking)):
        need = quotas.need[job, k]
        short = quotas.named[m, k] and need > available(quotas, m, k)
        books.lacking[k] = need > 0 and (short or not room)


@kernel
def _may_stop(books: Books, job: int, other: int) -> bool:
    """Whether `preempt`, of the own team, or `reclaim`, of others of the cohort, lets a job stop another."""
    facts, cohort = books.facts, books.quotas.cohort
    m, of_other = facts.team[job], facts.team[other]
    rule = books.option[PREEMPT] if m == of_other else books.option[RECLAIM]
    if rule == NEVER_PREEMPT or cohort[m] != cohort[of_other]:
        return False
    if rule == ANY or facts.rank[other] < facts.rank[job]:
        return True
    submit = books.arrays.submit
    return bool(
        rule == LOWER_OR_NEWER and facts.rank[other] == facts.rank[job] and submit[other] > submit[job]
    )


@kernel
def _uses_lacking(books: Books, job: int, other: int, room: bool) -> bool:
    """Whether another job holds something that the job lacks, of its quota or on its servers."""
    for k in range(len(books.lacking)):
        if books.lacking[k] and books.quotas.need[other, k] > 0:
            return True
    arrays, amount = books.arrays, books.facts.amount
    shared = False
    if not room and meets(arrays, arrays.job_class[job], arrays.job_class[other]):
        for r in range(amount.shape[1]):
            shared = shared or (amount[job, r] > 0 and amount[other, r] > 0)
    return bool(shared)


@kernel
def _after(data: tuple[int, I64, I64, I64], a: int, b: int) -> bool:
    """Order of candidates: other teams, then the own ``data[0]``; lowest class, latest start, number."""
    own, team, rank, start = data
    if (team[a] == own) != (team[b] == own):
        return bool(team[a] == own)
    if rank[a] != rank[b]:
        return bool(rank[a] > rank[b])
    if start[a] != start[b]:
        return bool(start[a] < start[b])
    return a > b


@outlined
def _find_candidates(books: Books, job: int, room: bool) -> None:
    """List, in order, the running jobs that may be stopped for a job."""
    facts, n = books.facts, 0
    for other in books.running[: books.size[RUNNING]]:
        leaves = books.profile.gone[other] or books.kept.by[other] >= 0
        if leaves or not facts.preemptible[other]:
            continue
        if _may_stop(books, job, other) and _uses_lacking(books, job, other, room):
            books.candidate[n], books.mark[n] = other, WAITS
            n += 1
    books.size[CANDIDATES] = n
    heap_sort(books.candidate, 0, n, _after, (facts.team[job], facts.team, facts.rank, books.start))


@outlined
def _holds(books: Books, job: int) -> bool:
    """Whether a job may start now; with `NOMINAL` it must not borrow."""
    quotas, m = books.quotas, books.facts.team[job]
    if not passes(quotas, m, job) or (books.size[NOMINAL] and not within_nominal(quotas, m, job)):
        return False
    return bool(fits_now(books, job) > 0)


@kernel
def _remove(books: Books, i: int, n: int) -> int:
    """Remove candidate i, as victim n; return the number of victims."""
    books.victim[n], books.mark[i] = books.candidate[i], REMOVED
    take_away(books, books.candidate[i], 1)
    return n + 1


@kernel
def put_back(books: Books, n: int) -> None:
    """Give all victims back what they hold."""
    for i in range(n):
        take_away(books, books.victim[i], -1)


@outlined
def _minimal(books: Books, job: int, n: int) -> int:
    """Give back victims that are not needed, from the last but one; return the number of the others."""
    for i in range(n - 2, -1, -1):
        take_away(books, books.victim[i], -1)
        if _holds(books, job):
            n -= 1
            for k in range(i, n):
                books.victim[k] = books.victim[k + 1]
        else:
            take_away(books, books.victim[i], 1)
    return n


@outlined
def _first_come(books: Books, job: int, own: bool) -> int:
    """Remove candidates in order, skipping teams that do not borrow, until the job fits.

    ``own`` leaves candidates of other teams out. Returns the number of victims; 0, and nothing removed, if
    the job does not fit.
    """
    team, n = books.facts.team, 0
    for i in range(books.size[CANDIDATES]):
        m = team[books.candidate[i]]
        if m != team[job] and (own or not borrows(books.quotas, m, books.lacking)):
            continue
        n = _remove(books, i, n)
        if _holds(books, job):
            return _minimal(books, job, n)
    put_back(books, n)
    return 0


@outlined
def _largest(books: Books, job: int, mark: int) -> int:
    """First candidate with a mark of the team with the largest share, -1 for none.

    The own share includes the job; other teams count while they borrow. Ties: the order of candidates.
    """
    best, largest, own = -1, -1.0, books.facts.team[job]
    for i in range(books.size[CANDIDATES]):
        m = books.facts.team[books.candidate[i]]
        if books.mark[i] != mark or (m != own and not borrows(books.quotas, m, books.lacking)):
            continue
        of_team = share(books.quotas, m, job, 1 if m == own else 0)
        if of_team > largest:
            best, largest = i, of_team
    return best


@outlined
def _first_of(books: Books, job: int, m: int, mark: int, asked: float) -> int:
    """First candidate with a mark of team m for which the share ``asked`` is small enough, -1 for none.

    `WAITS`: at most the team's share without it, those before are `PASSED`; `PASSED`: below the present one.
    """
    for i in range(books.size[CANDIDATES]):
        other = books.candidate[i]
        if books.facts.team[other] == m and books.mark[i] == mark:
            if mark == PASSED:
                return i if asked < share(books.quotas, m, other, 0) else -1
            if m == books.facts.team[job] or asked <= share(books.quotas, m, other, -1):
                return i
            books.mark[i] = PASSED
    return -1


@outlined
def _fair(books: Books, job: int) -> int:
    """Remove candidates of the team with the largest share, while the job's team stays below it.

    The first round compares with that team's share without the candidate, the second, in which each team
    gives one at most, with its present share.
    """
    team, n = books.facts.team, 0
    for mark in (WAITS, PASSED):
        at = _largest(books, job, mark)
        while at >= 0:
            m = team[books.candidate[at]]
            i = _first_of(books, job, m, mark, share(books.quotas, team[job], job, 1))
            if i >= 0:
                n = _remove(books, i, n)
                if _holds(books, job):
                    return _minimal(books, job, n)
            if mark == PASSED:
                for k in range(books.size[CANDIDATES]):
                    if team[books.candidate[k]] == m:
                        books.mark[k] = LEFT
            at = _largest(books, job, mark)
    put_back(books, n)
    return 0


@outlined
def find_victims(books: Books, job: int) -> int:
    """Stop, in the books, what a job needs to start; return the number of victims, 0 if it cannot start."""
    quotas, m = books.quotas, books.facts.team[job]
    room = fits_now(books, job) > 0
    _find_lacking(books, job, room)
    _find_candidates(books, job, room)
    if books.size[CANDIDATES] == 0:
        return 0
    books.size[NOMINAL] = 0
    if books.option[FAIR]:
        return _fair(books, job)
    within = within_nominal(quotas, m, job)
    below, n = below_nominal(quotas, m, books.lacking), 0
    for own in (False, True):  # all candidates, if the job then need not borrow; else those of its team
        if n == 0 and (not within if own else within or below):
            books.size[NOMINAL] = not (own or within)
            n = _first_come(books, job, own)
    return n
