"""Jobs that slow each other on shared servers: worked examples, and naive twins of speeds and whole runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, RUNNING, WORKER
from ray_sim.model.cluster import LinkChanges
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.interference import MOST_TASKS, InterferenceProfile
from ray_sim.model.training_progress import Nic, placement_progress
from ray_sim.model.units import US_PER_S
from ray_sim.policies.registry import create_policy
from tests.figures import elastic_of
from tests.interfering_worlds import interference, interfering_world, naive_slowdown
from tests.proofs import instances
from tests.scripted import EVENTS, at_times, scripted
from tests.training import profile
from tests.worlds import Job, cluster_of, column_of, job_table, replay, times_of

J1, J2 = 0, 1
BOTH_ON_ONE = [(0, WORKER, 1), (0, PARAMETER_SERVER, 1)]
TOGETHER = scripted(lambda view: Decision.of({J1: BOTH_ON_ONE, J2: BOTH_ON_ONE}), wake=Wake.ARRIVAL)
LONE = profile(num_workers=1)
"""2,000 samples in steps of 100: 10 s of training and 2 x 0.4 s of transfer on one server, 216 s in all."""


def two_jobs(
    loads: InterferenceProfile, submit_s: tuple[float, float] = (0, 0), sockets: list[int] | None = None
) -> World:
    """Jobs of the types a and b, one server with four places."""
    return interfering_world(submit_s, [("a", LONE), ("b", LONE)], [4], loads, sockets=sockets)


def together_from(second_s: float) -> Callable[[View], Decision]:
    return at_times({0.0: Decision.of({J1: BOTH_ON_ONE}), second_s: Decision.of({J2: BOTH_ON_ONE})})


def test_the_slowdown_of_the_worked_example() -> None:
    # Load (0.9, 0.3), own part (0.5, 0.1), sensitivity (0.5, 1): 1 + 0.5 x 0.4 + 1 x 0.2 = 1.4. b heeds
    # nothing.
    loads = interference({"a": (0.5, 0.1), "b": (0.4, 0.2)}, {"a": (0.5, 1.0), "b": (0.0, 0.0)})
    world = two_jobs(loads)
    result = replay(world, TOGETHER)
    # b trains its 216 s; by then a has done 216 / 1.4 = 154.286 s, and does the rest alone: 216 + 61.714.
    assert times_of(result) == {"J1": (0, pytest.approx(277.714286, abs=2e-6)), "J2": (0, 216)}
    slowdown = column_of(result, "interference_slowdown")
    assert slowdown == {"J1": pytest.approx(277.714286 / 216), "J2": 1.0}
    assert elastic_of(result).interference_share == pytest.approx(61.714286 / (277.714286 + 216))


def test_counted_further_tasks_of_a_job_slow_it_and_the_first_of_each_role_do_not() -> None:
    # a stands alone on a server with two workers and two parameter servers. The second worker asks for 0.5
    # and the second parameter server for 0.25 of the channel, at a sensitivity of 2: 1 + 2 x 0.75 = 2.5.
    loads = interference({"a": [0.5]}, {"a": [2.0]}, {"a": [0.25]}, channels=["cpu"])
    everything = [(0, WORKER, 2), (0, PARAMETER_SERVER, 2)]
    whole = scripted(lambda view: Decision.of({J1: everything}), wake=Wake.ARRIVAL)

    def slowdown(own_tasks: int) -> object:
        job = profile(num_workers=2, num_ps=2)
        world = interfering_world((0,), [("a", job)], [4], replace(loads, own_tasks=own_tasks))
        return column_of(replay(world, whole), "interference_slowdown")["J1"]

    assert slowdown(MOST_TASKS) == 1
    assert slowdown(1) == pytest.approx(2.5)


def test_a_newcomer_slows_and_a_leaver_frees() -> None:
    # Each slows the other by 2 while they are together: a alone until 100 s, together until a ends at
    # 100 + 2 x 116 = 332 s; b has done 116 of 216 s by then and ends at 432 s.
    loads = interference({"a": (1, 0), "b": (1, 0)}, {"a": (1, 0), "b": (1, 0)})
    result = replay(two_jobs(loads, (0, 100)), scripted(together_from(100), wake=EVENTS | Wake.REVIEW))
    (first, end_of_first), (second, end_of_second) = times_of(result).values()
    assert (first, second) == (0, 100)
    assert end_of_first == pytest.approx(332)
    assert end_of_second == pytest.approx(432)


def test_a_channel_between_sockets_needs_two_of_them() -> None:
    loads = interference({"a": (1, 0), "b": (1, 0)}, {"a": (1, 0), "b": (1, 0)}, between_sockets=["cpu"])
    assert times_of(replay(two_jobs(loads), TOGETHER)) == {"J1": (0, 216), "J2": (0, 216)}
    assert times_of(replay(two_jobs(loads, sockets=[2]), TOGETHER)) == {"J1": (0, 432), "J2": (0, 432)}


def test_the_slowest_server_rules() -> None:
    # J1 has a worker on s0, alone, and its parameter server on s1, beside J2.
    loads = interference({"a": (0, 0), "b": (0.5, 0)}, {"a": (2, 0), "b": (0, 0)})
    world = interfering_world((0, 0), [("a", LONE), ("b", LONE)], [2, 4], loads)
    apart = {J1: [(0, WORKER, 1), (1, PARAMETER_SERVER, 1)], J2: [(1, WORKER, 1), (1, PARAMETER_SERVER, 1)]}
    simulation = Simulation(world, scripted(lambda view: Decision.of(apart), wake=Wake.ARRIVAL))
    assert simulation.advance() is not None
    simulation.apply(Decision.of(apart))
    # 100 samples take 10 s and 2 x 4 s between servers, twice as long beside J2.
    assert simulation._core.ledger.rate[J1] * US_PER_S == pytest.approx(100 / (18 * 2))


@pytest.mark.parametrize("nic", ["per_task", "per_link", "per_server"])
def test_links_slow_down_and_recover(nic: str) -> None:
    # 20 steps of 10 + 2 x 4 s between servers; from 36 to 72 s the bandwidth is a quarter: 10 + 2 x 16 =
    # 42 s. Two steps are done at 36 s, 36 / 42 of one in the slow span: 17.142857 steps of 18 s are left.
    changes = LinkChanges(
        time_us=np.array([36, 72]) * US_PER_S, server=np.array([1, 1]), bandwidth=np.array([0.25, 1.0])
    )
    world = interfering_world((0,), [("a", LONE)], [1, 1], None, {"nic": nic}, changes)
    apart = Decision.of({J1: [(0, WORKER, 1), (1, PARAMETER_SERVER, 1)]})
    result = replay(world, scripted(lambda view: apart, wake=Wake.ARRIVAL))
    assert times_of(result)["J1"][1] == pytest.approx(72 + (20 - 2 - 36 / 42) * 18, abs=1e-5)
    inside = Decision.of({J1: BOTH_ON_ONE})
    roomy = interfering_world((0,), [("a", LONE)], [2, 2], None, {"nic": nic}, changes)
    assert times_of(replay(roomy, scripted(lambda view: inside, wake=Wake.ARRIVAL)))["J1"] == (0, 216)


def test_jobs_share_the_interfaces_of_servers() -> None:
    # Three jobs between the same two servers: each has a third of both interfaces, 10 + 2 x 12 s a step.
    # A fourth job inside one server does not use the interface.
    world = interfering_world((0,) * 4, [("a", LONE)] * 4, [5, 3], None, {"nic": "per_server"})
    placed = {job: [(0, WORKER, 1), (1, PARAMETER_SERVER, 1)] for job in range(3)} | {3: BOTH_ON_ONE}
    result = replay(world, scripted(lambda view: Decision.of(placed), wake=Wake.ARRIVAL))
    assert times_of(result) == {"J1": (0, 680), "J2": (0, 680), "J3": (0, 680), "J4": (0, 216)}


def random_profile(draw: np.random.Generator) -> InterferenceProfile:
    """Three types on three channels, of which one is between sockets."""
    names, channels = ("a", "b", "c"), ("cpu", "qpi", "nic")

    def table(high: float) -> dict[str, list[float]]:
        return {name: draw.uniform(0, high, 3).round(3).tolist() for name in names}

    return interference(table(1), table(2), table(0.5), channels, ["qpi"])


def random_world(draw: np.random.Generator, own_tasks: int) -> tuple[World, InterferenceProfile, list[int]]:
    """Up to six jobs of drawn types on up to three servers with one or two sockets."""
    loads = replace(random_profile(draw), own_tasks=own_tasks)
    n, servers = int(draw.integers(2, 7)), int(draw.integers(1, 4))
    jobs = [
        (
            str(draw.choice(["a", "b", "c"])),
            profile(num_workers=2, samples=float(draw.integers(10**4, 10**6))),
        )
        for _ in range(n)
    ]
    sockets = draw.integers(1, 3, servers).tolist()
    nic = str(draw.choice(["per_task", "per_server"]))
    world = interfering_world(
        (0,) * n, jobs, [8] * servers, loads, {"nic": nic, "slot_s": 50}, sockets=sockets
    )
    return world, loads, sockets


def random_places(draw: np.random.Generator, world: World) -> dict[int, list[tuple[int, int, int]]]:
    """Some jobs with up to two workers and a parameter server anywhere they fit, others with nothing."""
    free = (world.arrays.capacity[:, 0] // 1000).tolist()
    places: dict[int, list[tuple[int, int, int]]] = {}
    for job in range(len(world.table)):
        tasks: dict[tuple[int, int], int] = {}
        for role in (WORKER, PARAMETER_SERVER, WORKER)[: int(draw.choice([0, 2, 3]))]:
            fitting = [server for server, places_left in enumerate(free) if places_left]
            if not fitting:
                break
            server = int(draw.choice(fitting))
            free[server] -= 1
            tasks[server, role] = tasks.get((server, role), 0) + 1
        roles = {role for _, role in tasks}
        whole = roles == {WORKER, PARAMETER_SERVER}
        places[job] = sorted((*key, count) for key, count in tasks.items()) if whole else []
    return places


@pytest.mark.parametrize("own_tasks", [1, MOST_TASKS])
def test_speeds_equal_a_naive_recomputation_of_everybody(own_tasks: int) -> None:
    for number in range(instances(1_250, per_commit=25)):
        _compare_speeds(np.random.default_rng((20261123, number)), own_tasks)


def _compare_speeds(draw: np.random.Generator, own_tasks: int) -> None:
    """Four random placements of everybody in a random world."""
    world, loads, sockets = random_world(draw, own_tasks)
    training = world.table.training
    assert training is not None
    names = training.model_names
    types = [loads.types.index(names[model]) for model in training.model]
    simulation = Simulation(world, scripted(lambda view: Decision(), wake=Wake.SLOT))
    for _ in range(4):
        view = simulation.advance()
        if view is None:
            break
        ledger = simulation._core.ledger
        alive = np.isin(ledger.status, (1, RUNNING))
        places = {job: rows for job, rows in random_places(draw, world).items() if alive[job]}
        holding = ledger.status == RUNNING
        simulation.apply(Decision.of({job: rows for job, rows in places.items() if rows or holding[job]}))
        held = {job: {(s, role): n for s, role, n in rows} for job, rows in places.items() if rows}
        spanning = [len({server for server, _ in tasks}) > 1 for tasks in held.values()]
        links = np.ones(len(world.cluster))
        if world.params["nic"] == "per_server":
            for server in range(len(links)):
                uses = [any(at == server for at, _ in tasks) for tasks in held.values()]
                links[server] = max(1, sum(a and b for a, b in zip(uses, spanning, strict=True)))
        alone = placement_progress(
            training, world.cluster.speed, Nic[str(world.params["nic"]).upper()], links=links
        )
        for job in held:
            expected = alone.rates(simulation._core.placements, np.array([job]))[0]
            expected /= naive_slowdown(loads, held, types, sockets, job)
            assert ledger.rate[job] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("policy", ["drf", "tetris", "optimus", "fifo"])
def test_no_interference_is_the_world_without(policy: str) -> None:
    jobs = [
        ("a", profile(num_workers=2)),
        ("b", profile(num_workers=1)),
        ("a", profile(num_workers=3, num_ps=2)),
    ]
    silent = interference({"a": (1, 1), "b": (1, 1)}, {"a": (0, 0), "b": (0, 0)})
    params = {"remaining": "known"} if policy == "optimus" else {}
    worlds = [interfering_world((0, 5, 9), jobs, [4, 4], loads, {"slot_s": 10}) for loads in (silent, None)]
    with_it, without = (run_world(world, create_policy(policy, params)) for world in worlds)
    assert with_it.jobs.drop("interference_slowdown").equals(without.jobs)
    assert elastic_of(with_it).interference_share == 0.0
    assert elastic_of(without).interference_share is None


def test_types_without_a_profile_are_named() -> None:
    loads = interference({"a": (1, 0)}, {"a": (1, 0)})
    with pytest.raises(InvalidScenarioError, match=r"model b: has no type[\s\S]*the types are a;"):
        two_jobs(loads)


def test_jobs_that_do_not_heed_them_refuse_interference_and_links() -> None:
    loads = interference({"a": (1, 0)}, {"a": (1, 0)})
    never = LinkChanges(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    for fact in ({"interference": loads}, {"links": never}):
        servers = replace(cluster_of([4]), **fact)
        with pytest.raises(InvalidScenarioError, match=rf"{next(iter(fact))}: has no effect on rigid jobs"):
            build_world(job_table([Job(0, 1, 1)]), servers)


def test_loads_beyond_64_bits_are_refused_instead_of_wrapping_around() -> None:
    """Twelve jobs of 2^20 workers that demand nothing, each of which asks for 1,000 times the channel."""
    crowd = replace(profile(num_workers=2**20), worker_demand=np.array([[0]]))
    types = interference({"a": [1000.0]}, {"a": [0.001]}, channels=("cpu",))
    jobs = [("a", crowd)] * 12
    with pytest.raises(
        InvalidScenarioError, match=r"tasks on server 's0' ask for more than .* times its channel 'cpu'"
    ):
        run_world(interfering_world([0.0] * 12, jobs, [20], types), create_policy("fifo"))


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
