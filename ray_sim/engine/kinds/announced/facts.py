"""World facts of announced jobs."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from ray_sim.engine.kinds.announced.bounds import (
    StatementBounds,
    bounds_of,
    check_bounds,
    check_durations,
    clipped,
)
from ray_sim.engine.kinds.announced.misreports import misreported
from ray_sim.engine.kinds.announced.rounds import RoundedJobs, rounded_jobs
from ray_sim.engine.kinds.facts import KindColumns, WorldSetting
from ray_sim.engine.kinds.rigid.facts import RigidFacts
from ray_sim.engine.limits import check_clock
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError, InvalidWorkloadError, problems_text
from ray_sim.model.job import JobTable, StatementProfile
from ray_sim.model.parameters import microseconds
from ray_sim.model.units import QUANTA_PER_UNIT, US_PER_S, BoolArray, IntArray

GPU = "gpu"

Record = TypeVar("Record", JobTable, StatementProfile)


@dataclass(frozen=True, slots=True)
class AnnouncedFacts(RigidFacts):
    """Facts of announced jobs. Jobs are in order of birth, which is their submission."""

    table: JobTable
    """Jobs as they are submitted: the GPUs that they report."""
    statements: RoundedJobs
    bounds: StatementBounds
    signal: str
    """Signal of the duration at the arrival: none, partial or full."""
    slot_us: int
    nodes: int
    """C, GPUs of all servers."""
    misreports: BoolArray
    """(J,) whether a world parameter makes the user misreport."""
    clipped: int
    """Reports that were cut to the bounds."""

    @classmethod
    def of(cls, setting: WorldSetting) -> AnnouncedFacts:
        """Make the facts of a workload on a cluster.

        Raises
        ------
        InvalidScenarioError : servers that are no pool of equal GPUs, or no slots
        InvalidWorkloadError : jobs without statements, or statements beyond the bounds
        """
        slot_us, cluster = setting.slot_us, setting.cluster
        _check_setting(setting)
        assert slot_us is not None
        table, profile = by_birth(setting.table)
        check_clock(table, cluster.speed)
        signal = str(setting.values["signal"])
        jobs = rounded_jobs(table, profile, slot_us, signal, _whole_gpus(table))
        bounds, cut = bounds_of(jobs.reported, setting.values, slot_us), 0
        if setting.values["clip_statements"]:
            jobs, cut = clipped(jobs, bounds, signal)
        check_bounds(jobs.reported, bounds, table.job_id)
        check_durations(jobs.duration, bounds, table.job_id)
        reported, lying = misreported(jobs.reported, table, bounds, setting.values)
        jobs = replace(jobs, reported=reported)
        table = _as_reported(table, jobs)
        gangs = RigidFacts.of(replace(setting, table=table))
        return cls(
            **{each.name: getattr(gangs, each.name) for each in fields(RigidFacts)},
            table=table,
            statements=jobs,
            bounds=bounds,
            signal=signal,
            slot_us=slot_us,
            nodes=int(cluster.capacity[:, cluster.resources.index(GPU)].sum()) // QUANTA_PER_UNIT[GPU],
            misreports=lying,
            clipped=cut,
        )

    @classmethod
    def in_world(cls, world: World) -> AnnouncedFacts:
        """The facts of a world of announced jobs."""
        facts = world.facts
        assert isinstance(facts, cls)
        return facts

    @property
    def compiled(self) -> bool:
        """The general loop only."""
        return False

    @property
    def grid_us(self) -> int:
        """Limits are of whole rounds."""
        return self.slot_us

    @property
    def events_per_instant(self) -> int:
        """A job comes once."""
        return len(self.table)

    @property
    def event_names(self) -> tuple[str, ...]:
        """A job comes, after it has been submitted."""
        return ("come",)

    def work(self, table: JobTable) -> IntArray:
        """(J,) microseconds of whole rounds."""
        return self.statements.duration * self.slot_us

    def jobs(self, table: JobTable) -> JobTable:
        """In order of birth, as gangs of the GPUs that they report."""
        return self.table

    def arrival_us(self, table: JobTable) -> IntArray:
        """(J,) when jobs come."""
        return self.statements.arrival * self.slot_us

    def columns(self) -> KindColumns:
        """The gang; the duration is not known before the end."""
        hidden = "which nobody knows before the job ends"
        always = RigidFacts.columns(self).always
        declared = {"duration_s": {}, "num_gpus": {"num_gpus": self.statements.reported.concurrency * 1.0}}
        return KindColumns(always, declared, {"work_us": hidden})


def _check_setting(setting: WorldSetting) -> None:
    cluster, problems = setting.cluster, []
    horizon_us = microseconds(setting.values["horizon_s"])
    if setting.slot_us is None:
        problems.append("slot_s: announced jobs run in rounds: give their length, e.g. -w slot_s=60")
    elif horizon_us is not None and horizon_us < setting.slot_us:
        problems.append(
            f"horizon_s: {horizon_us / US_PER_S:g} s hold no round of {setting.slot_us / US_PER_S:g} s "
            "(slot_s), so no job can run: choose a longer horizon or shorter rounds"
        )
    if setting.partition != "none":
        problems.append("partition: announced jobs share one pool of GPUs: leave partition=vc out")
    if (cluster.speed != 1).any():
        first = cluster.server_names[int((cluster.speed != 1).argmax())]
        problems.append(f"speed: all nodes are alike, but server {first} has another speed than 1")
    if cluster.availability is not None:
        problems.append("availability: nodes of announced jobs do not fail: leave it out of the cluster")
    if GPU not in cluster.resources:
        problems.append("gpu: a node of announced jobs is a GPU, and the cluster offers none")
    elif (cluster.capacity[:, cluster.resources.index(GPU)] % QUANTA_PER_UNIT[GPU]).any():
        problems.append("gpu: every server must have whole GPUs")
    if problems:
        raise InvalidScenarioError(problems_text("truth=announced", problems))


def by_birth(table: JobTable) -> tuple[JobTable, StatementProfile]:
    """The jobs in order of birth, the first at time 0, without profiles of training.

    Ties are in order of the trace. Rows are in order of arrival, which is not known at the birth: an order
    by rows would tell it, and failure estimates of equal births would be wrong.

    Raises
    ------
    InvalidWorkloadError : the workload has no statements
    """
    if table.statements is None:
        gaps = table.gaps.get("statements", ("it has no statements of work",))
        text = problems_text("truth=announced: the workload lacks statements of work", gaps)
        raise InvalidWorkloadError(f"{text}\n  draw them by `ray-sim enrich --profile announced`")
    in_trace = table.trace_order if len(table.trace_order) else np.arange(len(table))
    order = np.lexsort((table.vc, in_trace, table.statements.birth_us))
    shift_us = int(table.statements.birth_us.min(initial=0)) if len(order) else 0
    moved = _taken(table, order)
    statements = _taken(table.statements, order)
    birth_us, arrival_us = statements.birth_us - shift_us, statements.arrival_us - shift_us
    statements = replace(statements, birth_us=birth_us, arrival_us=arrival_us)
    return replace(
        moved,
        submit_us=birth_us,
        origin_us=table.origin_us + shift_us,
        statements=statements,
        chunk_profile=None,
        training=None,
        pairs=None,
        loss=None,
        blocks=None,
        utility=None,
        gaps={},
    ), statements


def _taken(record: Record, order: IntArray) -> Record:
    """The record with the columns of its jobs in another order."""
    if (order == np.arange(len(order))).all():
        return record
    changes: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, np.ndarray) and len(value) == len(order):
            changes[field.name] = value[order]
        elif hasattr(value, "gather"):  # a polars Series
            changes[field.name] = value.gather(order.astype(np.uint32))
    return replace(record, **changes)


def _whole_gpus(table: JobTable) -> IntArray:
    """(J,) GPUs that each job truly needs."""
    assert table.statements is not None
    for name, gpus in (("num_gpus", table.num_gpus), ("reported_gpus", table.statements.reported_gpus)):
        broken = np.flatnonzero((gpus != np.floor(gpus)) | (gpus < 1))
        if len(broken):
            job = int(broken[0])
            raise InvalidWorkloadError(
                f"{name}: an announced job holds whole GPUs, at least 1, but job {table.name(job)} has "
                f"{gpus[job]:g}: round or drop such jobs"
            )
    return table.num_gpus.astype(np.int64)


def _as_reported(table: JobTable, jobs: RoundedJobs) -> JobTable:
    """Gangs of one GPU a task, as many as are reported, submitted at their births."""
    assert table.statements is not None
    demand = np.zeros((len(table), len(table.resources)), dtype=np.int64)
    demand[:, table.resources.index(GPU)] = QUANTA_PER_UNIT[GPU]
    tasks = jobs.reported.concurrency
    return replace(table, tasks=tasks, demand=demand)
