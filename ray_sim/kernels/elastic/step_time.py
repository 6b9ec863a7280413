"""Training speed of a job, in samples per second, from the workers and parameter servers it holds.

A placement is a list of rows (server, role, tasks) sorted by server; rows ``ptr[i]`` to ``ptr[i + 1]``
belong to job i. Floats are summed in the order of rows, so equal placements give equal speeds. Every
function is O(rows of the job). docs/training.md explains the models; sources stand at the functions.
"""

from __future__ import annotations

from typing import NamedTuple

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import ALL_REDUCE, ASYNC, F64, I64, PARAMETER_SERVER, WORKER
from ray_sim.kernels.core.job_rows import Held, Rows, gather_rows, on_one_server, tasks_held, tasks_here

# Unit with its own bandwidth: a pair of tasks, a task, or a server.
PER_LINK, PER_TASK, PER_SERVER = range(3)


class StepCoefficients(NamedTuple):
    """Coefficients of the step time, (J,) each."""

    exchange: I64
    """SYNC, ASYNC or ALL_REDUCE."""
    batch: F64
    """Samples of one step: of all workers together, or per worker with ASYNC."""
    sample_s: F64
    """Seconds per sample on a worker of speed 1."""
    external_s: F64
    """Seconds to move all gradients once between servers."""
    internal_s: F64
    """Seconds to move all gradients once within a server."""
    step_s: F64
    step_s_per_worker: F64
    step_s_per_ps: F64
    workers_per_ps: F64
    straggling: F64
    """Slowdown of one worker on the slowest server (straggler), >= 1."""


@kernel
def slowest_worker(rows: Rows, i: int, speed: F64) -> float:
    """Return the speed of the slowest server with a worker, 0 without workers."""
    slowest = 0.0
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.role[row] == WORKER and rows.tasks[row] > 0:
            own = speed[rows.server[row]]
            if slowest == 0.0 or own < slowest:
                slowest = own
    return slowest


@kernel
def slowest_link(rows: Rows, i: int, links: F64) -> float:
    """Return how many times as long as nominal a transfer takes over the slowest interface of job i, >= 1."""
    slowest = 1.0
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.tasks[row] > 0:
            slowest = max(slowest, links[rows.server[row]])
    return slowest


class PsLoads(NamedTuple):
    """Load of the parameter servers of n jobs, (n,) each."""

    skew: F64
    """Parameters on the fullest parameter server / average."""
    most_requests: F64
    """Requests of one worker in one step to the busiest parameter server."""
    requests: F64
    """Requests of one worker in one step to all parameter servers."""


@kernel
def even_load(ps: int) -> tuple[float, float, float]:
    """Return `PsLoads` of a job whose parameter servers hold equal slices, one request each."""
    return 1.0, float(min(ps, 1)), float(ps)


@kernel
def even_loads(ps: I64, loads: PsLoads) -> None:
    """Set ``loads`` of n jobs with (n,) parameter servers to the `even_load` of each."""
    for i in range(len(ps)):
        loads.skew[i], loads.most_requests[i], loads.requests[i] = even_load(ps[i])


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
    busiest_s: float,
    requests_s: float,
    links: F64,
) -> float:
    """Return the seconds until the last slice has arrived; one slice per worker and parameter server.

    A slice that crosses the interface of server s takes ``links[s]`` times as long.

    A task (PER_TASK) or a server (PER_SERVER) transfers its slices one after the other; the result is the
    longest of these queues. A slice is 1 / ps of the parameters, times ``skew`` for the parameter server,
    because any of them may be the fullest; the parameter servers of one server transfer at most all
    parameters. Requests add ``requests_s`` per worker, and ``busiest_s`` per worker at a parameter server.
    docs/training.md has the formulas.
    """
    if nic == PER_LINK:
        apart_s = external_s * slowest_link(rows, i, links)
        return (internal_s if on_one_server(rows, i) else apart_s) * skew / ps + busiest_s
    longest = 0.0
    row, end = rows.ptr[i], rows.ptr[i + 1]
    while row < end:
        over_s = external_s * links[rows.server[row]]
        w_here, ps_here, row = tasks_here(rows, row, end)
        if ps_here > 0:
            of_ps = (workers - w_here) * over_s + w_here * internal_s
            slices = min(skew * ps_here, float(ps)) if nic == PER_SERVER else skew
            served_s = min(ps_here * busiest_s, requests_s) if nic == PER_SERVER else busiest_s
            longest = max(longest, of_ps * slices + ps * workers * served_s)
        if w_here > 0:
            of_worker = (ps - ps_here) * over_s + ps_here * internal_s + ps * requests_s
            longest = max(longest, of_worker * w_here if nic == PER_SERVER else of_worker)
    return longest / ps


