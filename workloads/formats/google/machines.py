"""Convert the machine events of a Google trace to a cluster with changing availability."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import polars as pl

from ray_sim.model.availability import Availability
from ray_sim.model.cluster import Cluster, ServerKind
from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import capacity_quanta
from workloads.formats.google.events import ADD, REMOVE

RESOURCES = {"cpu": "cpu_norm", "memory": "memory_norm"}
"""Our resource for each capacity of the table; a machine's disk is not in it."""


@dataclass(frozen=True, slots=True)
class TraceMachines:
    """The machines of a trace."""

    cluster: Cluster
    facts: dict[str, int]
    warnings: tuple[str, ...]


def machines_of(name: str, events: pl.DataFrame, used: Collection[int]) -> TraceMachines:
    """The cluster that machine events describe, in the order of their first events.

    A machine has its largest capacity throughout. It is available from an ADD to a REMOVE; events at time 0
    describe the state before the trace began.

    Parameters
    ----------
    events : time, machine, event, cpu, memory, place
    used : machines that ran tasks

    Raises
    ------
    InvalidWorkloadError : no machine has a capacity
    """
    ordered = events.sort("machine", "time", "place")
    known = pl.struct("cpu", "memory").filter(pl.col("cpu").is_not_null())
    machines = (
        ordered.group_by("machine", maintain_order=True)
        .agg(pl.col("cpu", "memory").max(), pl.col("place").min(), capacities=known.n_unique())
        .sort("place")
    )
    sized = machines.drop_nulls(["cpu", "memory"])
    if sized.is_empty():
        raise InvalidWorkloadError("machine_events: no machine has a capacity; check the files")
    changes, illegal = _changes(ordered.filter(pl.col("machine").is_in(sized["machine"].implode())))
    unlisted = len(set(used) - set(sized["machine"].to_list()))
    facts = {
        "machines": machines.height,
        "machines_whose_capacity_changed": int((machines["capacities"] > 1).sum()),
        "machines_without_capacity": machines.height - sized.height,
        "machine_events_without_capacity": events["cpu"].null_count(),
        "machine_events_that_change_nothing": illegal,
        "machines_that_ran_tasks": len(used),
        "machines_that_ran_tasks_and_have_no_capacity": unlisted,
    }
    warning = f"{unlisted} machines ran tasks and have no capacity in machine_events; they are left out"
    return TraceMachines(_cluster(name, sized, changes), facts, (warning,) if unlisted else ())


def _changes(ordered: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Changes of availability after time 0, by machine, and the number of events that change nothing."""
    changes = ordered.filter(pl.col("event").is_in([ADD, REMOVE])).with_columns(up=pl.col("event") == ADD)
    same = pl.col("machine") == pl.col("machine").shift(1)
    real = changes.filter((~same | (pl.col("up") != pl.col("up").shift(1))).fill_null(value=True))
    at_first = (pl.col("time") == 0) & pl.col("up")
    return real.filter(~at_first), changes.height - real.height


def _cluster(name: str, machines: pl.DataFrame, changes: pl.DataFrame) -> Cluster:
    names = tuple(machines["machine"].cast(pl.String))
    index = machines.select("machine", server=pl.int_range(pl.len(), dtype=pl.Int64))
    rows = changes.sort("time", "place").join(index, on="machine", maintain_order="left")
    nothing = np.zeros(len(names), dtype=np.int64)
    capacities = [
        capacity_quanta(machines[column].to_numpy(), resource) for column, resource in RESOURCES.items()
    ]
    return Cluster(
        name=name,
        server_names=names,
        resources=("gpu", *RESOURCES.values()),
        capacity=np.column_stack([nothing, *capacities]),
        speed=np.ones(len(names)),
        vc=(None,) * len(names),
        kind=(ServerKind.PLAIN,) * len(names),
        gpu_type=(None,) * len(names),
        availability=Availability(
            time_us=rows["time"].to_numpy(writable=True),
            server=rows["server"].to_numpy(writable=True),
            up=rows["up"].to_numpy(writable=True),
        ),
    )
