"""True speeds of the running jobs of several episodes, by the formulas of the engine."""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64, PARAMETER_SERVER, WORKER, Bool
from ray_sim.kernels.core.job_rows import Rows, tasks_held
from ray_sim.kernels.elastic.colocation import slowdown_here
from ray_sim.kernels.elastic.step_time import StepCoefficients, even_load, placement_rate
from ray_sim.model.units import US_PER_S


class SpeedFacts(NamedTuple):
    """Facts of J jobs on S servers, of L types with Q channels."""

    steps: StepCoefficients
    speed: F64
    """(S,) of each server."""
    links: F64
    """(S,) how many times as long as nominal a transfer takes."""
    nic: I64
    """(1,) what has its own bandwidth, see `ray_sim.kernels.elastic.step_time`."""
    request_s: F64
    """(1,) seconds per request for parameters, one way."""
    job_type: I64
    """(J,) row in the tables of types, see `ray_sim.kernels.elastic.colocation`."""
    worker_load: I64
    ps_load: I64
    sensitivity: F64
    own_tasks: I64
    present: Bool
    """(S, Q) whether the server has the channel."""
    load: I64
    """(S, Q) work space: what the jobs of an episode ask of each channel."""
    rows: Rows
    """Work space: the placement of one job, at most two rows per server."""


@kernel
def _add_loads(facts: SpeedFacts, job: I64, tasks: I64, i: int) -> None:
    """Set `load` to what all jobs of episode i ask for; O(K S Q)."""
    facts.load[:] = 0
    for k in range(job.shape[1]):
        if job[i, k] < 0:
            break
        of_type = facts.job_type[job[i, k]]
        for server in range(len(facts.speed)):
            workers, ps = tasks[i, k, WORKER, server], tasks[i, k, PARAMETER_SERVER, server]
            if workers + ps > 0:
                for q in range(facts.load.shape[1]):
                    facts.load[server, q] += workers * facts.worker_load[of_type, q]
                    facts.load[server, q] += ps * facts.ps_load[of_type, q]


@kernel
def _copy_rows(facts: SpeedFacts, tasks: I64, i: int, k: int) -> None:
    """Copy the placement of a job to the work space, sorted by server and role."""
    rows, n = facts.rows, 0
    for server in range(len(facts.speed)):
        for role in range(2):
            if tasks[i, k, role, server] > 0:
                rows.server[n], rows.role[n], rows.tasks[n] = server, role, tasks[i, k, role, server]
                n += 1
    rows.ptr[0], rows.ptr[1] = 0, n


@kernel
def _slowdown(facts: SpeedFacts, of_type: int, tasks: I64, i: int, k: int) -> float:
    """Return by what factor others slow a job: the largest over its servers."""
    worst = 1.0
    for server in range(len(facts.speed)):
        workers, ps = tasks[i, k, WORKER, server], tasks[i, k, PARAMETER_SERVER, server]
        if workers + ps > 0:
            here = slowdown_here(
                facts.load,
                facts.present,
                facts.worker_load,
                facts.ps_load,
                facts.sensitivity,
                facts.own_tasks,
                server,
                of_type,
                workers,
                ps,
            )
            worst = max(worst, here)
    return worst


@kernel
def true_rates(facts: SpeedFacts, job: I64, tasks: I64, rates: F64) -> None:
    """Set ``rates``, (n, K), to the samples per microsecond of jobs that share servers within each episode.

    ``job`` is (n, K), -1 after the last job of an episode; ``tasks`` is (n, K, 2, S). O(n K S Q).
    """
    for i in range(len(job)):
        _add_loads(facts, job, tasks, i)
        for k in range(job.shape[1]):
            rates[i, k] = 0.0
            if job[i, k] < 0:
                continue
            _copy_rows(facts, tasks, i, k)
            alone = placement_rate(
                facts.steps,
                job[i, k],
                facts.rows,
                0,
                facts.nic[0],
                facts.speed,
                facts.links,
                facts.request_s[0],
                even_load(tasks_held(facts.rows, 0, PARAMETER_SERVER)),
            )
            rates[i, k] = alone / US_PER_S / _slowdown(facts, facts.job_type[job[i, k]], tasks, i, k)
