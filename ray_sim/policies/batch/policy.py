"""`batch`: gangs in order, with backfilling, reservations, preemption and quotas.

The rules are in docs/models/batch.md. Each decision is one call of `ray_sim.policies.batch.serve.serve`; this
module declares the parameters, prepares the arrays and orders the waiting jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from ray_sim.kernels.core.arrays import NEVER, Pool, devices, new_changes
from ray_sim.kernels.core.queue_arrays import new_scratch
from ray_sim.kernels.handle import handle
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.teams import classes_of, teams_of
from ray_sim.model.units import QUANTA_PER_UNIT, US_PER_S, BoolArray, FloatArray, IntArray, seconds_to_us
from ray_sim.policies.batch.books import (
    ANY,
    GRACE_US,
    LOWER,
    LOWER_OR_NEWER,
    NEVER_PREEMPT,
    PREEMPT,
    RECLAIM,
    RULE,
    STAMP,
    STOPPED,
    Books,
)
from ray_sim.policies.batch.fair_tree import FairShare, multifactor
from ray_sim.policies.batch.parameters import DEFAULT_WEIGHTS, PARAMETERS
from ray_sim.policies.batch.profile import Profile, cells_of, new_profile
from ray_sim.policies.batch.quotas import beyond_cluster, new_quotas, quota_needs, quota_resources
from ray_sim.policies.batch.serve import serve
from ray_sim.policy_api import (
    KNOWING_RULES,
    NO_JOBS,
    WHOLE_TRACE,
    Causes,
    Decision,
    Parameter,
    Policy,
    PolicyContext,
    State,
    Streams,
    View,
    Wake,
)

_KEPT = "by", "due", "acted"
"""Arrays of `Books` that last from one decision to the next."""

_WORK = "candidate", "mark", "victim", "stopped", "stopped_by", "failed_limit", "pending"
"""Arrays of `Books` that a decision fills, (J,) each."""

_STOPS = {"never": NEVER_PREEMPT, "lower": LOWER, "lower_or_newer": LOWER_OR_NEWER, "any": ANY}

NEVER_FITS = "never_fits"
BEYOND_QUOTA = "beyond_quota"
"""Reject reason of a job that its team may not start even if no other job runs."""


class Batch(Policy):
    """Start jobs in order if their team's quota and the servers have room; others may stop, or wait behind.

    Jobs hold what they ask for, or nothing. What runs or is reserved is planned to end at its time limit.
    """

    name: ClassVar[str] = "batch"
    section: ClassVar[str] = "docs/models/batch.md#rules"
    summary: ClassVar[str] = "backfilling with reservations, classes, preemption and quotas of teams"
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    sees: frozenset[str] = frozenset({"priority", "vc", "time_limit"})
    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.REVIEW | Wake.SERVER_CHANGE
    unchanging: ClassVar[frozenset[str]] = frozenset({"_options", "_weights", "_books", "_cell", "_gpus"})

    def __init__(
        self,
        placement: str = "consolidate",
        backfill: bool = True,
        order: str = "fifo",
        reserve: int = 1,
        preempt: str = "never",
        reclaim: str = "any",
        sharing: str = "first_come",
        grace_s: float = 0.0,
        default_limit_s: float = 86400.0,
        weights: tuple[float, ...] = DEFAULT_WEIGHTS,
        max_age_s: float = 7 * 86400.0,
        half_life_s: float = 7 * 86400.0,
    ) -> None:
        if len(weights) != len(DEFAULT_WEIGHTS):
            raise InvalidScenarioError(
                f"batch: weights must be four numbers, of age, fair share, size and class, got {len(weights)}"
            )
        self.sees = self.sees | ({WHOLE_TRACE} if placement in KNOWING_RULES else set())
        self.sees = self.sees | ({"user"} if order == "multifactor" else set())
        self._placement, self._order = placement, order
        grace_us, self._default_limit_us = seconds_to_us([grace_s, default_limit_s]).tolist()
        # In the order of the places in `Books.option`; the rule depends on the world.
        stops = _STOPS[preempt], _STOPS[reclaim]
        self._options = np.array([0, backfill, reserve, *stops, sharing == "fair", grace_us])
        self._weights, self._max_age_us = np.array(weights), max_age_s * US_PER_S
        self._half_life_s = half_life_s

    @property
    def draws(self) -> bool:
        """Whether the placement rule draws servers."""
        return self._placement == "random"

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """Number teams, classes and accounts, and make the arrays of the kernels."""
        self._placer, self._teams = world.placer(self._placement, streams), world.cluster.teams
        n_jobs, columns = len(world.jobs.submit_us), cast("Any", world.jobs)
        rank, classes = classes_of(world.cluster, columns.priority, n_jobs)
        team = np.zeros(n_jobs, dtype=np.int64)
        if self._teams:
            team = teams_of(world.cluster, columns.vc, columns.vc_names)
        limit = np.full(n_jobs, self._default_limit_us)
        if (given := columns.time_limit_us) is not None:
            limit = np.maximum(np.where(given == NEVER, limit, given), 1)
        preemptible = np.array([each.preemptible for each in classes] or [True])[rank]
        self._new_books(world, team, rank, preemptible, limit)
        reclaims = len(self._teams) > 1 and self._options[RECLAIM] != NEVER_PREEMPT
        self._preempts = bool(reclaims or self._options[PREEMPT] != NEVER_PREEMPT)
        self._class_acted = np.zeros(len(classes), dtype=np.bool_)
        self._known = np.full(len(classes), bool(world.cluster.classes))  # else classes of jobs so far
        self._declared = tuple(each.name for each in classes) if world.cluster.classes else ()
        self._beyond_cluster = tuple(beyond_cluster(world.cluster))
        gpu = world.cluster.resources.index("gpu")
        self._gpus = self._work.amount[:, gpu]
        self._all_gpus = max(int(world.cluster.capacity[:, gpu].sum()), 1)
        if self._order == "multifactor":
            self._fair_share = self._accounts(columns, team)

    def _accounts(self, columns: Any, team: IntArray) -> FairShare:
        """Accounts, each a user in a team or, without teams, in a vc."""
        user, vc = columns.user, columns.vc
        if user is None or user.null_count() or (vc < 0).any():
            raise InvalidScenarioError(
                "batch: order=multifactor ranks users within vcs, and the workload lacks one for some jobs; "
                "give the columns vc and user, or take order=priority"
            )
        names = np.unique(user.to_numpy(), return_inverse=True)[1]
        parts = np.column_stack([team if self._teams else vc, names])
        pairs, account = np.unique(parts, axis=0, return_inverse=True)
        shares = np.array([each.shares for each in self._teams] or [1.0] * len(columns.vc_names))
        gpus = self._gpus / QUANTA_PER_UNIT["gpu"]
        return FairShare(account.reshape(-1), gpus, pairs[:, 0], shares, self._half_life_s)

    def _new_books(
        self, world: PolicyContext, team: IntArray, rank: IntArray, preemptible: BoolArray, limit: IntArray
    ) -> None:
        placer, arrays, resources = self._placer, self._placer.arrays, quota_resources(world.cluster)
        amount = (arrays.gang[:, :, None] * arrays.demand).sum(axis=1)
        quotas = new_quotas(self._teams, resources, quota_needs(world, resources, amount))
        most = quotas.nominal - quotas.lend + np.minimum(quotas.pool, quotas.lend + quotas.borrow)
        kinds = np.column_stack([arrays.job_class, team, rank])
        self._cell, self._plan = cells_of(world.pools[:-1], placer)
        self._options[RULE] = placer.rule
        n_jobs, out = len(team), handle(placer.scratch)
        self._changes = new_changes(n_jobs, placer.row_bound, devices(arrays))
        per_job: dict[str, Any] = {name: np.zeros(n_jobs, dtype=np.int64) for name in _WORK}
        self._work = Books(
            arrays=handle(arrays),
            pool=cast("Pool", None),  # until the first decision
            profile=cast("Profile", None),
            quotas=handle(quotas),
            option=self._options,
            out=out,
            plan_out=out if len(self._plan.empty) == len(arrays.empty) else handle(new_scratch(self._plan)),
            changes=handle(self._changes),
            tries=placer.tries if len(placer.tries) else None,
            team=team,
            rank=rank,
            preemptible=preemptible,
            limit=limit,
            kind=np.unique(kinds, axis=0, return_inverse=True)[1].reshape(-1),
            amount=amount,
            rows=np.minimum(arrays.gang, len(arrays.capacity)).sum(axis=1),
            beyond=(quotas.need > most[team]).any(axis=1),
            by=np.full(n_jobs, -1),
            due=np.full(n_jobs, NEVER),
            acted=np.zeros(len(most), dtype=np.bool_),
            free=np.empty_like(arrays.empty),
            size=np.zeros(STAMP + 1, dtype=np.int64),
            lacking=np.zeros(len(resources), dtype=np.int64),
            blocked=np.zeros(len(arrays.class_job), dtype=np.bool_),
            head=np.zeros(len(most), dtype=np.int64),
            failed_stamp=np.full(n_jobs, -1),
            **per_job,
        )
        self._room = 0, 0

    def _make_room(self, view: View, waiting: IntArray) -> None:
        """Make a profile that can plan all waiting jobs, if there is none."""
        jobs, rows = len(waiting), int(self._work.rows[waiting].sum())
        if self._room[0] <= jobs or self._room[1] <= rows:
            self._room = 2 * jobs + 64, 2 * rows + 64
            profile = new_profile(
                self._plan, self._cell, self._room[0], self._room[1] + self._placer.row_bound
            )
            pool = handle(self._placer.pool(view))
            self._books = handle(self._work._replace(pool=pool, profile=handle(profile)))

    def decide(self, view: View) -> Decision:
        """Start and stop jobs; reject those that came and never fit."""
        work, waiting, running = self._work, view.waiting, view.running
        rejected, reasons = self._never(view)
        if len(rejected):
            waiting = np.setdiff1d(waiting, rejected, assume_unique=True)
        self._make_room(view, waiting)
        promised, starts = self._promised(waiting, running), view.last_start_us(running)
        end, leaves, stoppable = starts + work.limit[running], work.by[running], NO_JOBS
        end = np.where(leaves >= 0, np.minimum(end, work.due[leaves]), end)
        end = np.maximum(end, view.now_us + 1)  # those beyond their limit may end at any time
        if self._preempts:
            # The lowest class first, then the latest start.
            stoppable = running[np.lexsort((-starts, work.rank[running]))]
            stoppable = stoppable[work.preemptible[stoppable]]
        order = np.argsort(end, kind="stable")
        in_order = self._in_order(view, waiting)
        serve(self._books, view.now_us, running[order], end[order], stoppable, in_order, promised)
        self._note(view)
        return Decision(
            changes=self._changes if self._changes.size[0] else None,
            reject=rejected,
            reject_reason=reasons,
            causes=self._told(),
            review_us=int(work.due.min(initial=NEVER)) if self._options[GRACE_US] else NEVER,
        )

    def causes(self) -> tuple[IntArray, IntArray]:
        """Jobs that the last decision stops, now or after their grace period, and whom they make room for."""
        n = self._work.size[STOPPED]
        return self._work.stopped[:n].copy(), self._work.stopped_by[:n].copy()

    def _told(self) -> Causes | None:
        """Whom the jobs that stop now make room for."""
        stopped, by = self.causes()
        now = np.argsort(stopped)
        now = now[self._work.by[stopped[now]] < 0]  # others leave later
        return Causes(stopped[now], by[now], ("preempt",) * len(now)) if len(now) else None

    def _never(self, view: View) -> tuple[IntArray, str | tuple[str, ...]]:
        """Jobs that came and can never start, sorted, and the reason of each."""
        came = view.arrived
        lost = self._placer.verdict[self._placer.arrays.job_class[came]] != 0
        turned_away = lost | self._work.beyond[came]
        if not turned_away.any():
            return NO_JOBS, NEVER_FITS
        return came[turned_away], tuple(NEVER_FITS if no else BEYOND_QUOTA for no in lost[turned_away])

    def _promised(self, waiting: IntArray, running: IntArray) -> IntArray:
        """Waiting jobs to which room is promised, by due time; promises to others are forgotten."""
        if not self._options[GRACE_US]:
            return NO_JOBS
        by, due = self._work.by, self._work.due
        promised = waiting[due[waiting] < NEVER]
        times, leaves = due[promised], by[running]
        due[:], by[:] = NEVER, -1
        due[promised] = times
        by[running] = np.where(due[leaves] < NEVER, leaves, -1)
        return promised[np.argsort(times, kind="stable")]

    def _in_order(self, view: View, waiting: IntArray) -> IntArray:
        """The waiting jobs, first those whose turn it is first."""
        if self._order == "fifo":
            return waiting
        rank = self._work.rank[waiting]
        key = -rank if self._order == "priority" else -self._priority(view, waiting)
        order = np.argsort(key, kind="stable")
        self._class_acted[rank[order != np.arange(len(order))]] = True
        return waiting[order]

    def _priority(self, view: View, waiting: IntArray) -> FloatArray:
        """(n,) multifactor priority."""
        rank = self._work.rank[waiting]
        self._fair_share.advance(view.now_us)
        self._known[rank] = True
        factors = [
            np.minimum(view.waited_us(waiting) / self._max_age_us, 1.0),
            self._fair_share.factors(waiting),
            self._gpus[waiting] / self._all_gpus,
            (np.cumsum(self._known)[rank] - 1) / max(int(self._known.sum()) - 1, 1),
        ]
        return multifactor(self._weights, np.array(factors))

    def _note(self, view: View) -> None:
        """Keep which classes acted, and which jobs hold GPUs from now on."""
        ranks = self._work.rank[np.column_stack(self.causes())]
        self._class_acted[ranks[np.diff(ranks, axis=1)[:, 0] != 0]] = True
        if self._order == "multifactor":
            changed = self._changes.job[: self._changes.size[0]]
            # A change starts a waiting job, or stops a running one.
            self._fair_share.hold(np.setxor1d(view.running, changed, assume_unique=True))

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return super().state() | {f"kept.{name}": getattr(self._work, name).copy() for name in _KEPT}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        super().restore(state)
        for name in _KEPT:
            getattr(self._work, name)[:] = state[f"kept.{name}"]

    def warnings(self) -> Sequence[str]:
        """Quotas beyond the cluster, and quotas and classes that never acted."""
        teams = zip(self._teams, self._work.acted, strict=False)  # without teams one stands for all
        idle = {
            "quota of team": [team.name for team, acted in teams if team.quotas and not acted],
            "class": [
                name for name, acted in zip(self._declared, self._class_acted, strict=False) if not acted
            ],
        }
        return [
            *self._beyond_cluster,
            *(f"{what} {', '.join(names)}: never acted" for what, names in idle.items() if names),
        ]
