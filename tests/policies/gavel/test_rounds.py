"""Rounds of Gavel against runs of the authors' simulator, a naive twin, and what must hold in every round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from ray_sim.engine.states import UnfitStateError
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.ledger import LiveJobs
from ray_sim.policies.gavel.rounds import RoundRules, Rounds
from tests.policies.gavel.naive_rounds import NaiveRounds, Played, World, random_world
from tests.policies.gavel.recorded import RecordedRun, load, members, names, play, replay
from tests.proofs import instances

MOST_ROUNDS = 120


# Runs of the authors' simulator


def test_the_first_rounds_of_the_artifact_evaluation_by_hand(shared_data: Path) -> None:
    """15 jobs count 180 s each on a type: Q = 2,700 s. Two V100s run 360 s each: Q = 3,420 s.

    Job 2 ran, so its priority is .284/(540/3,420) = 1.80; job 0 did not: .282/(180/3,420) = 5.36.
    """
    run = load(shared_data, "artifact_evaluation_2-2-2_max_min_fairness_perf")
    rounds = Rounds([[1] * n for n in run.capacity], RoundRules())
    v100 = 2
    steps = play(rounds, run.jobs, lambda now: run.shares(rounds.computations, now))

    next(steps)
    assert rounds.ledger.type_received_s[v100] == 2700
    assert rounds.ledger.entries.share[[0, 2], v100] == pytest.approx([0.282, 0.284], abs=5e-4)
    assert rounds.leases.member[rounds.leases.type == v100, 0].tolist() == [2, 4]

    next(steps)
    assert rounds.ledger.type_received_s[v100] == pytest.approx(3420, abs=0.2)
    priority = rounds.ledger.priority()[:, v100]
    assert priority[[0, 2]] == pytest.approx([5.36, 1.80], abs=5e-3)
    assert rounds.leases.member[rounds.leases.type == v100, 0].tolist() == [10, 0]


def repeats(run: RecordedRun, name: str) -> None:
    """Job times, computations, rounds, GPUs and lease extensions of a run are those recorded, to the bit."""
    found = replay(run, name)
    assert found.jct_s == run.jct_s
    assert found.computed_s == [each["time"] for each in run.computed]
    assert found.played == run.played
    assert found.rounds.computations == len(run.computed)
    assert found.rounds.rounds == sum(bool(gpus) for _, gpus in run.played)
    assert (found.rounds.extensions, found.rounds.extendable) == lease_extensions(run)


def lease_extensions(run: RecordedRun) -> tuple[int, int]:
    """Entries with the same GPUs in two rounds, and entries of the first of the two with a live job."""
    end_s = run.jobs.arrival_s + run.jct_s
    extended = live = 0
    for (_, before), (start_s, after) in pairwise(run.played):
        extended += sum(after.get(name) == gpus for name, gpus in before.items())
        live += sum(max(end_s[[*members(name)]]) > start_s + 1e-6 for name in before)
    return extended, live


@pytest.mark.parametrize(
    "name",
    [
        "artifact_evaluation_2-2-2_max_min_fairness_perf",
        "minimize_makespan_12-12-12_max_min_fairness",
        "multi40_4-4-4_fifo_perf",
        "single60_2-2-2_max_min_fairness_packed",
        "single60_4-4-4_gandiva",
    ],
)
def test_a_run_of_the_authors_is_repeated_to_the_bit(shared_data: Path, name: str) -> None:
    repeats(load(shared_data, name), name)


@pytest.mark.long
def test_every_run_of_the_authors_is_repeated_to_the_bit(shared_data: Path) -> None:
    found = names(shared_data)
    assert len(found) == 34
    for name in found:
        repeats(load(shared_data, name), name)


# The naive twin, and what must hold


def rounds_of(world: World) -> Rounds:
    servers = [[1] * count for count in world.capacity]
    return Rounds(servers, world.rules, world.seed, world.pair_speed if world.packed else None)


def shares_of(world: World, rounds: Rounds) -> Callable[[JobsNow], FloatArray]:
    def shares(now: JobsNow) -> FloatArray:
        entries = [(job,) for job in now.job.tolist()] + [tuple(now.job[pair].tolist()) for pair in now.pairs]
        drawn = [world.shares(rounds.computations, entry) for entry in entries]
        return np.array(drawn).reshape(-1, len(world.capacity))

    return shares


def played(world: World) -> Played:
    """What `Rounds` did, in the form of the twin."""
    result, rounds = Played(), rounds_of(world)
    shares = shares_of(world, rounds)

    def noted(now: JobsNow) -> FloatArray:
        result.computed_s.append(rounds.clock_s)
        return shares(now)

    for ended in islice(play(rounds, world.jobs, noted), MOST_ROUNDS):
        for job, end_s, finished in zip(*(each.tolist() for each in ended), strict=True):
            result.ends[job] = end_s, finished
        columns = (rounds.leases.member, rounds.leases.type, rounds.leases.gpus)
        held = {
            tuple(job for job in member if job >= 0): (type_, [number for number in gpus if number >= 0])
            for member, type_, gpus in zip(*(column.tolist() for column in columns), strict=True)
        }
        result.rounds.append((rounds.clock_s, held))
    result.extensions, result.extendable = rounds.extensions, rounds.extendable
    return result


def test_rounds_equal_a_naive_twin() -> None:
    """Among the worlds are pairs that end apart, dropped jobs and jobs that no computation has seen."""
    pairs = drops = ends = 0
    for seed in range(instances(200, 40)):
        world = random_world(seed)
        found, naive = played(world), NaiveRounds(world).play(MOST_ROUNDS)
        assert found.rounds == naive.rounds, seed
        assert found.computed_s == naive.computed_s, seed
        assert found.ends.items() <= naive.ends.items(), seed
        assert (found.extensions, found.extendable) == (naive.extensions, naive.extendable), seed
        pairs += any(len(entry) == 2 for _, held in found.rounds for entry in held)
        drops += not all(finished for _, finished in found.ends.values())
        ends += len(found.ends) == len(world.jobs.row)
    assert min(pairs, drops, ends) > 0


def held_gpus(rounds: Rounds) -> list[tuple[int, int]]:
    """Type and number of each GPU that is held."""
    leases = rounds.leases
    return [
        (t, n)
        for t, gpus in zip(leases.type.tolist(), leases.gpus.tolist(), strict=True)
        for n in gpus
        if n >= 0
    ]


@pytest.mark.parametrize("one_server", [False, True])
def test_gpus_and_jobs_are_in_one_entry_each_while_jobs_fail_and_servers_leave(one_server: bool) -> None:
    for seed in range(instances(60, 15)):
        world = random_world(seed)
        draw = np.random.default_rng(seed)
        servers = [[2] * (count // 2) + [1] * (count % 2) for count in world.capacity]
        rules = replace(world.rules, one_server=one_server)
        rounds = Rounds(servers, rules, seed, world.pair_speed if world.packed else None)
        there = [np.ones(count, np.bool_) for count in world.capacity]
        for _ in islice(play(rounds, world.jobs, shares_of(world, rounds)), MOST_ROUNDS):
            leases, held = rounds.leases, held_gpus(rounds)
            assert len(set(held)) == len(held)
            assert all(there[type_][number] for type_, number in held)
            jobs = leases.member[leases.member >= 0]
            assert len(np.unique(jobs)) == len(jobs)
            assert set(jobs.tolist()) <= set(rounds.ledger.jobs.row.tolist())
            gpus = world.jobs.gpus[leases.member[:, 0]]
            assert np.array_equal((leases.gpus >= 0).sum(axis=1), gpus)
            if one_server:
                widest = [len({number // 2 for number in row if number >= 0}) for row in leases.gpus.tolist()]
                assert not any(width > 1 for width in widest)
            for type_ in range(len(there)):
                there[type_] = draw.random(len(there[type_])) < 0.8
                rounds.set_there(type_, there[type_])
            if len(jobs) and draw.random() < 0.2:
                at_s = draw.uniform(rounds.clock_s, rounds.end_s)
                rounds.fail(int(draw.choice(jobs)), at_s, steps_left=float(draw.integers(1, 300)))
            if len(jobs) and draw.random() < 0.05:
                rounds.remove(int(draw.choice(jobs)), draw.uniform(rounds.clock_s, rounds.end_s))


def test_a_restored_state_goes_on_to_the_same_bytes() -> None:
    for seed in range(instances(60, 10)):
        world = random_world(seed)
        rounds, other = rounds_of(world), rounds_of(world)
        whole = play(rounds, world.jobs, shares_of(world, rounds))
        before = len(list(islice(whole, int(np.random.default_rng(seed).integers(1, 12)))))
        other.restore(rounds.state())
        same(rounds.state(), other.state())
        rest = play(other, world.jobs, shares_of(world, other))
        for ended, again in zip(islice(whole, MOST_ROUNDS - before), rest, strict=False):
            assert [each.tolist() for each in ended] == [each.tolist() for each in again]
            same(rounds.state(), other.state())


def same(state: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> None:
    assert state.keys() == other.keys()
    for name, array in state.items():
        assert array.dtype == other[name].dtype, name
        assert array.tobytes() == other[name].tobytes(), name


# Small worlds by hand


def jobs(
    speed: list[list[float]], steps: list[float], gpus: list[int] | None = None, first: int = 0
) -> LiveJobs:
    """Jobs that come at 0 s, from a row on."""
    count = len(speed)
    return LiveJobs(
        row=first + np.arange(count),
        arrival_s=np.zeros(count),
        gpus=np.array(gpus or [1] * count),
        weight=np.ones(count),
        steps_left=np.array(steps),
        speed=np.array(speed),
    )


def started(
    new: LiveJobs,
    servers: list[list[int]],
    shares: Sequence[Sequence[float]],
    pair_speed: float = 0,
    published: bool = False,
    one_server: bool = False,
    reset_s: float = 1920.0,
) -> Rounds:
    """Rounds of jobs that came at 0 s, with the first begun; with a speed of pairs jobs are packed."""

    def speed(pairs: IntArray) -> FloatArray:
        return np.full((len(pairs), 2, len(servers)), pair_speed)

    rules = RoundRules(published=published, one_server=one_server, reset_s=reset_s)
    rounds = Rounds(servers, rules, pair_speed=speed if pair_speed else None)
    rounds.add(new)
    rounds.take(np.array(shares))
    rounds.begin()
    return rounds


def test_a_round_ends_with_whole_steps_and_gpus_stay_held() -> None:
    """360 s at .3/s are 108 steps, at .007/s 2 steps (285.7 s); the round ends at 360 s."""
    rounds = started(jobs([[0.3], [0.007]], [1000, 10]), [[2]], [[1], [1]])
    rounds.run()
    assert rounds.leases.steps[:, 0].tolist() == [108, 2]
    assert rounds.leases.ends_s[:, 0].tolist() == [108 / 0.3, 2 / 0.007]
    assert len(rounds.book().job) == 0
    assert (rounds.clock_s, rounds.ledger.jobs.steps_left.tolist()) == (108 / 0.3, [892, 8])


def test_a_pause_leaves_less_time_and_another_speed_gives_other_steps() -> None:
    """(360 - 60) x .1 = 30 steps, which end at 60 + 300 s; at .05/s 15 steps."""
    for speed, steps in ((0.1, 30), (0.05, 15)):
        rounds = started(jobs([[1.0]], [1000]), [[1]], [[1]])
        rounds.run(speed=np.array([[speed, 0]]), pause_s=np.array([60.0]))
        assert (rounds.leases.steps[0, 0], rounds.end_s) == (steps, 360)


def test_a_step_longer_than_the_round_is_done_and_as_published_never() -> None:
    """At .001/s a step takes 1,000 s. The authors' simulator drops the job after five rounds without one."""
    new = jobs([[0.001]], [3])
    rounds = started(new, [[1]], [[1]])
    rounds.run()
    rounds.book()
    assert (rounds.clock_s, rounds.ledger.jobs.steps_left.tolist()) == (1000, [2])

    rounds = started(new, [[1]], [[1]], published=True)
    for _ in range(4):
        rounds.run()
        assert len(rounds.book().job) == 0
        rounds.begin()
    rounds.run()
    ended = rounds.book()
    assert (ended.job.tolist(), ended.end_s.tolist(), ended.finished.tolist()) == ([0], [0], [False])


