"""Arrays of the policy `batch` for its kernels: facts of the jobs, and work space of one decision."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import outlined
from ray_sim.kernels.core.arrays import I64, Bool, Changes, Pool, WorldArrays
from ray_sim.kernels.core.placement_rows import add_placement
from ray_sim.kernels.core.queue_arrays import Scratch
from ray_sim.policies.batch.profile import TAKEN, Profile, least_free, place_job
from ray_sim.policies.batch.quotas import Quotas, hold_quota

NEVER_PREEMPT, LOWER, LOWER_OR_NEWER, ANY = range(4)
"""Jobs that may be stopped for another one: none, of a lower class, or also newer ones of its class, all."""

RULE, BACKFILL, RESERVE, PREEMPT, RECLAIM, FAIR, GRACE_US = range(7)
"""Places in `Books.option`."""

CANDIDATES, STOPPED, PENDING, PLANNED_TO, RESERVED, NOMINAL, NOW, STAMP = range(8)
"""Places in `Books.size`; `PLANNED_TO`: pending jobs for which a reservation has been sought; `NOMINAL`:
whether the job at hand must not borrow; `NOW`: time of the decision; `STAMP`: see `Books.failed_stamp`."""


class Books(NamedTuple):
    """Arrays of a run."""

    arrays: WorldArrays
    pool: Pool
    """Placements of the running jobs."""
    profile: Profile
    quotas: Quotas
    option: I64
    out: Scratch
    plan_out: Scratch
    """For cells; `out` where these are servers."""
    changes: Changes
    tries: I64 | None
    """(J,) starts of each job; None where placement draws nothing."""
    team: I64
    """(J,), as the next nine."""
    rank: I64
    """Class, the lowest first."""
    preemptible: Bool
    limit: I64
    """Microseconds of run time that are planned, >= 1."""
    kind: I64
    """The same number for jobs of one class of demand, team and class."""
    amount: I64
    """(J, R) quanta of the gang."""
    rows: I64
    """Most rows of a placement."""
    beyond: Bool
    """Whether the team may not start it even if no other job runs."""
    by: I64
    """Job for which a running one leaves after its grace period, -1 for none; kept, as the next two."""
    due: I64
    """When a job to which room is promised is to start, NEVER for others."""
    acted: Bool
    """(M,) teams of which a job waited for its quota."""
    free: I64
    """(S, R + D) quanta."""
    size: I64
    lacking: I64
    """(K,) 1 for resources of quotas that the job at hand lacks."""
    blocked: Bool
    """(C,) classes that a job without room blocks."""
    head: I64
    """(M,) place in the order of each team's next job."""
    candidate: I64
    """(J,), as the rest: jobs that may be stopped for the job at hand, in order."""
    mark: I64
    """State of each candidate for preemption."""
    victim: I64
    """Jobs to be stopped for the job at hand."""
    stopped: I64
    """Jobs stopped in this decision, now or after the grace period."""
    stopped_by: I64
    """Jobs that they were stopped for."""
    failed_stamp: I64
    """By kind: `STAMP` when no job of the kind that lasts `failed_limit` or longer could start."""
    failed_limit: I64
    pending: I64
    """Jobs without room, in order."""


@outlined
def fits_now(books: Books, job: int) -> int:
    """Return the rows, in `Books.out`, of a placement from now on for the job's limit; 0 if there is none."""
    rule, there, profile = books.option[RULE], books.pool.there, books.profile
    if profile.size[TAKEN] > 0:
        least_free(profile, profile.held.free, 0, books.size[NOW] + books.limit[job])
        n = place_job(rule, profile.arrays, job, profile.least, profile.held.there, books.plan_out)
        if n == 0 or len(profile.held.there) == len(there):
            return n
    return place_job(rule, books.arrays, job, books.free, there, books.out)


@outlined
def take_away(books: Books, job: int, sign: int) -> None:
    """Suppose that a running job holds nothing; with ``sign`` -1 it holds what it held again."""
    profile = books.profile
    profile.gone[job] = sign > 0
    add_placement(books.arrays, books.pool, job, sign, books.free)
    add_placement(profile.arrays, profile.held, job, sign, profile.held.free)
    hold_quota(books.quotas, books.team[job], job, -sign)
