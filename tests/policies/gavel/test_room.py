"""GPUs of one type in a round: what fits on servers, and which GPUs are given."""

from __future__ import annotations

import numpy as np

from ray_sim.policies.gavel.room import Room
from tests.proofs import instances


def fit(servers: list[int], sizes: list[int]) -> bool:
    """Whether gangs of these sizes fit on one server each, by trying every way."""
    if not sizes:
        return True
    return any(
        fit([*servers[:at], gpus - sizes[0], *servers[at + 1 :]], sizes[1:])
        for at, gpus in enumerate(servers)
        if gpus >= sizes[0]
    )


def numbered(gpus: list[int]) -> list[list[int]]:
    """Servers of so many GPUs, numbered one after the other."""
    ends = np.cumsum(gpus).tolist()
    return [list(range(end - count, end)) for end, count in zip(ends, gpus, strict=True)]


def test_gangs_of_powers_of_two_are_counted_exactly_if_they_fit_on_one_server_each() -> None:
    for seed in range(instances(500, 60)):
        draw = np.random.default_rng(seed)
        servers = (2 ** draw.integers(0, 3, draw.integers(2, 5))).tolist()
        room = Room(numbered(servers), [1, 2, 4])
        counted: list[int] = []
        for size in (2 ** draw.integers(0, 3, 6)).tolist():
            fits = fit(servers, [*counted, size])
            assert room.count(size) == fits
            counted += [size] if fits else []
        given = room.give(counted, [()] * len(counted))
        server_of = {number: at for at, numbers in enumerate(numbered(servers)) for number in numbers}
        assert [len(gpus) for gpus in given] == counted
        assert all(len({server_of[number] for number in gpus}) == 1 for gpus in given)
        assert len({number for gpus in given for number in gpus}) == sum(counted)


def test_gangs_stand_anywhere_unless_they_must_stand_on_one_server() -> None:
    """Servers of 2 and 2 GPUs; one of 1 GPU and one of 3 fit only anywhere."""
    room = Room(numbered([2, 2]), [])
    assert [room.count(1), room.count(3), room.full] == [True, True, True]
    assert room.give([1, 3], [(), ()]) == [(3,), (0, 1, 2)]
    room = Room(numbered([2, 2]), [1, 3])
    assert [room.count(1), room.count(3), room.full] == [True, False, False]


def test_larger_gangs_choose_first_and_among_equals_those_that_keep_their_gpus() -> None:
    """A gang of 2 had GPUs 1 and 2. Two jobs had GPUs 3 and 2; the latter gets the lowest that is left."""
    room = Room(numbered([5]), [])
    assert room.give([1, 1, 1, 2], [(), (3,), (2,), (1, 2)]) == [(0,), (3,), (4,), (1, 2)]


def test_gpus_that_are_away_are_not_given() -> None:
    room = Room([[0], [2, 3]], [])
    assert room.give([2, 1], [(0, 1), ()]) == [(0, 2), (3,)]
