"""One preemptive machine against a machine run tick by tick."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.kernels.core.srpt_relaxation import serve_smallest_first

JOBS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=6)


@given(jobs=JOBS, remaining=st.booleans())
def test_flows_and_mean_busy_times_are_those_of_a_machine_run_tick_by_tick(
    jobs: list[tuple[int, int]], remaining: bool
) -> None:
    jobs = sorted(jobs)
    release, sizes = (np.array(column) for column in zip(*jobs, strict=True))
    left = sizes.copy()
    flow, moment = np.zeros(len(jobs), np.int64), np.zeros(len(jobs))
    key = left if remaining else sizes.copy()
    heap, position = np.zeros(len(jobs), np.int64), np.full(len(jobs), -1)
    serve_smallest_first(release, key, left, heap, position, flow, moment)
    rest, naive_flow, naive_moment = sizes.tolist(), [0] * len(jobs), [Fraction(0)] * len(jobs)
    tick = 0
    while any(rest):
        ready = [j for j, (at, _) in enumerate(jobs) if at <= tick and rest[j]]
        if ready:
            j = min(ready, key=lambda j: (rest[j] if remaining else jobs[j][1], j))
            rest[j] -= 1
            naive_moment[j] += tick - jobs[j][0] + Fraction(1, 2)
            naive_flow[j] = tick + 1 - jobs[j][0]
        tick += 1
    assert flow.tolist() == naive_flow
    assert moment.tolist() == naive_moment
    assert not left.any()