def test_only_rounds_running_without_a_step_drop_a_job() -> None:
    """Four rounds at .001/s, one at 1/s, four at .001/s: no five running."""
    rounds = started(jobs([[1.0]], [9000]), [[1]], [[1]], published=True)
    for speed in [0.001] * 4 + [1.0] + [0.001] * 4:
        rounds.run(speed=np.array([[speed, 0]]))
        assert len(rounds.book().job) == 0
        rounds.begin()
    assert rounds.ledger.jobs.steps_left.tolist() == [9000 - 360]


def test_of_equal_priority_and_deficit_the_larger_share_runs() -> None:
    """Shares 1/4 and 1/2, received 180 s and 180 + 180 s, so that job 1 stands at an equal priority."""
    rounds = started(jobs([[1.0], [1.0]], [9000, 9000]), [[1]], [[0.25], [0.5]])
    assert rounds.leases.member[:, 0].tolist() == [1]
    rounds.run()
    rounds.fail(1, 180.0, steps_left=9000)
    rounds.book()
    assert np.ptp(rounds.ledger.priority()) == 0
    assert rounds.begin().member[:, 0].tolist() == [1]


def test_the_second_of_a_pair_goes_on_alone_and_as_published_waits() -> None:
    """Together both do .1/s, alone .2/s. Job 0 has 10 steps, so it ends at 100 s.

    Job 1 has done 10 by then, and does .2 x 260 = 52 more. As published it does 36, and job 0 ends with it.
    """
    new, shares = jobs([[0.2], [0.2]], [10, 1000]), [[0], [0], [1]]
    rounds = started(new, [[1]], shares, pair_speed=0.1)
    rounds.run()
    assert rounds.leases.steps.tolist() == [[10, 62]]
    ended = rounds.book()
    assert (ended.job.tolist(), ended.end_s.tolist(), rounds.clock_s) == ([0], [100], 360)

    rounds = started(new, [[1]], shares, pair_speed=0.1, published=True)
    rounds.run()
    assert rounds.leases.steps.tolist() == [[10, 36]]
    ended = rounds.book()
    assert (ended.job.tolist(), ended.end_s.tolist(), rounds.clock_s) == ([0], [360], 360)


