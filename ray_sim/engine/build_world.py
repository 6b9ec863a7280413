"""Build the world of a run from a workload, a cluster and the values of world parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ray_sim.engine.injectors import injectors_of
from ray_sim.engine.kinds.base import SERVER_FACTS, JobKind
from ray_sim.engine.kinds.facts import WorldSetting
from ray_sim.engine.kinds.registry import JOB_KINDS
from ray_sim.engine.limits import check_jobs, check_servers
from ray_sim.engine.world import World
from ray_sim.engine.world_arrays import Partition
from ray_sim.engine.world_parameters import PREEMPTION, check_heeded, kind_of, world_parameters
from ray_sim.kernels.core.arrays import Outages
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import JobTable
from ray_sim.model.parameters import Value, microseconds, resolve
from ray_sim.model.units import NEVER_US, BoolArray, scaled_down
from ray_sim.model.utility import check_utility


def build_world(
    table: JobTable,
    cluster: Cluster,
    *,
    partition: Partition = "none",
    params: Mapping[str, object] | None = None,
    kinds: Sequence[JobKind] = JOB_KINDS,
) -> World:
    """Build a world whose kind of job the parameter ``truth`` names.

    Parameters
    ----------
    table : demands in the cluster's resources, in the same order
    cluster : with ``partition="vc"`` every server must bear a vc label
    partition : ``vc`` confines each job to the servers labelled with its vc
    params : values for `world_parameters`, as text or typed
    kinds : the kinds to choose from

    Raises
    ------
    InvalidScenarioError, UnknownNameError : a parameter or the partition is not possible
    InvalidInputError : numbers of jobs that cannot be
    """
    check_jobs(table)
    check_servers(cluster)
    if table.utility is not None:
        check_utility(table.utility)
    values = resolve("the world", world_parameters(kinds), params or {})
    check_heeded(values, kinds)
    kind = kind_of(values, kinds)
    _check_server_facts(cluster, kind, kinds)
    table = _typed(table, kind, values["gpu_types"])
    cluster = _overcommitted(cluster, values["overcommit"])
    slot_us = microseconds(values["slot_s"])
    facts = kind.facts(WorldSetting(table, cluster, partition, values, slot_us))
    outages, there = _outages(cluster, table.origin_us, facts.grid_us)
    jobs = facts.jobs(table)
    return World(
        table=jobs,
        cluster=cluster,
        partition=partition,
        kind=kind,
        facts=facts,
        outages=outages,
        there=there,
        checkpoint_us=microseconds(values["checkpoint_s"]) or 0,
        restart_us=microseconds(values["restart_cost_s"]) or 0,
        horizon_us=microseconds(values["horizon_s"]) or NEVER_US - 1,
        slot_us=slot_us,
        fragmentation_target=values.get("fragmentation_target", "trace"),
        params=dict(params or {}),
        preemption=PREEMPTION[str(values["preemption"])],
        injectors=injectors_of(values, jobs, kind, facts.arrival_us(jobs)),
        retries=_retries(values, kind),
        endings=None if values["endings"] == "ignore" else jobs.endings,
    )


def _retries(values: Mapping[str, Value], kind: JobKind) -> int:
    """Times that a job which failed at random is tried again."""
    if "stop" not in kind.faults:
        return 0
    return NEVER_US if values["attempts"] == "replay" else int(str(values["retries"]))


def _check_server_facts(cluster: Cluster, kind: JobKind, kinds: Sequence[JobKind]) -> None:
    """Refuse facts of servers that have no effect on jobs of this kind."""
    for name in SERVER_FACTS:
        if getattr(cluster, name) is not None and name not in kind.heeds:
            truths = " or ".join(each.truth for each in kinds if name in each.heeds)
            raise InvalidScenarioError(
                f"{name}: has no effect on {kind.jobs} jobs; set truth={truths}, or leave it out"
            )


def _typed(table: JobTable, kind: JobKind, gpu_types: Value) -> JobTable:
    """The jobs, without GPU types where these are ignored; types that the kind cannot respect are refused."""
    if table.gpu_types is None or gpu_types == "ignore":
        return replace(table, gpu_types=None)
    if kind.untyped:
        raise InvalidScenarioError(
            f"gpu_types: {table.gpu_types.count():,} jobs accept certain GPU types only, but {kind.untyped}; "
            "set gpu_types=ignore"
        )
    return table


def _overcommitted(cluster: Cluster, factor: Value) -> Cluster:
    """The cluster with its capacities times a factor, rounded down."""
    assert isinstance(factor, float)
    if factor == 1:
        return cluster
    promised = replace(cluster, capacity=scaled_down(cluster.capacity, factor))
    check_servers(promised)
    return promised


def _outages(cluster: Cluster, origin_us: int, grid_us: int) -> tuple[Outages, BoolArray]:
    """Changes from the first submission on, at the next instant on the grid, and who is there then."""
    availability = cluster.availability
    there = np.ones(len(cluster), dtype=np.bool_)
    if availability is None:
        nothing = np.empty(0, dtype=np.int64)
        return Outages(nothing, nothing, np.empty(0, dtype=np.bool_)), there
    there = availability.at_first(len(cluster))
    past = int(np.searchsorted(availability.time_us, origin_us))
    for server, up in zip(availability.server[:past], availability.up[:past], strict=True):
        there[server] = up
    return Outages(
        time=-(-(availability.time_us[past:] - origin_us) // grid_us) * grid_us,
        server=availability.server[past:].copy(),
        up=availability.up[past:].copy(),
    ), there
