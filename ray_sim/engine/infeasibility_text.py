"""The text of an infeasible decision."""

from __future__ import annotations

from typing import NoReturn

from ray_sim.engine.world import World
from ray_sim.kernels.core import feasibility
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.units import IntArray


def job_name(world: World, job: int) -> str:
    """Name of a job in messages, also of one that does not exist."""
    known = 0 <= job < len(world.table)
    return f"job {world.table.name(int(job))}" if known else f"job number {job}"


def reject_decision(where: str, world: World, fault: int, job: int, server: int, after: IntArray) -> NoReturn:
    """Raise the error of `ray_sim.kernels.core.feasibility.check_changes`'s verdict.

    ``after`` is (S, R) what would have been left free, negative where the decision exceeds it.
    """
    name = job_name(world, job)
    on = f" on server {world.cluster.server_names[server]}" if 0 <= server < len(world.cluster) else ""
    texts = {
        feasibility.NOT_SORTED: f"lists {name}{on} twice or out of order; jobs and rows must increase",
        feasibility.NO_SUCH_JOB: f"names {name}, but jobs are numbered 0 to {len(world.table) - 1}",
        feasibility.NOT_ACTIVE: f"places {name}, which is not in the system now",
        feasibility.NO_SUCH_SERVER: f"places {name} on server number {server}, of {len(world.cluster)}",
        feasibility.WRONG_PARTITION: f"places {name}{on}, which is outside the job's partition",
        feasibility.NOT_THERE: f"places {name}{on}, which is not there now",
        feasibility.BAD_COUNT: f"gives {name}{on} a number of tasks that is not 1 to the gang's",
        feasibility.BAD_ROLE: f"gives {name}{on} a role this world does not have",
        feasibility.BROKEN: "gives changes whose size, ptr or order do not fit the rest; see Decision.of",
        feasibility.NOTHING_HELD: f"suspends {name}, which holds nothing",
    }
    if fault == feasibility.NOT_A_GANG:
        texts[fault] = f"does not place all {world.arrays.gang[job, 0]} tasks of {name}; gangs run whole"
    if fault == feasibility.OVER_CAPACITY:
        texts[fault] = f"exceeds capacity for {name}{on}: {_excess(world, server, after)}"
    raise InfeasibleDecisionError(f"at {where} {texts[fault]}")


def _excess(world: World, server: int, after: IntArray) -> str:
    short = [
        f"{-after[server, r] / quanta:g} {name} too many of {world.arrays.capacity[server, r] / quanta:g}"
        for r, (name, quanta) in enumerate(world.facts.resources.items())
        if after[server, r] < 0
    ]
    return ", ".join(short)
