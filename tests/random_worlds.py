"""Hypothesis strategies: small worlds full of ties, and policies with all their switches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.contract import Policy
from ray_sim.engine.world import World
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.policies.registry import create_policy
from tests.worlds import UP, Change, Job, availability, cluster_of, job_table, world_of

WHOLE_S = st.integers(0, 12).map(float)
SECONDS = WHOLE_S | st.sampled_from([0.000001, 0.5, 1.000001, 2.75])
GPUS = st.sampled_from([0.0, 0.25, 0.6, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 12.0])
TYPE_LISTS = st.sampled_from([None, None, "x", "y", "y|x", "z"])


class PolicyChoice(NamedTuple):
    """A built-in policy and its parameters."""

    name: str
    params: dict[str, object]

    def create(self) -> Policy:
        return create_policy(self.name, self.params)


@st.composite
def job_lists(
    draw: st.DrawFn, *, vcs: Sequence[str | None] = (None,), min_size: int = 0, max_size: int = 14
) -> list[Job]:
    """Jobs in any order, many submitted at the same instant, some without length, some too large."""
    job = st.builds(Job, SECONDS, GPUS, SECONDS, st.sampled_from(vcs))
    return draw(st.lists(job, min_size=min_size, max_size=max_size))


@st.composite
def worlds(draw: st.DrawFn, *, max_servers: int = 5) -> World:
    """Servers of mixed sizes and speeds, with or without partitions, restart costs and a horizon."""
    sizes = st.sampled_from([1.0, 2.0, 4.0, 4.0, 8.0])
    gpus = draw(st.lists(sizes, min_size=1, max_size=max_servers))
    n = len(gpus)
    speed = draw(st.none() | st.lists(st.sampled_from([0.5, 0.7, 1.0, 2.0]), min_size=n, max_size=n))
    vc = draw(st.none() | st.lists(st.sampled_from(["a", "b"]), min_size=n, max_size=n))
    jobs = draw(job_lists(vcs=("a", "b", "b", "c", None)))
    params: dict[str, object] = {"restart_cost_s": draw(st.sampled_from([0.0, 0.0, 0.5, 3.0]))}
    if draw(st.booleans()):
        params["horizon_s"] = draw(st.integers(1, 25))
    return world_of(jobs, gpus, vc=vc, speed=speed, params=params)


@st.composite
def shared_worlds(draw: st.DrawFn, *, max_servers: int = 5) -> World:
    """Jobs that accept certain GPU types, gangs that share GPUs, and servers that come and go."""
    n = draw(st.integers(1, max_servers))
    cluster = replace(
        cluster_of(draw(st.lists(st.integers(1, 3).map(float), min_size=n, max_size=n))),
        gpu_type=("x", *draw(st.lists(st.sampled_from(["x", "y", None]), min_size=n - 1, max_size=n - 1))),
        availability=availability(draw(server_changes(n))),
    )
    gang = st.tuples(WHOLE_S, st.integers(1, 3), st.sampled_from([0.3, 0.5, 0.6, 1.0, 2.0]), WHOLE_S)
    drawn = draw(st.lists(gang, min_size=1, max_size=10))
    lists = st.lists(TYPE_LISTS, min_size=len(drawn), max_size=len(drawn))
    tasks = [tasks for _, tasks, _, _ in drawn]
    columns: dict[str, Sequence[object]] = {"num_tasks": tasks, "gpu_types": draw(lists)}
    jobs = [Job(submit, n * ask, length) for submit, n, ask, length in drawn]
    params = {"restart_cost_s": draw(st.sampled_from([0.0, 1.0])), "checkpoint_s": 2.0}
    return build_world(job_table(jobs, columns=columns), cluster, params=params)


@st.composite
def policies(
    draw: st.DrawFn,
    names: Sequence[str] = ("fifo", "sjf", "srtf", "las"),
    rules: Sequence[str] = RULE_NAMES,
) -> PolicyChoice:
    """Any built-in policy with any placement and switches."""
    name = draw(st.sampled_from(names))
    params: dict[str, object] = {"placement": draw(st.sampled_from(rules))}
    if name == "las":
        params["limits_gpu_s"] = draw(st.sampled_from([(2.0,), (4.0, 10.0), (0.5, 3.0, 12.0)]))
        params["queue_order"] = draw(st.sampled_from(["first_start", "running_first"]))
        params["knob"] = draw(st.sampled_from([0.0, 0.0, 0.5, 2.0]))
    else:
        params["backfill"] = draw(st.booleans())
    return PolicyChoice(name, params)


@st.composite
def server_changes(draw: st.DrawFn, servers: int) -> list[Change]:
    """Servers, of which some are not there at first, go and come back all the time, and come back at last."""
    times = draw(st.lists(st.integers(0, 20).map(float) | st.sampled_from([0.5, 2.75]), max_size=12))
    there = [draw(st.booleans()) for _ in range(servers)]
    changes = []
    for time_s in sorted(times):
        server = draw(st.integers(0, servers - 1))
        there[server] = not there[server]
        changes.append((time_s, server, there[server]))
    return changes + [(25.0, server, UP) for server in range(servers) if not there[server]]
