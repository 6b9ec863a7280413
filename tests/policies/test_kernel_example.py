"""The example of a policy with a kernel, as the guide shows it, places as its comment says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.worlds import HOUR, Job, replay, times_of, world_of

EXAMPLE = Path(__file__).parents[2] / "docs/examples/best_fit.py"


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """The names that the example defines."""
    return runpy.run_path(str(EXAMPLE))


def test_each_job_goes_to_the_fullest_server_that_holds_it(shown: dict[str, Any]) -> None:
    # 2 fits on servers 0 (4 free) and 2 (3 free), and 2 is fuller: 4, 1, 1 stay free. 4: server 0. The last
    # one may not use server 2. Every job needs a core too, of which server 3 has none.
    for best_fit in (shown["best_fit"], getattr(shown["best_fit"], "py_func", shown["best_fit"])):
        free, server = np.array([[4, 9], [1, 9], [3, 9], [5, 0]]), np.empty(4, dtype=np.int64)
        allowed = np.ones((4, 4), dtype=np.bool_)
        allowed[3, 2] = False
        best_fit(free, np.array([[2, 1], [4, 1], [1, 1], [1, 1]]), allowed, server)
        assert server.tolist() == [2, 0, 1, -1]
        assert free.tolist() == [[0, 8], [0, 8], [1, 8], [5, 0]]


def test_a_policy_of_ones_own_calls_its_kernel(shown: dict[str, Any]) -> None:
    # J1 (2 GPUs) goes to s1, the fuller one; J2 (4) to s0; J3 (1) to s1; J4 (4) waits for J2, until hour 2.
    jobs = [Job(0, 2, HOUR), Job(0, 4, 2 * HOUR), Job(0, 1, HOUR), Job(0, 4, HOUR)]
    result = replay(world_of(jobs, gpus=[4, 3]), shown["BestFit"]())
    assert times_of(result) == {
        "J1": (0, HOUR), "J2": (0, 2 * HOUR), "J3": (0, HOUR), "J4": (2 * HOUR, 3 * HOUR)
    }  # fmt: skip
