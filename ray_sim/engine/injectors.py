"""Causes of faults: attempts of the trace, random failures, time limits, ends that the trace tells.

`injectors_of` makes those of a world from its parameters; `build_world` calls it. `ray_sim.engine.faults` has
their runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.job import AttemptLog, JobTable
from ray_sim.model.parameters import Value
from ray_sim.model.units import US_PER_S, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.kinds.facts import KindLabel
    from ray_sim.engine.world import World

FAULT_PARAMETERS = ("attempts", "endings", "failure_gpu_h", "limits")
"""World parameters that bring injectors."""


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """Kills each job at a limit."""

    name: str
    limit_us: IntArray
    """(J,) `NEVER_US` for none."""
    reason: str
    since_us: IntArray | None = None
    """(J,) instants from which the limit counts; None where it is of the time with servers in an attempt."""


@dataclass(frozen=True, slots=True, eq=False)
class TraceAttempts:
    """A job fails where an attempt of the trace ended, and goes on with the next one in its old place."""

    log: AttemptLog
    name: str = "attempts"


@dataclass(frozen=True, slots=True)
class RandomFailures:
    """A running job fails at random, with a Weibull hazard of its progress in the attempt, times its GPUs.

    An attempt survives progress t with g GPUs with probability exp(-g (t / L)^k), where L is the mean
    GPU-hours to a failure over Gamma(1 + 1 / k).
    """

    gpu_h: float
    shape: float
    name: str = "failures"


Injector = Ends | TraceAttempts | RandomFailures
"""A cause of faults in a world."""


def injectors_of(
    values: Mapping[str, Value], table: JobTable, kind: KindLabel, arrival_us: IntArray
) -> tuple[Injector, ...]:
    """The injectors of a world, in the order in which they act at an instant.

    Parameters
    ----------
    arrival_us : (J,) instants from which `JobTable.killed_us` counts

    Raises
    ------
    InvalidScenarioError : all that the workload lacks for them
    """
    wanted = [name for name in FAULT_PARAMETERS if values[name] not in (None, False, "merge", "ignore")]
    if wanted and not kind.faults:
        raise InvalidScenarioError(f"{', '.join(wanted)}: {kind.jobs} jobs cannot be stopped; leave it out")
    problems: list[str] = []
    found: list[Injector] = []
    if values["endings"] == "wall":
        if table.killed_us is None:
            problems.append("endings=wall: no job was killed and has both wait_s and span_s")
        else:
            found.append(Ends("endings", table.killed_us, "killed", arrival_us))
    if values["limits"]:
        if table.time_limit_us is None:
            problems.append("limits=true: no job has a time_limit_s")
        else:
            found.append(Ends("limits", table.time_limit_us, "limit"))
    if values["attempts"] == "replay":
        if table.attempt_log is None:
            problems.append("attempts=replay: no job has an attempt_log")
        else:
            problems += _log_problems(table, table.attempt_log)
            found.append(TraceAttempts(table.attempt_log))
    if problems:
        raise InvalidScenarioError("\n  ".join(["the workload lacks what faults need:", *problems]))
    gpu_h, shape = values["failure_gpu_h"], values["failure_shape"]
    if isinstance(gpu_h, float) and isinstance(shape, float):
        found.append(RandomFailures(gpu_h, shape))
    return tuple(found)


def _log_problems(table: JobTable, log: AttemptLog) -> Iterator[str]:
    """Attempts without a length, and logs that do not sum to the run time within a microsecond an attempt."""
    counts = np.diff(log.ptr)
    of = np.repeat(np.arange(len(counts)), counts)
    sums = np.bincount(of, log.length_us, minlength=len(counts)).astype(np.int64)
    empty = np.bincount(of[log.length_us == 0], minlength=len(counts)) > 0
    for wrong, text in (
        (empty, "has an attempt of length 0"),
        ((counts > 0) & (np.abs(sums - table.work_us) > counts), "does not sum to duration_s"),
    ):
        if wrong.any():
            first = int(wrong.argmax())
            found = f"{sums[first] / US_PER_S:g} of {table.work_us[first] / US_PER_S:g} s"
            yield f"attempt_log of job {table.name(first)} {text}: {found} ({wrong.sum():,} such jobs)"


def fault_warnings(world: World, last_us: int) -> Iterator[str]:
    """Warnings of a run until ``last_us``: failures cost no progress, servers come and go at other times."""
    draws = any(isinstance(each, RandomFailures) for each in world.injectors)
    heeded = "checkpoint_s" not in world.kind.unheeded
    if draws and world.retries and world.checkpoint_us == 0 and heeded:
        yield "checkpoint_s is 0, so that random failures cost no progress; give the time between checkpoints"
    if world.cluster.availability is not None and not (world.outages.time <= last_us).any():
        yield (
            "no server comes or goes in this run; times of an availability file are in the workload's own "
            f"seconds, here from {world.table.origin_us / US_PER_S:.15g} s on"
        )
