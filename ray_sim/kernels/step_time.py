"""How many samples a second a job trains with the workers and parameter servers it holds.

A job's holdings are rows (server, role, tasks) sorted by server, rows ``ptr[i]`` to ``ptr[i + 1]`` of
job i. Sums run in the order of the rows.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.arrays import ALL_REDUCE, ASYNC, F64, I64, PARAMETER_SERVER, WORKER, Bool, Pool
from ray_sim.kernels.compile import kernel

# What has a bandwidth of its own.
PER_LINK, PER_TASK, PER_SERVER = range(3)


class Steps(NamedTuple):
    """What decides the time of a step, (J,) each."""

    exchange: I64
    """SYNC, ASYNC or ALL_REDUCE."""
    batch: F64
    """Samples of one step: of all workers together, of each worker where they do not wait."""
    sample_s: F64
    """Of a worker of speed 1."""
    external_s: F64
    """Moving all gradients once, from server to server."""
    internal_s: F64
    """The same within a server."""
    step_s: F64
    step_s_per_worker: F64
    step_s_per_ps: F64
    workers_per_ps: F64
    straggling: F64
    """How many times as long one worker on the slowest server takes, >= 1."""


class Rows(NamedTuple):
    """Holdings of some jobs."""

    ptr: I64
    server: I64
    role: I64
    tasks: I64


@kernel
def count_rows(pool: Pool, jobs: I64, ptr: I64) -> None:
    """Prefix sums of the number of rows of each of ``jobs`` into ``ptr``."""
    ptr[0] = 0
    for i in range(len(jobs)):
        n = 0
        row = pool.head[jobs[i]]
        while row >= 0:
            n += 1
            row = pool.row_next[row]
        ptr[i + 1] = ptr[i] + n


@kernel
def copy_rows(pool: Pool, jobs: I64, rows: Rows) -> None:
    """The rows of each of ``jobs``, where ``rows.ptr`` says."""
    for i in range(len(jobs)):
        at = rows.ptr[i]
        row = pool.head[jobs[i]]
        while row >= 0:
            rows.server[at] = pool.row_server[row]
            rows.role[at] = pool.row_role[row]
            rows.tasks[at] = pool.row_count[row]
            at += 1
            row = pool.row_next[row]


@kernel
def held(rows: Rows, i: int, role: int) -> int:
    """Tasks of a role."""
    total = 0
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.role[row] == role:
            total += rows.tasks[row]
    return total


@kernel
def slowest_worker(rows: Rows, i: int, speed: F64) -> float:
    """Speed of the slowest server with a worker, 0 without workers."""
    slowest = 0.0
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.role[row] == WORKER and rows.tasks[row] > 0:
            own = speed[rows.server[row]]
            if slowest == 0.0 or own < slowest:
                slowest = own
    return slowest


@kernel
def on_one_server(rows: Rows, i: int) -> bool:
    """Whether all tasks stand on one server."""
    first = -1
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.tasks[row] > 0:
            if first >= 0 and rows.server[row] != first:
                return False
            first = rows.server[row]
    return True


@kernel
def tasks_here(rows: Rows, row: int, end: int) -> tuple[int, int, int]:
    """Workers and parameter servers on the server of a row, and the first row of the next server."""
    server, workers, ps = rows.server[row], 0, 0
    while row < end and rows.server[row] == server:
        if rows.role[row] == WORKER:
            workers += rows.tasks[row]
        elif rows.role[row] == PARAMETER_SERVER:
            ps += rows.tasks[row]
        row += 1
    return workers, ps, row


@kernel
def one_way_s(
    rows: Rows,
    i: int,
    nic: int,
    workers: int,
    ps: int,
    external_s: float,
    internal_s: float,
    skew: float,
) -> float:
    """Seconds until the last slice, one per worker and parameter server, is where it must be.

    A task, or a server, passes its slices one after the other. Slices are equal, but for those of parameter
    servers: any of these may be the fullest, with ``skew`` times the average. Those of one server together
    pass at most all parameters.
    """
    if nic == PER_LINK:
        return (internal_s if on_one_server(rows, i) else external_s) * skew / ps
    longest = 0.0
    row, end = rows.ptr[i], rows.ptr[i + 1]
    while row < end:
        w_here, ps_here, row = tasks_here(rows, row, end)
        if ps_here > 0:
            of_ps = (workers - w_here) * external_s + w_here * internal_s
            slices = min(skew * ps_here, float(ps)) if nic == PER_SERVER else skew
            longest = max(longest, of_ps * slices)
        if w_here > 0:
            of_worker = (ps - ps_here) * external_s + ps_here * internal_s
            longest = max(longest, of_worker * w_here if nic == PER_SERVER else of_worker)
    return longest / ps


@kernel
def placement_rate(steps: Steps, job: int, rows: Rows, i: int, nic: int, speed: F64, skew: float) -> float:
    """Samples per second of a job with its holdings, 0 where it cannot train; ``skew`` as in `one_way_s`."""
    workers, ps = held(rows, i, WORKER), held(rows, i, PARAMETER_SERVER)
    exchange = steps.exchange[job]
    if workers == 0 or (ps == 0 and exchange != ALL_REDUCE):
        return 0.0
    if exchange == ALL_REDUCE:
        ring_s = steps.internal_s[job] if on_one_server(rows, i) else steps.external_s[job]
        transfer_s = 2.0 * (workers - 1) / workers * ring_s
    else:
        external_s, internal_s = steps.external_s[job], steps.internal_s[job]
        transfer_s = 2.0 * one_way_s(rows, i, nic, workers, ps, external_s, internal_s, skew)
    rest_s = transfer_s + steps.step_s[job]
    rest_s += steps.step_s_per_worker[job] * workers + steps.step_s_per_ps[job] * ps
    batch = steps.batch[job]
    training_s = batch * steps.sample_s[job]
    slowest = slowest_worker(rows, i, speed)
    if exchange != ASYNC:
        return batch / (training_s / workers / slowest * steps.straggling[job] + rest_s)
    rate, straggler = 0.0, True
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.role[row] != WORKER or rows.tasks[row] == 0:
            continue
        own, alike = speed[rows.server[row]], rows.tasks[row]
        if straggler and own == slowest:
            rate += batch / (training_s / own * steps.straggling[job] + rest_s)
            straggler = False
            alike -= 1
        rate += alike * (batch / (training_s / own + rest_s))
    return rate


@kernel
def placement_rates(steps: Steps, jobs: I64, rows: Rows, nic: int, speed: F64, skew: F64, rates: F64) -> None:
    """`placement_rate` of each of ``jobs`` into ``rates``; ``skew`` is of each of them."""
    for i in range(len(jobs)):
        rates[i] = placement_rate(steps, jobs[i], rows, i, nic, speed, skew[i])


@kernel
def pd_ors_rate(steps: Steps, job: int, rows: Rows, i: int, speed: F64) -> float:
    """Samples per second of a job in the form of PD-ORS, 0 where it cannot train."""
    gamma, batch = steps.workers_per_ps[job], steps.batch[job]
    workers = min(held(rows, i, WORKER), gamma * held(rows, i, PARAMETER_SERVER), batch)
    if workers == 0:
        return 0.0
    one_way = steps.internal_s[job] if on_one_server(rows, i) else steps.external_s[job]
    training_s = steps.sample_s[job] / slowest_worker(rows, i, speed) * steps.straggling[job]
    return workers / (training_s + gamma / batch * 2.0 * one_way)


@kernel
def pd_ors_rates(steps: Steps, jobs: I64, rows: Rows, speed: F64, rates: F64) -> None:
    """`pd_ors_rate` of each of ``jobs`` into ``rates``."""
    for i in range(len(jobs)):
        rates[i] = pd_ors_rate(steps, jobs[i], rows, i, speed)


@kernel
def count_tasks(rows: Rows, role: int, tasks: I64) -> None:
    """Tasks of a role of each job into ``tasks``."""
    for i in range(len(tasks)):
        tasks[i] = held(rows, i, role)


@kernel
def pairs_on_one_server(rows: Rows, i: int) -> int:
    """Pairs of a worker and a parameter server that share a server."""
    pairs, row, end = 0, rows.ptr[i], rows.ptr[i + 1]
    while row < end:
        w_here, ps_here, row = tasks_here(rows, row, end)
        pairs += w_here * ps_here
    return pairs


@kernel
def servers_with_workers(rows: Rows, i: int) -> int:
    """Servers with a worker; rows are sorted by server."""
    n = 0
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.role[row] == WORKER and rows.tasks[row] > 0:
            n += 1
    return n


@kernel
def cross_mb_per_sample(exchange: I64, batch: F64, gradient_mb: F64, jobs: I64, rows: Rows, mb: F64) -> None:
    """Megabytes from server to server for each sample of each of ``jobs``, there and back, into ``mb``.

    A step moves (2 S / p) (p w - sum_s P_s W_s) in all; in a ring, 2 S (w - 1) / w over each link between
    servers. Where workers do not wait, a step is one worker's.

    Source: Peng et al., Optimus, EuroSys 2018, section 4.2.
    """
    for i in range(len(jobs)):
        job = jobs[i]
        workers, ps = held(rows, i, WORKER), held(rows, i, PARAMETER_SERVER)
        mb[i] = 0.0
        if workers == 0:
            continue
        if exchange[job] == ALL_REDUCE:
            servers = servers_with_workers(rows, i)
            links = servers if servers > 1 else 0
            mb[i] = links * 2.0 * gradient_mb[job] * (workers - 1) / workers / batch[job]
        elif ps > 0:
            apart = workers * ps - pairs_on_one_server(rows, i)
            steps = batch[job] * (workers if exchange[job] == ASYNC else 1)
            mb[i] = 2.0 * gradient_mb[job] / ps * apart / steps


@kernel
def differs(now: Rows, target: Rows, i: int) -> bool:
    """Whether a job holds something else than it is to hold."""
    n = now.ptr[i + 1] - now.ptr[i]
    if n != target.ptr[i + 1] - target.ptr[i]:
        return True
    for k in range(n):
        a, b = now.ptr[i] + k, target.ptr[i] + k
        if (
            now.server[a] != target.server[b]
            or now.role[a] != target.role[b]
            or now.tasks[a] != target.tasks[b]
        ):
            return True
    return False


@kernel
def find_differing(now: Rows, target: Rows, differing: Bool) -> None:
    """Set ``differing`` for each job to `differs`."""
    for i in range(len(differing)):
        differing[i] = differs(now, target, i)
