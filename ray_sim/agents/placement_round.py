"""One decision in `ray_sim/Placement-v1`, action by action; the environment and agents share it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_sim.agents.arguments import MOST_ROWS, names_in, switch, whole_number
from ray_sim.agents.features import (
    DURATION,
    FREE,
    MODEL,
    MOST_TASKS,
    Feature,
    chosen,
    most_time,
    most_units,
    units,
)
from ray_sim.agents.placement_kernels import (
    COMPLETE,
    LATER,
    NEW,
    SHOWN,
    TAKEN_BACK,
    Board,
    begin_placing,
    close_batch,
    place_task,
    show_batch,
)
from ray_sim.agents.round import Round, ShownArrays, chosen_action
from ray_sim.engine.decision import Decision
from ray_sim.engine.order import never_fits
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import WORKER, new_changes
from ray_sim.kernels.core.queue_dispatch import order_changes
from ray_sim.kernels.handle import handle
from ray_sim.model.errors import ForbiddenActionError, InvalidInputError
from ray_sim.model.text import names_text
from ray_sim.model.units import NEVER_US, IntArray

STATE = ("type", "demands", "workers", "ps", "free", "placement", "hidden")
"""Entries of an observation unless others are asked for: x, r, w, p, v, d, and how many jobs are hidden."""

ENTRIES = dict.fromkeys(STATE, FREE) | {"type": MODEL, "waited_s": FREE, "duration_s": DURATION}
"""All entries of an observation, by name."""

_FIELDS = {"type": "kind", "free": "free_shown"}
"""Fields of `Board` that have another name than their entry."""

_ROLES = ("worker", "parameter server")


class PlacementSettings(NamedTuple):
    """Form of observations and actions."""

    most_jobs: int = 12
    """N, rows of jobs in an observation: new jobs first, then jobs that hold servers, in order of job."""
    most_new: int | None = None
    """N', new jobs among them, which actions place; N where None."""
    observe: tuple[str, ...] | None = None
    """Names out of `ENTRIES`; None for those of `STATE` that the world has."""
    scaled: bool = False
    """Show shares of the largest server and log10(1 + s), instead of units and seconds."""
    models: tuple[str, ...] | None = None
    """Columns of ``type``; None for the models of the workload, in its order."""
    blank_types: bool = False
    """Show jobs of models without a column with no type, instead of refusing the workload."""