@kernel
def placement_rate(
    steps: StepCoefficients,
    job: int,
    rows: Rows,
    i: int,
    nic: int,
    speed: F64,
    links: F64,
    request_s: float,
    load: tuple[float, float, float],
) -> float:
    """Return the samples per second of a job with its placement, 0 if it cannot train.

    SYNC and ALL_REDUCE: the batch is split evenly, and each step waits for the slowest worker. ASYNC: the
    rates of the workers add up; one worker on the slowest server is the straggler. A ring of w workers
    moves 2 (w - 1) / w of the gradients.

    Parameters
    ----------
    request_s : seconds per request for parameters, one way
    load : `PsLoads` of the job
    """
    workers, ps = tasks_held(rows, i, WORKER), tasks_held(rows, i, PARAMETER_SERVER)
    exchange = steps.exchange[job]
    if workers == 0 or (ps == 0 and exchange != ALL_REDUCE):
        return 0.0
    if exchange == ALL_REDUCE:
        apart_s = steps.external_s[job] * slowest_link(rows, i, links)
        ring_s = steps.internal_s[job] if on_one_server(rows, i) else apart_s
        transfer_s = 2.0 * (workers - 1) / workers * ring_s
    else:
        external_s, internal_s = steps.external_s[job], steps.internal_s[job]
        skew, most_requests, requests = load
        transfer_s = 2.0 * one_way_s(
            rows,
            i,
            nic,
            workers,
            ps,
            external_s,
            internal_s,
            skew,
            most_requests * request_s,
            requests * request_s,
            links,
        )
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
        own, others = speed[rows.server[row]], rows.tasks[row]
        if straggler and own == slowest:
            rate += batch / (training_s / own * steps.straggling[job] + rest_s)
            straggler = False
            others -= 1
        rate += others * (batch / (training_s / own + rest_s))
    return rate


@kernel
def placement_rates(
    steps: StepCoefficients,
    jobs: I64,
    rows: Rows,
    nic: int,
    speed: F64,
    links: F64,
    request_s: float,
    loads: PsLoads,
    rates: F64,
) -> None:
    """Set ``rates``, (n,), to the `placement_rate` of each of ``jobs``; ``loads`` is per job as well."""
    for i in range(len(jobs)):
        load = loads.skew[i], loads.most_requests[i], loads.requests[i]
        rates[i] = placement_rate(steps, jobs[i], rows, i, nic, speed, links, request_s, load)


@kernel
def even_rates(
    steps: StepCoefficients,
    jobs: I64,
    rows: Rows,
    nic: int,
    speed: F64,
    links: F64,
    request_s: float,
    rates: F64,
) -> None:
    """The same where parameter servers hold equal slices."""
    for i in range(len(jobs)):
        load = even_load(tasks_held(rows, i, PARAMETER_SERVER))
        rates[i] = placement_rate(steps, jobs[i], rows, i, nic, speed, links, request_s, load)


