"""Whole runs with interference, shared interfaces and slow links against a naive simulator of seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.view import View
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.interference import InterferenceProfile
from ray_sim.model.links import LinkChanges
from ray_sim.model.units import US_PER_S
from tests.figures import elastic_of
from tests.interfering_worlds import interference, interfering_world, naive_slowdown
from tests.proofs import instances
from tests.scripted import scripted
from tests.training import profile
from tests.worlds import replay

STEP_S, SLICE_S, INSIDE_S, SAMPLES = 10.0, 4.0, 0.4, 100
"""Of one worker in `tests.training.profile`: training, transfer between servers and within one, samples."""

Tasks = dict[tuple[int, int], int]


@dataclass
class Setting:
    """Jobs that hold fixed places from their submission to their end, and links that change."""

    submit_s: list[float]
    types: list[int]
    samples: list[int]
    tasks: list[Tasks]
    profile: InterferenceProfile
    sockets: list[int]
    shared: bool
    changes: list[tuple[float, int, float]] = field(default_factory=list)


def drawn(seed: int) -> Setting:
    """Up to eight jobs on up to three servers, and up to six changes of bandwidth."""
    draw = np.random.default_rng((20261124, seed))
    n, servers = int(draw.integers(1, 9)), int(draw.integers(1, 4))
    names = ("a", "b")

    def table() -> dict[str, list[float]]:
        return {name: draw.uniform(0, 1, 2).round(3).tolist() for name in names}

    tasks: list[Tasks] = []
    for _ in range(n):
        held: Tasks = {}
        for role in (WORKER, PARAMETER_SERVER, *draw.choice([WORKER, PARAMETER_SERVER], draw.integers(0, 3))):
            key = int(draw.integers(servers)), int(role)
            held[key] = held.get(key, 0) + 1
        tasks.append(held)
    times = sorted(draw.uniform(0, 2000, draw.integers(0, 7)).round(3).tolist())
    return Setting(
        submit_s=sorted(draw.uniform(0, 500, n).round(3).tolist()),
        types=draw.integers(0, 2, n).tolist(),
        samples=draw.integers(10, 3000, n).tolist(),
        tasks=tasks,
        profile=interference(table(), table(), table(), ("cpu", "qpi"), ["qpi"]),
        sockets=draw.integers(1, 3, servers).tolist(),
        shared=bool(draw.integers(2)),
        changes=[(at, int(draw.integers(servers)), float(draw.choice([0.1, 0.5, 1]))) for at in times],
    )


def alone_per_s(setting: Setting, job: int, link: list[float]) -> float:
    """Samples per second without interference: the formulas of docs/training.md, in step."""
    held = setting.tasks[job]
    w = sum(n for (_, role), n in held.items() if role == WORKER)
    p = sum(n for (_, role), n in held.items() if role == PARAMETER_SERVER)
    longest = 0.0
    for server in {server for server, _ in held}:
        w_here, p_here = held.get((server, WORKER), 0), held.get((server, PARAMETER_SERVER), 0)
        outside_s = SLICE_S * link[server]
        if p_here:
            of_ps = ((w - w_here) * outside_s + w_here * INSIDE_S) / p
            longest = max(longest, of_ps * (p_here if setting.shared else 1))
        if w_here:
            of_worker = ((p - p_here) * outside_s + p_here * INSIDE_S) / p
            longest = max(longest, of_worker * (w_here if setting.shared else 1))
    return SAMPLES / (STEP_S / w + 2 * longest)


def naive_run(setting: Setting) -> tuple[dict[int, float], dict[int, float]]:
    """End of each job, and its time of training without interference, by advancing from event to event."""
    n, now = len(setting.submit_s), 0.0
    left = [float(samples) for samples in setting.samples]
    bandwidth = [1.0] * len(setting.sockets)
    to_come, changes = list(range(n)), list(setting.changes)
    ends, alone_s = {}, dict.fromkeys(range(n), 0.0)
    running: list[int] = []
    while to_come or running:
        here = [{server for server, _ in setting.tasks[job]} for job in running]
        sharers = [
            max(1, sum(server in at and len(at) > 1 for at in here)) if setting.shared else 1
            for server in range(len(bandwidth))
        ]
        link = [n_jobs / share for n_jobs, share in zip(sharers, bandwidth, strict=True)]
        held = {job: setting.tasks[job] for job in running}
        known = setting.profile, held, setting.types, setting.sockets
        slowed = {job: naive_slowdown(*known, job) for job in running}
        rate = {job: alone_per_s(setting, job, link) / slowed[job] for job in running}
        events = [setting.submit_s[job] for job in to_come[:1]] + [change[0] for change in changes[:1]]
        until = min([*events, *(now + left[job] / rate[job] for job in running)])
        for job in running:
            left[job] -= rate[job] * (until - now)
            alone_s[job] += (until - now) / slowed[job]
        now = until
        for job in [job for job in running if left[job] <= 1e-7 * setting.samples[job]]:
            ends[job] = now
            running.remove(job)
        while changes and changes[0][0] <= now:
            _, server, bandwidth[server] = changes.pop(0)
        while to_come and setting.submit_s[to_come[0]] <= now:
            running.append(to_come.pop(0))
    return ends, alone_s


def at_submission(setting: Setting, view: View) -> Decision:
    return Decision.of(
        {
            job: sorted((*place, count) for place, count in setting.tasks[job].items())
            for job in view.arrived.tolist()
        }
    )


def test_ends_and_slowdowns_are_those_of_a_naive_simulator() -> None:
    for seed in range(instances(3_000, per_commit=50)):
        _compare(drawn(seed))


def _compare(setting: Setting) -> None:
    names = setting.profile.types
    jobs = [
        (names[kind], profile(epochs=1, samples=samples, num_workers=3, num_ps=3))
        for kind, samples in zip(setting.types, setting.samples, strict=True)
    ]
    links = LinkChanges(
        np.array([round(at * US_PER_S) for at, _, _ in setting.changes], dtype=np.int64),
        np.array([server for _, server, _ in setting.changes], dtype=np.int64),
        np.array([share for _, _, share in setting.changes]),
    )
    world = interfering_world(
        setting.submit_s,
        jobs,
        [100] * len(setting.sockets),
        setting.profile,
        {"nic": "per_server" if setting.shared else "per_task"},
        links,
        setting.sockets,
    )
    result = replay(world, scripted(lambda view: at_submission(setting, view), wake=Wake.ARRIVAL))
    ends, alone_s = naive_run(setting)
    for job, row in enumerate(result.jobs.iter_rows(named=True)):
        assert row["finish_s"] == pytest.approx(ends[job], abs=1e-3), setting
        trained_s = ends[job] - setting.submit_s[job]
        assert row["interference_slowdown"] == pytest.approx(trained_s / alone_s[job], rel=1e-5)
    lost_s = sum(ends[job] - setting.submit_s[job] - alone_s[job] for job in ends)
    whole_s = sum(ends[job] - setting.submit_s[job] for job in ends)
    assert elastic_of(result).interference_share == pytest.approx(lost_s / whole_s, abs=1e-6)
