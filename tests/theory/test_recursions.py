"""Exact answers: Lindley's recursion and deterministic queues, to the microsecond."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.model.units import US_PER_S, seconds_to_us
from tests.theory.queues import exponential_us, replay


def test_fifo_on_one_gpu_follows_lindleys_recursion() -> None:
    # W[n + 1] = max(0, W[n] + S[n] - T[n + 1]), Lindley 1952: for every job, in whole microseconds.
    n = 50_000
    gap, service = exponential_us("gap", 10.0, n), exponential_us("service", 9.0, n)
    wait, waits = 0, [0]
    for served, until_next in zip(service[:-1].tolist(), gap[1:].tolist(), strict=True):
        wait = max(0, wait + served - until_next)
        waits.append(wait)
    found = seconds_to_us(replay(gap, service, 1).jobs["queue_s"].to_numpy())
    np.testing.assert_array_equal(found, waits)


@given(st.integers(1, 9), st.integers(1, 50), st.integers(1, 200))
def test_a_deterministic_queue_waits_by_closed_form(gpus: int, gap_s: int, service_s: int) -> None:
    # D/D/c: job q c + i starts when job i of the first c has left q times, or at once where servers keep
    # up: its wait is q max(0, S - c T).
    n = 40
    result = replay(np.full(n, gap_s * US_PER_S), np.full(n, service_s * US_PER_S), gpus)
    rounds = np.arange(n) // gpus
    np.testing.assert_array_equal(result.jobs["queue_s"], rounds * max(0, service_s - gpus * gap_s))


@pytest.mark.parametrize("policy", ["fifo", "sjf", "srtf", "las"])
def test_littles_law_holds_exactly(policy: str) -> None:
    # The area under the number of waiting jobs is the sum of all queueing delays, whatever the order.
    n = 2_000
    result = replay(exponential_us("gap", 10.0, n), exponential_us("service", 36.0, n), 4, policy)
    time_us = seconds_to_us(result.timeline["time_s"].to_numpy())
    waiting = result.timeline["waiting"].to_numpy()
    assert waiting[-1] == 0
    delays_us = seconds_to_us(result.jobs["queue_s"].to_numpy())
    assert int((waiting[:-1] * np.diff(time_us)).sum()) == int(delays_us.sum())


def test_the_order_does_not_change_when_the_work_is_done() -> None:
    # One GPU is busy whenever work is there, so every policy ends at the same microsecond.
    n = 5_000
    gap, service = exponential_us("gap", 10.0, n), exponential_us("service", 9.0, n)
    ends = {
        policy: replay(gap, service, 1, policy).summary.makespan_s
        for policy in ("fifo", "sjf", "srtf", "las")
    }
    assert len(set(ends.values())) == 1
