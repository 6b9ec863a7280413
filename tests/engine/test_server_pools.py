"""GPU types as pools of servers: who may run where, and what waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision
from ray_sim.engine.world import World
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InfeasibleDecisionError, InvalidScenarioError
from ray_sim.model.result import RunResult
from tests.proofs import instances
from tests.random_worlds import PolicyChoice, job_lists, policies
from tests.scripted import at_times, scripted
from tests.worlds import Job, cluster_of, events_of, job_table, replay, times_of

Lists = Sequence[str | None]


def typed_cluster(gpus: Sequence[float], types: Lists, vc: Sequence[str] | None = None) -> Cluster:
    """Servers s0, s1, ... with these GPUs, each of its type."""
    return replace(cluster_of(gpus, vc=vc), gpu_type=tuple(types))


def typed_world(
    jobs: Sequence[Job], lists: Lists, gpus: Sequence[float], types: Lists, **params: object
) -> World:
    """Jobs that accept these types, on servers of those."""
    columns = {"gpu_types": list(lists)}
    return build_world(job_table(jobs, columns=columns), typed_cluster(gpus, types), params=params)


def test_pools_are_the_servers_of_accepted_types_and_equal_sets_share_one() -> None:
    jobs = [Job(0, 1, 1)] * 5 + [Job(0, 0, 1)]
    world = typed_world(
        jobs, [None, "T4|V100", "|V100||T4|V100", "V100", "P100", "V100"], [1, 1, 1], ["T4", "V100", None]
    )
    arrays = world.arrays
    pools = np.split(arrays.pool_servers, arrays.pool_ptr[1:-1])
    mine = [pools[q].tolist() for q in arrays.class_pool[arrays.job_class, 0]]
    assert mine == [[0, 1, 2], [0, 1], [0, 1], [1], [], [0, 1, 2]]  # a task without GPUs goes anywhere
    assert [pool.tolist() for pool in pools] == [[0, 1, 2], [0, 1], [1], []]
    assert arrays.pool_meets.tolist() == [
        [True, True, True, False],
        [True, True, True, False],
        [True, True, True, False],
        [False, False, False, False],
    ]


def test_jobs_run_on_accepted_types_only_and_pass_no_job_whose_pool_meets_theirs() -> None:
    # J1 holds the V100 until 10, so J2 waits for it. J3 could use it too and waits behind J2, though the T4
    # is free; J4 cannot, and starts.
    jobs = [Job(0, 1, 10), Job(1, 1, 10), Job(2, 1, 10), Job(3, 1, 10)]
    lists = ["V100", "V100", "V100|T4", "T4"]
    strict = typed_world(jobs, lists, [1, 1], ["T4", "V100"])
    assert times_of(replay(strict, "fifo")) == {"J1": (0, 10), "J2": (10, 20), "J3": (13, 23), "J4": (3, 13)}
    filled = times_of(replay(strict, "fifo", backfill=True))
    assert filled == {"J1": (0, 10), "J2": (10, 20), "J3": (2, 12), "J4": (12, 22)}


@pytest.mark.parametrize(
    ("lists", "first", "second"),
    [
        (["V100|T4", "V100"], (0, 100), [(0, "start", "s0", 1), (5, "move", "s1", 1)]),
        (["V100", "V100"], (0, 101), [(0, "start", "s0", 1), (5, "stop", None, 0), (6, "start", "s0", 1)]),
        (["V100|T4", "T4"], (0, 100), [(0, "start", "s0", 1)]),
    ],
)
def test_a_waiting_job_claims_a_place_in_its_pool_and_the_loser_moves_within_its_own(
    lists: Lists, first: tuple[float, float], second: list[tuple[object, ...]]
) -> None:
    world = typed_world([Job(0, 1, 100), Job(5, 1, 1)], lists, [1, 1], ["V100", "T4"])
    result = replay(world, "srtf")
    assert times_of(result) == {"J1": first, "J2": (5, 6)}
    assert events_of(result, "J1")[1 : 1 + len(second)] == second


def test_a_job_that_accepts_no_server_is_rejected() -> None:
    world = typed_world([Job(0, 1, 1), Job(0, 1, 1)], ["P100", "T4"], [1], ["T4"])
    assert times_of(replay(world, "fifo")) == {"J1": (None, None), "J2": (0, 1)}


def test_lists_on_servers_without_types_are_refused() -> None:
    with pytest.raises(
        InvalidScenarioError, match=r"gpu_types: 2 jobs .* J2 with V100, .* cluster small .*gpu_types=ignore"
    ):
        typed_world([Job(0, 1, 1)] * 3, [None, "V100", "T4"], [1, 1], [None, None])


@pytest.mark.parametrize(("found", "text"), [("T4", "type T4"), (None, "no type")])
def test_a_decision_for_another_type_is_refused(found: str | None, text: str) -> None:
    world = typed_world([Job(0, 1, 1)], ["V100"], [1, 1], [found, "V100"])
    policy = scripted(at_times({0: Decision.of({0: [(0, 0, 1)]})}))
    with pytest.raises(
        InfeasibleDecisionError, match=f"places job J1 on server s0 of {text}; it accepts V100"
    ):
        replay(world, policy)


def _outcome(result: RunResult) -> tuple[str, str, dict[str, object]]:
    return result.jobs.drop("vc").write_csv(), result.events.write_csv(), result.summary.to_dict()["jct_s"]


@pytest.mark.slow
@given(
    job_lists(vcs=("a", "b", "c"), min_size=1),
    st.lists(st.tuples(st.sampled_from([1.0, 2.0, 4.0]), st.sampled_from("abc")), min_size=1, max_size=5),
    policies(),
)
@settings(max_examples=instances(150))
def test_types_that_part_servers_and_jobs_are_partitions(
    jobs: list[Job], servers: list[tuple[float, str]], policy: PolicyChoice
) -> None:
    gpus, labels = [gpu for gpu, _ in servers], [label for _, label in servers]
    jobs = [job._replace(gpus=max(job.gpus, 0.25)) for job in jobs if job.vc in labels]
    typed = typed_world(jobs, [job.vc for job in jobs], gpus, labels)
    parted = build_world(job_table(jobs), cluster_of(gpus, vc=labels), partition="vc")
    assert _outcome(replay(typed, policy.create())) == _outcome(replay(parted, policy.create()))


@pytest.mark.slow
@given(job_lists(min_size=1), st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=1, max_size=5), policies())
@settings(max_examples=instances(100))
def test_lists_of_all_types_change_nothing(jobs: list[Job], gpus: list[float], policy: PolicyChoice) -> None:
    types = ["T4" if server % 2 else "V100" for server in range(len(gpus))]
    named = typed_world(jobs, ["T4|V100"] * len(jobs), gpus, types)
    free = typed_world(jobs, [None] * len(jobs), gpus, types)
    assert _outcome(replay(named, policy.create())) == _outcome(replay(free, policy.create()))


@pytest.mark.slow
def test_all_small_worlds_keep_to_accepted_types_and_backfilling_leaves_no_room_unused() -> None:
    lengths = (3, 5, 2, 4)
    every = list(product((None, "T4", "V100", "T4|V100"), repeat=4))
    for lists in every[:: len(every) // instances(len(every), 51)]:
        for gpus in ((1, 2, 1, 2), (2, 2, 1, 1)):
            jobs = [Job(0, n, length) for n, length in zip(gpus, lengths, strict=True)]
            world = typed_world(jobs, lists, [2, 1, 2], ["T4", "V100", "V100"])
            for placement in ("pooled", "first_fit"):
                result = replay(world, "fifo", placement=placement, backfill=True)
                check_rows(world, result, lists, gpus, whole=placement == "first_fit")


def check_rows(world: World, result: RunResult, lists: Lists, gpus: Sequence[int], *, whole: bool) -> None:
    """No row is outside the accepted types, and at no instant the pool of a waiting job has room for it.

    With ``whole`` a gang that fits on one empty server of its pool waits for one.
    """
    types, capacity = world.cluster.gpu_type, (2, 1, 2)
    starts = result.events.filter(event="start").select("job_id", "server", "count").rows()
    rows = [(int(job[1:]) - 1, int(server[1:]), n) for job, server, n in starts]
    pools = [[s for s in range(3) if of is None or str(types[s]) in of.split("|")] for of in lists]
    assert all(server in pools[job] for job, server, _ in rows)
    times = [(start or 0, finish or 0) for start, finish in times_of(result).values()]
    for now in range(15):
        running = {job for job, (start, finish) in enumerate(times) if start <= now < finish}
        free = [capacity[s] - sum(n for job, on, n in rows if on == s and job in running) for s in range(3)]
        for job in [job for job, (start, _) in enumerate(times) if start > now]:
            single = whole and max(capacity[s] for s in pools[job]) >= gpus[job]
            rooms = [free[s] for s in pools[job]]
            assert (max(rooms) if single else sum(rooms)) < gpus[job]
