"""Jobs that `batch` stops for another one: candidates are removed in order until it fits, then given back.

Never a job that is not preemptible, that started at this decision, or that leaves for another one already.
`ray_sim.policies.batch.serve` calls `find_victims`.
"""

from __future__ import annotations

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64
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
    Books,
    fits_now,
    take_away,
)
from ray_sim.policies.batch.quotas import available, borrows, passes, share

WAITS, PASSED, LEFT, REMOVED = range(4)
"""Marks of a candidate: not looked at, passed over, passed over for good, removed."""


@kernel
def _find_lacking(books: Books, job: int, room: bool) -> None:
    """Mark the resources of quotas that a job lacks: those not available, or all it needs without room."""
    for k in range(len(books.lacking)):
        need = books.quotas.need[job, k]
        lacks = need > 0 and (not room or need > available(books.quotas, books.team[job], k))
        books.lacking[k] = 1 if lacks else 0


@kernel
def _may_stop(books: Books, job: int, other: int) -> bool:
    """Whether `preempt`, of the own team, or `reclaim`, of others of the cohort, lets a job stop another."""
    rank, submit, cohort = books.rank, books.arrays.submit, books.quotas.cohort
    m, of_other = books.team[job], books.team[other]
    rule = books.option[PREEMPT] if m == of_other else books.option[RECLAIM]
    if rule == NEVER_PREEMPT or cohort[m] != cohort[of_other]:
        return False
    newer = rank[other] == rank[job] and submit[other] > submit[job]
    return bool(rule == ANY or rank[other] < rank[job] or (rule == LOWER_OR_NEWER and newer))


@kernel
def _uses_lacking(books: Books, job: int, other: int, room: bool) -> bool:
    """Whether another job holds something that the job lacks, of its quota or on its servers."""
    for k in range(len(books.lacking)):
        if books.lacking[k] > 0 and books.quotas.need[other, k] > 0:
            return True
    arrays, amount = books.arrays, books.amount
    shared = False
    if not room and meets(arrays, arrays.job_class[job], arrays.job_class[other]):
        for r in range(amount.shape[1]):
            shared = shared or (amount[job, r] > 0 and amount[other, r] > 0)
    return bool(shared)


@kernel
def _find_candidates(books: Books, job: int, stoppable: I64, room: bool) -> None:
    """List the jobs that may be stopped for a job: other teams' first, each in the order of ``stoppable``."""
    n = 0
    for own in (False, True):
        for other in stoppable:
            if (
                (books.team[other] == books.team[job]) != own
                or books.profile.gone[other]
                or books.by[other] >= 0
            ):
                continue
            if _may_stop(books, job, other) and _uses_lacking(books, job, other, room):
                books.candidate[n], books.mark[n] = other, WAITS
                n += 1
    books.size[CANDIDATES] = n


@outlined
def _holds(books: Books, job: int) -> bool:
    """Whether the job may start now."""
    quotas, m = books.quotas, books.team[job]
    nominal = not books.size[NOMINAL] or not borrows(quotas, m, quotas.need[job], 1)
    return bool(nominal and passes(quotas, m, job) and fits_now(books, job) > 0)


@kernel
def _remove(books: Books, i: int, n: int) -> int:
    """Remove candidate i, as victim n; return the number of victims."""
    books.victim[n], books.mark[i] = books.candidate[i], REMOVED
    take_away(books, books.candidate[i], 1)
    return n + 1


@kernel
def put_back(books: Books, n: int) -> None:
    """Give all n victims back what they hold."""
    for victim in books.victim[:n]:
        take_away(books, victim, -1)


@kernel
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


@kernel
def _first_come(books: Books, job: int, own: bool) -> int:
    """Remove candidates in order, skipping teams that do not borrow, until the job fits.

    ``own`` leaves candidates of other teams out. Returns the number of victims; 0, and nothing removed, if
    the job does not fit.
    """
    n = 0
    for i in range(books.size[CANDIDATES]):
        m = books.team[books.candidate[i]]
        if m == books.team[job] or (not own and borrows(books.quotas, m, books.lacking, 0)):
            n = _remove(books, i, n)
            if _holds(books, job):
                return n
    put_back(books, n)
    return 0


@kernel
def _largest(books: Books, job: int, mark: int) -> int:
    """First candidate with a mark of the team with the largest share, -1 for none.

    The own share includes the job; other teams count while they borrow. Ties: the order of candidates.
    """
    best, largest, own = -1, -1.0, books.team[job]
    for i in range(books.size[CANDIDATES]):
        m = books.team[books.candidate[i]]
        if books.mark[i] == mark and (m == own or borrows(books.quotas, m, books.lacking, 0)):
            of_team = share(books.quotas, m, job, 1 if m == own else 0)
            if of_team > largest:
                best, largest = i, of_team
    return best


@kernel
def _given(books: Books, job: int, first: int, mark: int) -> int:
    """Candidate, from ``first`` on, that its team gives for a job, -1 for none; looked at, marks increase.

    `WAITS`: the first with which the own share is at most the team's share without it. `PASSED`: the first of
    all, if the own share is below the team's present one.
    """
    quotas, team = books.quotas, books.team
    m, asked = team[books.candidate[first]], share(quotas, team[job], job, 1)
    given = first if mark == PASSED and asked < share(quotas, m, job, 0) else -1
    for i in range(first, books.size[CANDIDATES]):
        other = books.candidate[i]
        if team[other] == m and books.mark[i] == mark:
            if mark == WAITS and (m == team[job] or asked <= share(quotas, m, other, -1)):
                return i
            books.mark[i] += 1
    return given


@kernel
def _fair(books: Books, job: int) -> int:
    """Remove candidates of the team with the largest share, while the job's team stays below it.

    In the second round each team gives one at most. Returns as `_first_come`.
    """
    n = 0
    for mark in (WAITS, PASSED):
        while True:
            first = _largest(books, job, mark)
            if first < 0:
                break
            i = _given(books, job, first, mark)
            if i >= 0:
                n = _remove(books, i, n)
                if _holds(books, job):
                    return n
    put_back(books, n)
    return 0


@kernel
def find_victims(books: Books, job: int, stoppable: I64) -> int:
    """Stop, in the books, what a job needs to start; return the number of victims, 0 if it cannot start."""
    quotas, m = books.quotas, books.team[job]
    room = fits_now(books, job) > 0
    _find_lacking(books, job, room)
    _find_candidates(books, job, stoppable, room)
    books.size[NOMINAL], n = 0, 0
    if books.size[CANDIDATES] == 0:
        return 0
    if books.option[FAIR]:
        return _minimal(books, job, _fair(books, job))
    within, below = not borrows(quotas, m, quotas.need[job], 1), not borrows(quotas, m, books.lacking, 1)
    for own in (False, True):  # all candidates, if the job then need not borrow; else those of its team
        if n == 0 and (not within if own else within or below):
            books.size[NOMINAL] = not (own or within)
            n = _first_come(books, job, own)
    return _minimal(books, job, n)
