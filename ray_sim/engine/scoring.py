"""Constants of a world for placement rules that score servers, and the timeline's columns about packing.

The loops call `scoring_of` before a run, `ray_sim.engine.result` calls `packing_columns` after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import Recorder, devices
from ray_sim.kernels.core.devices import DEVICE
from ray_sim.kernels.core.fragmentation import TypicalTask, new_target, typical_tasks
from ray_sim.kernels.core.fragments_over_time import Replica, fragments_over_time
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.kernels.core.queue_arrays import NO_ARRIVALS, Arrivals, Scoring, Target, new_scores
from ray_sim.kernels.core.server_scores import SCORED_RULES
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray

_COLUMNS = ("cpu", "gpu")
_DEMAND = ["cpu", "gpu", "gpus", "types"]


def scoring_of(world: World, placement: str) -> Scoring | None:
    """Constants of the scores; None for a placement rule that scores no servers.

    Raises
    ------
    InvalidScenarioError : the rule places tasks on devices, and the GPUs of this world are not devices
    """
    if placement not in SCORED_RULES:
        return None
    cluster, resources = world.cluster, world.cluster.resources
    column = np.array([resources.index(name) if name in resources else -1 for name in _COLUMNS])
    capacity = world.arrays.capacity
    offered = [capacity[:, at] if at >= 0 else np.zeros(len(cluster), np.int64) for at in column]
    _check_devices(world, placement, offered[1], int(column[1]))
    kinds = sorted({kind or "" for kind in cluster.gpu_type})
    target, arrivals = _target(world, [kind or None for kind in kinds])
    return Scoring(
        column=column,
        most=np.array([max(1, int(amount.max(initial=0))) for amount in offered]),
        gpus=offered[1] // DEVICE,
        kind=np.array([kinds.index(kind or "") for kind in cluster.gpu_type]),
        target=target,
        arrivals=arrivals,
    )


def _target(world: World, server_types: Sequence[str | None]) -> tuple[Target, Arrivals]:
    """The target, before any job has come where it follows arrivals."""
    given = world.cluster.fragmentation_target
    if given is not None or world.fragmentation_target == "trace":
        return new_target(given or typical_of(world.table), server_types), NO_ARRIVALS
    demands = _demands(world.table)
    groups = demands.select(_DEMAND).unique().sort(_DEMAND, descending=True).with_row_index("group")
    group = demands.join(groups, on=_DEMAND, how="left", maintain_order="left")["group"]
    shared = groups.with_columns(share=0.0).drop("group")
    target = new_target([TypicalTask(*row) for row in shared.iter_rows()], server_types)
    target.size[0] = 0
    return target, Arrivals(
        group=group.to_numpy().astype(np.int64),
        tasks=world.table.tasks.astype(np.int64),
        counts=np.zeros(groups.height, np.int64),
        come=np.zeros(1, np.int64),
    )


def _check_devices(world: World, placement: str, offered: IntArray, gpu: int) -> None:
    """Refuse GPUs that are not devices: a part of one is offered, or asked for where servers pool theirs."""
    if gpu < 0 or devices(world.arrays) > 0:
        return
    parts = (world.arrays.demand[:, :, gpu] % DEVICE > 0).any(axis=1)
    if parts.any() or (offered % DEVICE > 0).any():
        who = f"job {world.table.name(int(np.argmax(parts)))} asks" if parts.any() else "a server offers"
        raise InvalidScenarioError(
            f"placement={placement} places tasks on GPUs as devices, and {who} a part of a GPU that is on no "
            "device; leave gpu_shares=pooled and overcommit out, or take another placement rule"
        )


def typical_of(table: JobTable) -> Sequence[TypicalTask]:
    """Typical tasks of the list that the jobs come from, see `typical_tasks`; each task counts."""
    demands = _demands(table if table.listed is None else table.listed)
    counts = demands.group_by(_DEMAND).agg(pl.col("tasks").sum())
    return typical_tasks({row[:4]: row[4] for row in counts.iter_rows()})


def _demands(table: JobTable) -> pl.DataFrame:
    """(J,) tasks of each job, and the demand of one, see `TypicalTask`."""
    quanta = [
        table.demand[:, table.resources.index(name)] if name in table.resources else np.zeros(len(table))
        for name in _COLUMNS
    ]
    return pl.DataFrame(
        {
            "cpu": quanta[0].astype(np.int64),
            "gpu": np.minimum(quanta[1], DEVICE).astype(np.int64),
            "gpus": -(-quanta[1] // DEVICE).astype(np.int64),
            "types": pl.Series([""] * len(table))
            if table.gpu_types is None
            else table.gpu_types.fill_null(""),
            "tasks": table.tasks,
        }
    )


def packing_columns(world: World, placement: int, record: Recorder) -> Mapping[str, FloatArray]:
    """(lines,) GPUs of the jobs that have come, and GPUs that are fragments; nothing without a target."""
    scoring = scoring_of(world, QUEUE_RULES[placement])
    if scoring is None or len(scoring.target.cpu) == 0 or scoring.column[1] < 0:
        return {}
    arrays, n_servers = world.arrays, len(world.cluster)
    lines = int(record.size[1])
    found = np.zeros(lines)
    replica = Replica(
        free=arrays.empty.copy(),
        there=world.there.copy(),
        head=np.full(len(world.table), -1),
        before=np.empty(len(record.time), np.int64),
        each=np.zeros(n_servers),
        changed=np.ones(n_servers, np.bool_),
    )
    fragments_over_time(arrays, new_scores(arrays, scoring), record, replica, found)
    asked = (arrays.gang * arrays.demand[:, :, scoring.column[1]]).sum(axis=1)
    come = np.searchsorted(arrays.submit, record.line_time[:lines], side="right")
    arrived: FloatArray = np.append(0, np.cumsum(asked))[come] / DEVICE
    return {"arrived_gpu": arrived, "frag_gpu": found / DEVICE}


def placement_state(streams: Streams | None) -> np.uint64:
    """State of the random numbers of placement; without streams that of seed 0."""
    state: np.uint64 = (streams or Streams(0)).states("placement", np.zeros(1, dtype=np.int64))[0]
    return state
