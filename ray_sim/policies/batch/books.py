"""Arrays of the policy `batch` for its kernels: facts of the jobs, and work space of one decision."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64, Bool, Changes, WorldArrays
from ray_sim.kernels.core.placement_rows import add_placement
from ray_sim.kernels.core.queue_arrays import Scratch
from ray_sim.policies.batch.profile import TAKEN, Profile, add_running, least_free, place_job
from ray_sim.policies.batch.quotas import Quotas, hold_quota

NEVER_PREEMPT, LOWER, LOWER_OR_NEWER, ANY = range(4)
"""Jobs that may be stopped for another one: none, of a lower class, or also newer ones of its class, all."""


RULE, BACKFILL, RESERVE, PREEMPT, RECLAIM, FAIR, GRACE_US, CELLS = range(8)
"""Places in `Books.option`; `CELLS`: whether plans are made of cells that are no servers."""

CANDIDATES, STOPPED, PENDING, PLANNED_TO, RESERVED, NOMINAL, RUNNING, NOW, STAMP = range(9)
"""Places in `Books.size`; `PLANNED_TO`: pending jobs for which a reservation has been sought; `NOMINAL`:
whether the job at hand must not borrow; `RUNNING`: jobs in `Books.running`; `NOW`: time of the decision."""


class JobFacts(NamedTuple):
    """Facts of the jobs, (J,) each."""

    team: I64
    rank: I64
    """Class, the lowest first."""
    preemptible: Bool
    limit: I64
    """Microseconds of run time that are planned, >= 1."""
    kind: I64
    """The same number for jobs of one class of demand, team and class."""
    amount: I64
    """(J, R) quanta of the gang."""
    gpus: I64
    """Quanta of GPUs of the gang."""
    rows: I64
    """Most rows of a placement."""
    beyond: Bool
    """Whether the team may not start it even if no other job runs."""


class Kept(NamedTuple):
    """What lasts from one decision to the next."""

    by: I64
    """(J,) job for which a running one leaves after its grace period, -1 for none."""
    due: I64
    """(J,) when a job to which room is promised is to start, NEVER for others."""
    acted: Bool
    """(M,) teams of which a job waited for its quota."""


class Books(NamedTuple):
    """Arrays of a run."""

    arrays: WorldArrays
    profile: Profile
    plan_cell: I64
    """(C,) cell of each place that a planned row names: itself."""
    facts: JobFacts
    quotas: Quotas
    option: I64
    out: Scratch
    plan_out: Scratch
    """`out` where cells are servers."""
    changes: Changes
    free: I64
    """(S, R + D) quanta."""
    running: I64
    """(J,) running jobs, by planned end."""
    kept: Kept
    start: I64
    """(J,) last start of running jobs."""
    size: I64
    lacking: Bool
    """(K,) resources of quotas that the job at hand lacks."""
    candidate: I64
    """(J,) jobs that may be stopped for it, in order."""
    mark: I64
    """(J,) what has become of each candidate."""
    stopped: I64
    """(J,) jobs stopped in this decision, now or after the grace period."""
    stopped_by: I64
    """(J,) jobs that they were stopped for."""
    victim: I64
    """(J,) jobs to be stopped for the job at hand."""
    failed_stamp: I64
    """(J,) by kind: `STAMP` when no job of the kind that lasts `failed_limit` or longer could start."""
    failed_limit: I64
    pending: I64
    """(J,) jobs without room, in order."""
    blocked: Bool
    """(C,) classes that a job without room blocks."""
    head: I64
    """(M,) place in the order of each team's next job, -1 for none."""
    following: I64
    """(J,) place of the team's job after each place."""


def new_work(n_jobs: int, classes: int, teams: int, resources: int) -> dict[str, Any]:
    """Work space fields of `Books` that depend on numbers only."""
    each = ("candidate", "mark", "victim", "pending", "running", "following", "start")
    return {
        **{name: np.zeros(n_jobs, np.int64) for name in each},
        "size": np.zeros(STAMP + 1, np.int64),
        "lacking": np.zeros(resources, np.bool_),
        "failed_stamp": np.full(n_jobs, -1),
        **{name: np.zeros(n_jobs, np.int64) for name in ("failed_limit", "stopped", "stopped_by")},
        "blocked": np.zeros(classes, np.bool_),
        "head": np.zeros(teams, np.int64),
    }


@kernel
def plans(books: Books) -> bool:
    """Whether a profile is kept: something may be planned for later."""
    return bool(books.option[RESERVE] > 0 or books.option[GRACE_US] > 0)


@outlined
def fits_now(books: Books, job: int) -> int:
    """Return the rows, in `Books.out`, of a placement from now on for the job's limit; 0 if there is none."""
    rule, there, profile = books.option[RULE], books.profile.pool.there, books.profile
    if not plans(books) or profile.size[TAKEN] == 0:
        return place_job(rule, books.arrays, job, books.free, there, books.out)
    least_free(profile, books.size[NOW] + books.facts.limit[job])
    n = place_job(rule, profile.plan, job, profile.least, profile.there, books.plan_out)
    if n == 0 or not books.option[CELLS]:
        return n
    return place_job(rule, books.arrays, job, books.free, there, books.out)


@outlined
def take_away(books: Books, job: int, sign: int) -> None:
    """Suppose that a running job holds nothing; with ``sign`` -1 it holds what it held again."""
    profile = books.profile
    profile.gone[job] = sign > 0
    add_placement(books.arrays, profile.pool, job, sign, books.free)
    if plans(books):
        add_running(profile, job, sign, profile.free)
    hold_quota(books.quotas, books.facts.team[job], job, -sign)
