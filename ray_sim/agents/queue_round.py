"""One decision in `ray_sim/Queue-v1`, action by action; the environment and agents share it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_sim.agents.arguments import MOST_ROWS, switch, whole_number
from ray_sim.agents.features import (
    DURATION,
    FREE,
    MOST_GANG,
    MOST_TASKS,
    Feature,
    chosen,
    most_time,
    most_units,
    units,
)
from ray_sim.agents.queue_kernels import (
    QueueBoard,
    begin_starting,
    show_queue,
    start_row,
)
from ray_sim.agents.round import Round, ShownArrays, chosen_action
from ray_sim.engine.decision import Decision
from ray_sim.engine.order import never_fits
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import devices, new_changes
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.kernels.core.queue_arrays import new_scratch
from ray_sim.kernels.core.queue_dispatch import order_changes
from ray_sim.kernels.handle import handle
from ray_sim.model.errors import ForbiddenActionError, UnknownNameError

ENTRIES = {
    "tasks": FREE,
    "demands": FREE,
    "waited_s": FREE,
    "duration_s": DURATION,
    "free": FREE,
    "waiting": FREE,
    "running": FREE,
}
"""All entries of an observation, by name."""

_FIELDS = {"free": "free_shown"}
"""Fields of `QueueBoard` that have another name than their entry."""


class QueueSettings(NamedTuple):
    """Form of observations and actions."""

    most_jobs: int = 10
    """K, rows of waiting jobs in an observation, in order of submission."""
    observe: tuple[str, ...] | None = None
    """Names out of `ENTRIES`; None for all of them."""
    scaled: bool = False
    """Resources as shares of the largest server, and log10(1 + s) of times, instead of units and seconds."""
    placement: str = "consolidate"
    """Placement rule of jobs that start, as of the policies that serve a queue."""


class QueueRound(Round):
    """Starts waiting jobs one by one, until the choice is to wait or no job that is shown fits."""

    _new_board = QueueBoard

    def __init__(self, world: PolicyContext, settings: QueueSettings) -> None:
        rows = whole_number("most_jobs", settings.most_jobs, 1, MOST_ROWS)
        if settings.placement not in RULE_NAMES:
            raise UnknownNameError("placement", str(settings.placement), RULE_NAMES)
        scaled = switch("scaled", settings.scaled)
        super().__init__(world)
        self._settings = settings
        self._rule = RULE_NAMES.index(settings.placement)
        self.names = chosen(settings.observe, tuple(ENTRIES), ENTRIES, world)
        self._rows = rows
        self.actions = rows + 1
        """Number of actions: start the job of a row; the last is to wait."""
        jobs, servers, resources = len(self._world.table), len(world.cluster), len(world.cluster.resources)
        every = {
            "tasks": Feature((rows,), MOST_GANG),
            "demands": Feature((rows, resources), most_units(scaled)),
            "waited_s": Feature((rows,), most_time(scaled)),
            "duration_s": Feature((rows,), most_time(scaled)),
            "free": Feature((servers, resources), most_units(scaled)),
            "waiting": Feature((1,), MOST_TASKS),
            "running": Feature((1,), MOST_TASKS),
        }
        self.features = {name: every[name] for name in self.names}
        self._arrays: dict[str, Any] = {
            "arrays": self._world.arrays,
            "scratch": new_scratch(self._world.arrays),
            "verdict": never_fits(self._world, settings.placement),
            "unit": units(world, scaled),
            "free": np.zeros_like(self._world.arrays.empty),
            "queue": np.empty(jobs, dtype=np.int64),
            "refused": np.empty(jobs, dtype=np.int64),
            "tally": np.zeros(3, dtype=np.int64),
            "job": np.full(rows, -1, dtype=np.int64),
            "mask": np.zeros(self.actions, dtype=np.int8),
            "tasks": np.zeros(rows, dtype=np.float32),
            "demands": np.zeros((rows, resources), dtype=np.float32),
            "free_shown": np.zeros((servers, resources), dtype=np.float32),
            "waiting": np.zeros(1, dtype=np.float32),
            "running": np.zeros(1, dtype=np.float32),
            "changes": new_changes(jobs, self._world.row_bound, devices(self._world.arrays)),
        }
        self._changes = handle(self._arrays["changes"])
        self._shown = ShownArrays(self.names, self._arrays, _FIELDS, scaled)

    def open(self, view: View) -> None:
        """Begin the decision of a view."""
        self._look_at(view)
        self._all_there = bool(view.available.all())
        begin_starting(self._board, view.waiting, len(view.running))
        self._show()

    def _show(self) -> None:
        self.pending = bool(show_queue(self._board, self._rule, self._all_there))

    def _jobs_shown(self) -> int:
        return int((self._arrays["job"] >= 0).sum())

    def take(self, action: object) -> None:
        """Start a job, or wait.

        Raises
        ------
        ForbiddenActionError : the action is not valid now
        """
        number = chosen_action("Queue", action, self.actions)
        if not self.pending or not self.mask[number]:
            raise ForbiddenActionError(self._why(number))
        if number == self._rows:
            self.pending = False
            return
        start_row(self._board, self._rule, number)
        self._show()

    def _why(self, action: int) -> str:
        """Why an action is not valid."""
        if action == self._rows:
            return f"action {action} (wait) is forbidden: no job runs, and one that waits fits"
        job = int(self._arrays["job"][action])
        if job < 0:
            return f"action {action} (start row {action}) is forbidden: the row has no job"
        name = self._world.table.name(job)
        return (
            f"action {action} (start job {name} of row {action}) is forbidden: placement rule "
            f"{self._settings.placement} finds no room for its {self._world.arrays.gang[job].sum()} tasks"
        )

    def decision(self) -> Decision:
        """The decision: jobs that were chosen start, those that can never fit are rejected."""
        changes = self._arrays["changes"]
        order_changes(self._changes)
        return Decision(
            changes=changes if changes.size[0] else None,
            reject=self._arrays["refused"][: self._arrays["tally"][1]].copy(),
            reject_reason="never_fits",
        )

    def close(self) -> None:
        """The run is over: nothing is shown and no action is valid."""
        super().close()
        self._arrays["job"][:] = -1

    def new_job(self, row: int) -> int | None:
        """Job of a row, None for a padded one."""
        job = int(self._arrays["job"][row]) if 0 <= row < self._rows else -1
        return job if job >= 0 else None
