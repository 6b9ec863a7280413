"""Ranges of the numbers of a world, whoever made its jobs and servers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import (
    InvalidClusterError,
    InvalidScenarioError,
    InvalidWorkloadError,
    problems_text,
)
from ray_sim.model.job import JobTable
from ray_sim.model.units import MAX_RUN_US, MAX_TIME_S, US_PER_S, FloatArray, IntArray

MAX_QUANTA = 2**60
"""The most of a resource that a gang demands, and that all servers together offer."""

SPEEDS = (1e-6, 1e6)
"""The lowest and the highest speed of a server."""

_LONGEST_US = MAX_TIME_S * US_PER_S


def check_jobs(table: JobTable) -> None:
    """Refuse jobs whose numbers are out of range.

    A file of jobs has been checked when it was read; this is for tables made in Python.

    Raises
    ------
    InvalidWorkloadError : names each column, the first job at fault, its value and the range
    """
    gang = table.tasks[:, None] * table.demand.astype(np.float64)
    problems = [
        *_outside(table, "submit_us", table.submit_us, 0, _LONGEST_US),
        *_outside(table, "work_us", table.work_us, 0, _LONGEST_US),
        *_outside(table, "tasks", table.tasks, 1, MAX_QUANTA),
        *_outside(table, "demand", table.demand.min(axis=1, initial=MAX_QUANTA), 0, MAX_QUANTA),
        *_outside(table, "tasks x demand", gang.max(axis=1, initial=0.0), 0, MAX_QUANTA),
    ]
    earlier = np.flatnonzero(np.diff(table.submit_us) < 0)
    if len(earlier):
        job = int(earlier[0]) + 1
        problems.append(
            f"submit_us: job {table.name(job)} comes before the one in front of it; sort the jobs"
        )
    if problems:
        raise InvalidWorkloadError(problems_text("jobs", problems))


def _outside(
    table: JobTable, name: str, values: IntArray | FloatArray, least: int, most: int
) -> Iterator[str]:
    wrong = np.flatnonzero(~((values >= least) & (values <= most)))
    if len(wrong):
        first = int(wrong[0])
        yield (
            f"{name}: must be {least:,} to {most:,}, is {values[first]:,} for job {table.name(first)}"
            f" ({len(wrong)} such jobs)"
        )


def check_servers(cluster: Cluster) -> None:
    """Refuse servers whose numbers are out of range.

    Raises
    ------
    InvalidClusterError : names the server or the resource at fault, its value and the range
    """
    problems: list[str] = []
    low, high = SPEEDS
    slow_or_fast = np.flatnonzero(~((cluster.speed >= low) & (cluster.speed <= high)))
    if len(slow_or_fast):
        first = int(slow_or_fast[0])
        problems.append(
            f"speed: must be {low:g} to {high:,.0f}, is {cluster.speed[first]:g} for server "
            f"{cluster.server_names[first]} ({len(slow_or_fast)} such servers)"
        )
    owing = np.flatnonzero((cluster.capacity < 0).any(axis=1))
    if len(owing):
        first = int(owing[0])
        problems.append(
            f"capacity: must be at least 0, is {cluster.capacity[first].min()} for server "
            f"{cluster.server_names[first]} ({len(owing)} such servers)"
        )
    total = cluster.capacity.sum(axis=0, dtype=np.float64)
    for resource, quanta in zip(cluster.resources, total.tolist(), strict=True):
        if quanta > MAX_QUANTA:
            problems.append(f"{resource}: all servers offer {quanta:.3g} quanta, at most {MAX_QUANTA:,} fit")
    if problems:
        raise InvalidClusterError(problems_text(f"cluster {cluster.name}", problems))


def check_clock(table: JobTable, speed: FloatArray) -> None:
    """Refuse rigid jobs that may take longer than the clock runs, were they run one after the other.

    Parameters
    ----------
    speed : (S,) of the servers, > 0

    Raises
    ------
    InvalidWorkloadError : names the longest job
    """
    if len(table) == 0 or len(speed) == 0:
        return
    longest_us = float(table.submit_us[-1]) + table.work_us.sum(dtype=np.float64) / float(speed.min())
    if longest_us > MAX_RUN_US:
        job = int(np.argmax(table.work_us))
        all_s, clock_s, job_s = (us / US_PER_S for us in (longest_us, MAX_RUN_US, int(table.work_us[job])))
        raise InvalidWorkloadError(
            f"duration_s: one after the other, on the slowest server, all jobs take {all_s:.3g} s; the clock "
            f"runs for {clock_s:.3g} s. The longest is job {table.name(job)} with {job_s:.3g} s; replay a "
            "part of the workload, or correct its durations"
        )


def check_sites(sites: int, servers: int) -> None:
    """Refuse a number of sites that the servers cannot be split into.

    Raises
    ------
    InvalidScenarioError
    """
    if not 1 <= sites <= servers:
        raise InvalidScenarioError(f"sites: must be 1 to {servers}, the number of servers, got {sites}")