def test_idle_time_counts_as_received_only_as_published() -> None:
    """Job 0 runs to 100 s, job 1 comes at 500 s and runs 360 s: to 760 s after the last end."""
    for published, received_s in ((False, 360), (True, 760)):
        rounds = started(jobs([[1.0]], [100]), [[1]], [[1]], published=published)
        rounds.run()
        rounds.book()
        rounds.begin()
        rounds.clock_s = 500.0
        rounds.add(jobs([[1.0]], [1000], first=1))
        rounds.take(np.array([[1.0]]))
        rounds.begin()
        rounds.run()
        rounds.book()
        assert rounds.ledger.entries.received_s.tolist() == [[180 + received_s]]


def test_computations_wait_for_the_reset_interval_but_for_the_first_and_the_last() -> None:
    """At 0 s a job comes. One that comes at 1,000 s is seen at once, as the last computation was at 0 s.

    A third, at 1,500 s, is seen at 1,000 + 1,920 s, or at once if nothing runs and no more jobs will come.
    """
    rounds = started(jobs([[1.0]], [9000]), [[1]], [[1]])
    assert not rounds.due(coming=True)
    rounds.clock_s = 1000.0
    rounds.add(jobs([[1.0]], [9000], first=1))
    assert rounds.due(coming=True)
    rounds.take(np.array([[1.0], [0.0]]))
    rounds.begin()
    rounds.clock_s = 1500.0
    rounds.add(jobs([[1.0]], [9000], first=2))
    assert not rounds.due(coming=True)
    rounds.clock_s = 2920.0
    assert rounds.due(coming=True)

    rounds.clock_s = 1500.0
    rounds.set_there(0, np.array([False]))
    rounds.begin()
    assert not rounds.due(coming=True)
    assert rounds.due(coming=False)


