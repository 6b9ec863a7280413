"""Every policy against a loop over whole seconds that is too simple to be wrong.

One pool of GPUs, whole seconds, no costs: there, where jobs run does not matter, and the order rules
can be written down as they are defined. It shares nothing with the engine's queues and kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.run import Loop
from tests.proofs import instances
from tests.random_worlds import PolicyChoice
from tests.worlds import Job, replay, times_of, world_of

END = 400


@dataclass(slots=True)
class Progress:
    """One job while it is in the naive loop."""

    index: int
    submit: int
    gpus: int
    left: int
    length: int = field(init=False)
    start: int | None = None
    finish: int | None = None
    running: bool = False
    stopped: int = 0
    level: int = 0
    forgiven: int = 0

    def __post_init__(self) -> None:
        self.length = self.left

    @property
    def executed(self) -> int:
        return self.length - self.left

    @property
    def attained(self) -> int:
        return self.gpus * (self.executed - self.forgiven)


@dataclass(frozen=True, slots=True)
class Rule:
    """A policy: its order, and whether it backfills and preempts."""

    name: str
    backfill: bool
    limits: tuple[int, ...] = ()
    knob: int = 0

    @property
    def preemptive(self) -> bool:
        return self.name in ("srtf", "las")

    def key(self, job: Progress) -> tuple[float, ...]:
        """What the queue is ordered by; ties go to the earlier job."""
        started = float("inf") if job.start is None else job.start
        keys: dict[str, tuple[float, ...]] = {
            "fifo": (job.submit,),
            "sjf": (job.length,),
            "srtf": (job.left,),
            "las": (job.level, started),
        }
        return (*keys[self.name], job.index)

    def set_levels(self, jobs: list[Progress], now: int) -> None:
        """Down by attained service while running, back to the top after waiting long enough."""
        for job in jobs:
            if job.running:
                job.level = sum(job.attained >= limit for limit in self.limits)
            elif self.knob and job.attained > 0 and now - job.stopped >= self.knob * job.executed:
                job.forgiven, job.level = job.executed, 0


def serve(jobs: list[Progress], gpus: int, rule: Rule, now: int) -> None:
    """Decide who runs from now on."""
    free = gpus if rule.preemptive else gpus - sum(job.gpus for job in jobs if job.running)
    blocked = False
    for job in sorted(jobs, key=rule.key):
        if job.running and not rule.preemptive:
            continue
        fits = job.gpus <= free
        if fits and (job.running or not blocked):
            free -= job.gpus
            job.start = now if job.start is None else job.start
            job.running = True
        elif job.running:
            job.running, job.stopped = False, now
        elif not rule.backfill:
            blocked = True


def naive_times(jobs: list[Job], gpus: int, rule: Rule) -> dict[str, tuple[float | None, float | None]]:
    """(start, finish) by job."""
    ordered = sorted(range(len(jobs)), key=lambda i: jobs[i].submit_s)
    progress = [
        Progress(index, int(jobs[i].submit_s), int(jobs[i].gpus), int(jobs[i].duration_s))
        for index, i in enumerate(ordered)
    ]
    for now in range(END):
        while True:
            for job in progress:
                if job.running and job.left == 0:
                    job.running, job.finish = False, now
            active = [j for j in progress if j.submit <= now and j.finish is None and j.gpus <= gpus]
            rule.set_levels(active, now)
            serve(active, gpus, rule, now)
            if not any(job.running and job.left == 0 for job in active):
                break
        for job in progress:
            job.left -= job.running
    return {f"J{i + 1}": (progress[k].start, progress[k].finish) for k, i in enumerate(ordered)}


WHOLE_JOBS = st.lists(
    st.builds(
        Job,
        st.integers(0, 12).map(float),
        st.sampled_from([1.0, 1.0, 2.0, 4.0, 16.0]),
        st.integers(0, 9).map(float),
    ),
    min_size=1,
    max_size=14,
)

LAS = st.builds(
    Rule,
    st.just("las"),
    st.just(True),
    # Multiples of every gang's size, so that limits are reached at whole seconds.
    st.sampled_from([(4,), (8,), (4, 12)]),
    st.sampled_from([0, 1, 3]),
)
KEYED = st.builds(Rule, st.sampled_from(["fifo", "sjf", "srtf"]), st.booleans())


@pytest.mark.slow
@settings(max_examples=instances(250, 25))
@given(
    jobs=WHOLE_JOBS,
    gpus=st.lists(st.integers(1, 3).map(float), min_size=1, max_size=3),
    rule=KEYED | LAS,
    loop=st.sampled_from(["auto", "general"]),
)
def test_every_policy_does_what_a_naive_loop_does(
    jobs: list[Job], gpus: list[float], rule: Rule, loop: str
) -> None:
    params: dict[str, object] = {"placement": "pooled"}
    if rule.name == "las":
        params |= {"limits_gpu_s": rule.limits, "knob": rule.knob}
    else:
        params["backfill"] = rule.backfill
    policy = PolicyChoice(rule.name, params).create()
    result = replay(world_of(jobs, gpus), policy, loop=cast("Loop", loop))
    assert times_of(result) == naive_times(jobs, int(sum(gpus)), rule)