class PlacementRound(Round):
    """Places the new jobs of a decision task by task, batch by batch."""

    _new_board = Board

    def __init__(self, world: PolicyContext, settings: PlacementSettings) -> None:
        rows = whole_number("most_jobs", settings.most_jobs, 1, MOST_ROWS)
        new = rows if settings.most_new is None else whole_number("most_new", settings.most_new, 1, rows)
        scaled = switch("scaled", settings.scaled)
        super().__init__(world)
        self._settings = settings
        self.names = chosen(settings.observe, STATE, ENTRIES, world)
        self._verdict = never_fits(self._world, "pooled")[self._world.arrays.job_class]
        models, type_of = self._types()
        self._rows, self._new, self._servers = rows, new, len(world.cluster)
        resources = len(world.cluster.resources)
        self.features = self._features(resources, len(models))
        self.actions = new * 2 * self._servers
        """Number of actions; ((row x 2 + role) x S + server), role 0 for a worker."""
        self._arrays: dict[str, Any] = {
            "arrays": self._world.arrays,
            "type_of": type_of,
            "unit": units(world, scaled),
            "free": np.zeros((self._servers, resources), dtype=np.int64),
            "job": np.full(rows, -1, dtype=np.int64),
            "tally": np.zeros(6, dtype=np.int64),
            "tasks": np.zeros((new, 2, self._servers), dtype=np.int64),
            "left": np.zeros((new, 2), dtype=np.int64),
            "mask": np.zeros(self.actions, dtype=np.int8),
            "kind": np.zeros((rows, len(models)), dtype=np.float32),
            "demands": np.zeros((rows, 2 * (1 + resources)), dtype=np.float32),
            "workers": np.zeros(rows, dtype=np.float32),
            "ps": np.zeros(rows, dtype=np.float32),
            "free_shown": np.zeros((self._servers, resources), dtype=np.float32),
            "placement": np.zeros((self._servers, 2 * rows), dtype=np.float32),
            "hidden": np.zeros(2, dtype=np.float32),
            "changes": new_changes(len(self._world.table), self._world.row_bound, 0),
        }
        self._changes = handle(self._arrays["changes"])
        self._shown = ShownArrays(self.names, self._arrays, _FIELDS, scaled)
        self._again = False

    def _types(self) -> tuple[tuple[str, ...], IntArray]:
        """The columns of ``type``, and the column of each job, -1 for none."""
        jobs = self._context.jobs
        if "type" not in self.names:
            return (), np.full(len(jobs.submit_us), -1, dtype=np.int64)
        names: tuple[str, ...] = tuple(jobs.model_names)
        models = names if self._settings.models is None else names_in("models", self._settings.models)
        if len(set(models)) < len(models):
            raise InvalidInputError(f"models: each may be there once, got {', '.join(models)}")
        unknown = sorted(set(names) - set(models))
        if unknown and not self._settings.blank_types:
            raise InvalidInputError(
                f"models: lacks {names_text(unknown)}, of which there are jobs; it has {names_text(models)}"
            )
        column_of = {name: column for column, name in enumerate(models)}
        columns = np.array([*(column_of.get(name, -1) for name in names), -1], dtype=np.int64)
        return models, columns[jobs.model]

    def _features(self, resources: int, models: int) -> dict[str, Feature]:
        rows, scaled = self._rows, self._settings.scaled
        every = {
            "type": Feature((rows, models), 1.0),
            "demands": Feature((rows, 2 * (1 + resources)), most_units(scaled)),
            "workers": Feature((rows,), MOST_TASKS),
            "ps": Feature((rows,), MOST_TASKS),
            "free": Feature((self._servers, resources), most_units(scaled)),
            "placement": Feature((self._servers, 2 * rows), MOST_TASKS),
            "hidden": Feature((2,), MOST_TASKS),
            "waited_s": Feature((rows,), most_time(scaled)),
            "duration_s": Feature((rows,), most_time(scaled)),
        }
        return {name: every[name] for name in self.names}

    def open(self, view: View) -> None:
        """Begin the decision of a view."""
        self._look_at(view)
        waiting = view.waiting
        verdict = self._verdict[waiting]
        self._refused = waiting[verdict != 0] if verdict.any() else waiting[:0]
        self._waiting = waiting[verdict == 0] if len(self._refused) else waiting
        self._running = view.running
        self._again = False
        begin_placing(self._board)
        self.pending = bool(show_batch(self._board, self._waiting, self._running))

    def _jobs_shown(self) -> int:
        return int(self._arrays["tally"][SHOWN])

    def take(self, action: object) -> None:
        """Place one task.

        Raises
        ------
        ForbiddenActionError : the action is not valid now
        """
        number = chosen_action("Placement", action, self.actions)
        row, rest = divmod(number, 2 * self._servers)
        role, server = divmod(rest, self._servers)
        if not self.pending or not self.mask[number]:
            raise ForbiddenActionError(
                f"action {number} ({_ROLES[role]} of row {row} on server "
                f"{self._context.cluster.server_names[server]}) is forbidden: {self._why(row, role, server)}"
            )
        self.pending = bool(place_task(self._board, row, role, server))
        if not self.pending:
            self._close_batch()

    def _close_batch(self) -> None:
        """Go on to the next batch if this one is placed, else let its other jobs wait."""
        close_batch(self._board)
        count = self._arrays["tally"]
        complete, taken_back, later = (int(count[i]) for i in (COMPLETE, TAKEN_BACK, LATER))
        if complete == count[NEW]:
            self.pending = bool(show_batch(self._board, self._waiting, self._running))
            return
        idle = not len(self._running) and not self._arrays["changes"].size[0]
        self._again = bool((complete and (taken_back or later)) or (taken_back and idle))

    def _why(self, row: int, role: int, server: int) -> str:
        """Why an action is not valid."""
        if row >= self._arrays["tally"][NEW]:
            return f"row {row} has no new job"
        job = int(self._arrays["job"][row])
        name, arrays = self._world.table.name(job), self._world.arrays
        if role >= arrays.gang.shape[1] or arrays.gang[job, role] == 0:
            return f"job {name} asks for no {_ROLES[role]}"
        if self._arrays["left"][row, role] == 0:
            return f"job {name} has all its {arrays.gang[job, role]} tasks of this role"
        if arrays.server_part[server] != arrays.job_part[job]:
            return f"job {name} belongs to another partition"
        if not self._context.may_use(np.array([job]))[0, role, server]:
            return f"job {name} accepts other GPU types"
        if not self._view.available[server]:
            return "it is not available now"
        needs, free = arrays.demand[job, role], self._arrays["free"][server]
        r = int(np.flatnonzero(free < needs)[0])
        resource, unit = self._context.cluster.resources[r], units(self._context, False)[r]
        return (
            f"job {name} demands {needs[r] * unit:g} {resource} for it, and the server has "
            f"{free[r] * unit:g} free"
        )

    def decision(self) -> Decision:
        """The decision, once no action is valid. Jobs that are not complete wait.

        The next slot is asked for where jobs might then be placed though nothing else happens: the batch was
        placed in part, or no job runs.
        """
        changes = self._arrays["changes"]
        order_changes(self._changes)
        review_us = NEVER_US
        if self._again:
            slot_us = self._context.slot_us or 1
            review_us = (self._view.now_us // slot_us + 1) * slot_us
        return Decision(
            changes=changes if changes.size[0] else None,
            reject=self._refused,
            reject_reason="never_fits",
            review_us=review_us,
        )

    def close(self) -> None:
        """The run is over: nothing is shown and no action is valid."""
        super().close()
        self._arrays["tally"][:] = 0

    def new_job(self, row: int) -> int | None:
        """Job that a row shows as new, None for another row."""
        return int(self._arrays["job"][row]) if 0 <= row < self._arrays["tally"][NEW] else None


assert WORKER == 0, "actions number the roles so"