@kernel
def even_rates_held(
    steps: StepCoefficients,
    jobs: I64,
    held: Held,
    nic: int,
    speed: F64,
    links: F64,
    request_s: float,
    rates: F64,
) -> None:
    """The same with what ``jobs``, each named once, hold."""
    gather_rows(held, jobs)
    even_rates(steps, jobs, held.rows, nic, speed, links, request_s, rates)


@kernel
def pd_ors_rate(steps: StepCoefficients, job: int, rows: Rows, i: int, speed: F64, links: F64) -> float:
    """Return the samples per second of a job in the model of PD-ORS, 0 if it cannot train.

    Each worker trains one sample in sample_s + (gamma / batch) x 2 x transfer, internal if the whole job is
    on one server, else external. Workers without their share of a parameter server, and beyond the batch,
    do not count.

    Source: Yu et al., Toward Efficient Online Scheduling for Distributed Machine Learning Systems;
    docs/models/pd_ors.md#problem.
    """
    gamma, batch = steps.workers_per_ps[job], steps.batch[job]
    workers = min(tasks_held(rows, i, WORKER), gamma * tasks_held(rows, i, PARAMETER_SERVER), batch)
    if workers == 0:
        return 0.0
    apart_s = steps.external_s[job] * slowest_link(rows, i, links)
    one_way = steps.internal_s[job] if on_one_server(rows, i) else apart_s
    training_s = steps.sample_s[job] / slowest_worker(rows, i, speed) * steps.straggling[job]
    return workers / (training_s + gamma / batch * 2.0 * one_way)


@kernel
def pd_ors_rates(steps: StepCoefficients, jobs: I64, rows: Rows, speed: F64, links: F64, rates: F64) -> None:
    """Set ``rates``, (n,), to the `pd_ors_rate` of each of ``jobs``."""
    for i in range(len(jobs)):
        rates[i] = pd_ors_rate(steps, jobs[i], rows, i, speed, links)


@kernel
def pd_ors_rates_held(
    steps: StepCoefficients, jobs: I64, held: Held, speed: F64, links: F64, rates: F64
) -> None:
    """The same with what ``jobs``, each named once, hold."""
    gather_rows(held, jobs)
    pd_ors_rates(steps, jobs, held.rows, speed, links, rates)


@kernel
def pairs_on_one_server(rows: Rows, i: int) -> int:
    """Return the number of pairs of a worker and a parameter server that share a server."""
    pairs, row, end = 0, rows.ptr[i], rows.ptr[i + 1]
    while row < end:
        w_here, ps_here, row = tasks_here(rows, row, end)
        pairs += w_here * ps_here
    return pairs


@kernel
def servers_with_workers(rows: Rows, i: int) -> int:
    """Return the number of servers with a worker; rows are sorted by server."""
    n = 0
    for row in range(rows.ptr[i], rows.ptr[i + 1]):
        if rows.role[row] == WORKER and rows.tasks[row] > 0:
            n += 1
    return n


@kernel
def cross_mb_per_sample(exchange: int, batch: float, gradient_mb: float, rows: Rows, i: int) -> float:
    """Return the megabytes that job i moves between servers per sample, both ways.

    A step with w workers and p parameter servers moves (2 G / p) (p w - sum_s P_s W_s) megabytes, G being
    the gradients; a ring moves 2 G (w - 1) / w over each link between servers. With ASYNC a step belongs
    to one worker.

    Source: Peng et al., Optimus, EuroSys 2018, section 4.2; docs/models/optimus.md#placement.
    """
    workers, ps = tasks_held(rows, i, WORKER), tasks_held(rows, i, PARAMETER_SERVER)
    if workers == 0:
        return 0.0
    if exchange == ALL_REDUCE:
        servers = servers_with_workers(rows, i)
        links = servers if servers > 1 else 0
        return links * 2.0 * gradient_mb * (workers - 1) / workers / batch
    if ps == 0:
        return 0.0
    apart = workers * ps - pairs_on_one_server(rows, i)
    steps = batch * (workers if exchange == ASYNC else 1)
    return 2.0 * gradient_mb / ps * apart / steps