def test_a_job_that_fails_ends_for_this_round_and_one_that_vanishes_leaves() -> None:
    """Job 0 fails at 50 s with 700 steps left, job 1 vanishes at 60 s: the round ends then."""
    rounds = started(jobs([[1.0], [1.0]], [1000, 1000]), [[2]], [[1], [1]])
    rounds.run()
    rounds.fail(0, 50.0, steps_left=700)
    rounds.remove(1, 60.0)
    assert len(rounds.book().job) == 0
    assert rounds.clock_s == 60
    assert rounds.ledger.jobs.steps_left.tolist() == [700]
    assert rounds.ledger.entries.received_s.tolist() == [[180 + 50]]
    assert rounds.ledger.type_received_s.tolist() == [360 + 50 + 60]


def test_jobs_leave_a_server_to_a_gang_that_needs_one() -> None:
    """Two servers of 2. Two jobs of 1 GPU stand on the first; they move to the second for a gang of 2."""
    rounds = started(jobs([[1.0], [1.0]], [9000, 9000]), [[2, 2]], [[1], [1]], one_server=True, reset_s=0)
    assert held_gpus(rounds) == [(0, 0), (0, 1)]
    rounds.run()
    rounds.book()
    rounds.add(jobs([[1.0]], [9000], gpus=[2], first=2))
    rounds.take(np.array([[1.0], [1.0], [1.0]]))
    leases = rounds.begin()
    assert leases.gpus.tolist() == [[2, -1], [3, -1], [0, 1]]
    assert leases.kept.tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("name", "value"),
    [("leases.type", 1), ("leases.entry", 1), ("leases.gpus", 1), ("own.clock_s", -1.0), ("own.random", -1)],
)
def test_a_state_that_no_run_leads_to_is_refused(name: str, value: float) -> None:
    rounds = started(jobs([[1.0]], [9000]), [[1]], [[1]])
    state = rounds.state()
    state[name][...] = value
    with pytest.raises(UnfitStateError):
        rounds.restore(state)
