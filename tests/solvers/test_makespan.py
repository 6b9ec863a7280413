"""Equal pieces of work on workers of several speeds."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.solvers.makespan import least_makespan


def makespan(pieces: int, lengths: list[int], workers: list[int]) -> int:
    return int(least_makespan(np.array([pieces]), np.array([lengths]), np.array(workers))[0])


def test_five_pieces_on_a_fast_and_two_slow_workers() -> None:
    # Fast 2, slow 5: by 6 the fast one has done 3 and the slow ones 1 each; by 5 only 2 + 2.
    assert makespan(5, [2, 5], [1, 2]) == 6


def test_pieces_of_no_length_take_no_time() -> None:
    assert makespan(7, [0, 0], [1, 1]) == 0


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(1, 9), st.integers(1, 2)), min_size=1, max_size=2))
def test_no_assignment_of_pieces_to_workers_ends_sooner_and_one_ends_then(
    pieces: int, kinds: list[tuple[int, int]]
) -> None:
    of_worker = [length for length, n in kinds for _ in range(n)]
    best = min(
        max(length * chosen.count(worker) for worker, length in enumerate(of_worker))
        for chosen in product(range(len(of_worker)), repeat=pieces)
    )
    assert makespan(pieces, [length for length, _ in kinds], [n for _, n in kinds]) == best
