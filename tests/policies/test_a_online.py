"""A_online: where chunks go, who is served first, and who gets which parameter server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.contract.suite import check_policy
from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.kinds.chunked.increment_query import Offers
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.figures import DeadlineMisses
from ray_sim.model.result import RunResult
from ray_sim.model.units import IntArray
from ray_sim.policies.a_online import AOnline
from ray_sim.policies.registry import create_policy
from ray_sim.policies.shared.greedy_dispatch import CloudOffer
from tests.chunk_worlds import CLOUD, EDGE, ChunkJob, Server, chunk_world, runs_of
from tests.figures import chunked_of
from tests.proofs import seeds
from tests.worlds import DOWN, UP, column_of, events_of, fingerprint, replay, times_of

CLOUD_SERVER = Server(kind=CLOUD)

OPTIONS: tuple[dict[str, object], ...] = (
    {"dispatch": "least_loaded"},
    {"dispatch": "random"},
    {"queue": "fifo"},
    {"preempt": True},
    {"uploads": "ignored"},
    {"mixed_cloud": False},
    {"exact_q": True},
    {"exact_q": True, "preempt": True},
    {"deadlines": "danger"},
)
TOGETHER: tuple[dict[str, object], ...] = (
    {"dispatch": "least_loaded", "queue": "fifo"},
    {"dispatch": "random", "mixed_cloud": False},
    {"exact_q": True, "preempt": True},
    {"deadlines": "danger"},
)
"""Each option at least once."""


def run(jobs: Sequence[ChunkJob], servers: Sequence[Server], **params: object) -> RunResult:
    return replay(chunk_world(jobs, servers, slot_s=1), create_policy("a_online", params))


def servers_of(result: RunResult, job: str) -> list[str]:
    """Where each chunk of a job started."""
    rows = result.events.filter(
        (result.events["job_id"] == job)
        & (result.events["role"] == "chunk")
        & (result.events["event"] == "start")
    )
    first: list[str] = rows.group_by("count").first().sort("count")["server"].to_list()
    return first


def sent(result: RunResult) -> tuple[int, int, int]:
    """Jobs sent to edges alone, to the cloud alone, to both."""
    counts = result.summary.policy_counts or {}
    return counts["to_edge"], counts["to_cloud"], counts["mixed"]


Time = tuple[float, float]


# --- edge or cloud


EXAMPLE = ChunkJob(0, 2, 10, 2, 12, exchange_s=2)
"""Example 2.C: p = 12 at the edge, 10 in the cloud without communication; uploads of 2 and of 12 slots."""


def test_an_idle_edge_takes_the_first_chunk_and_the_cloud_the_second() -> None:
    # (2 + 12) / 2 = 7 < (12 + 10) / 2 = 11: the edge, 2-14. Then (2 + 12 + 12) / 2 = 13 > (12 + 12) / 2 = 12:
    # the cloud, with communication, 12-24.
    result = run([EXAMPLE], [Server(), CLOUD_SERVER])
    assert servers_of(result, "J1") == ["s0", "s1"]
    assert times_of(result) == {"J1": (2, 24)}
    assert sent(result) == (0, 0, 1)


def test_without_mixing_a_job_stays_where_its_first_chunk_is() -> None:
    result = run([EXAMPLE], [Server(), CLOUD_SERVER], mixed_cloud=False)
    assert servers_of(result, "J1") == ["s0", "s0"]
    assert times_of(result) == {"J1": (2, 26)}


@pytest.mark.parametrize(("length", "times"), [(10, (10, 24)), (11, (12, 22))])
def test_with_a_longer_queue_at_the_edge_all_chunks_go_to_the_cloud(length: int, times: Time) -> None:
    # A faster chunk of 10 slots leaves 8 when the upload ends: (2 + 8 + 12) / 2 = 11, a tie, which goes to
    # the edge, 10-22; the second chunk goes to the cloud, 12-24, with communication. With 9 slots 11.5 > 11:
    # both to the cloud, 12-22, without.
    result = run([ChunkJob(0, 1, length, 0, 99), EXAMPLE], [Server(), CLOUD_SERVER])
    assert times_of(result)["J2"] == times


def test_no_job_goes_to_a_cloud_that_is_too_far_away_and_all_go_where_there_is_no_edge() -> None:
    far = [ChunkJob(0, 4, 3, 1, 10**6)] * 5
    assert sent(run(far, [Server(2), CLOUD_SERVER])) == (5, 0, 0)
    result = run([ChunkJob(0, 4, 3, 1, 7, exchange_s=5)] * 5, [CLOUD_SERVER])
    # Workers of the cloud never queue: 7-10, without communication.
    assert set(times_of(result).values()) == {(7, 10)}
    assert sent(result) == (0, 5, 0)


def test_without_a_cloud_all_go_to_the_edges() -> None:
    result = run([ChunkJob(0, 4, 3, 1)] * 5, [Server(), Server()])
    assert result.summary.completed == 5
    assert sent(result) == (5, 0, 0)


def test_of_two_clouds_the_faster_one_is_taken() -> None:
    result = run([ChunkJob(0, 2, 6)], [CLOUD_SERVER, Server(kind=CLOUD, speed=2.0)])
    assert servers_of(result, "J1") == ["s1", "s1"]


# --- where at the edge


def test_jobs_that_come_together_see_each_others_chunks() -> None:
    # All of D = 1, p = 4. J1 to worker 0; J2: 4 + 4 there or 4 on worker 1; J3: 8 on both, the lowest.
    result = run([ChunkJob(0, 1, 4)] * 3, [Server(2)])
    assert times_of(result) == {"J1": (0, 4), "J2": (0, 4), "J3": (4, 8)}


def test_a_chunk_goes_where_it_delays_least_not_where_least_is_left() -> None:
    # Worker 0 has 6 s left in one chunk (D p = 6), workers 1 to 4 have 8 s in one of a job of four (D p =
    # 32). A chunk of 2 s overtakes both: 2 + 2 (6 / 6) = 4 on worker 0, 2 + 2 (8 / 32) = 2.5 on worker 1.
    jobs = [ChunkJob(0, 1, 6), ChunkJob(0, 4, 8), ChunkJob(0, 1, 2)]
    servers = [Server(workers=5)]
    greedy = run(jobs, servers)
    assert times_of(greedy)["J3"] == (0, 2)
    assert column_of(greedy, "finish_s") == {"J1": 6, "J2": 10, "J3": 2}
    least = run(jobs, servers, dispatch="least_loaded")
    assert column_of(least, "finish_s") == {"J1": 8, "J2": 8, "J3": 2}


def test_a_chunk_that_is_uploaded_later_is_ignored_on_demand_only() -> None:
    # Example 2.B: J1 (2 s) comes to worker 0 at 3 s. J2 (3 s) can begin at 1: without J1, 1 + 3 = 4 on either
    # worker, so it goes to worker 0: 1-4 before J1, or preempted 1-3, 5-6. With J1 it goes to the other one.
    jobs = [ChunkJob(0, 1, 2, 3), ChunkJob(0, 1, 3, 1)]
    for params in ({}, {"exact_q": True}):
        assert column_of(run(jobs, [Server(2)], **params), "finish_s") == {"J1": 5, "J2": 4}
    assert column_of(run(jobs, [Server(2)], uploads="ignored"), "finish_s") == {"J1": 6, "J2": 4}
    preempted = run(jobs, [Server(2)], uploads="ignored", preempt=True)
    assert column_of(preempted, "finish_s") == {"J1": 5, "J2": 6}


def test_random_dispatch_draws_a_worker_for_each_chunk_by_job_and_chunk() -> None:
    jobs = [ChunkJob(0, 6, 4)] * 3

    def where(jobs: Sequence[ChunkJob], seed: int) -> list[list[tuple[float, float]]]:
        world = chunk_world(jobs, [Server(1)] * 4, slot_s=1)
        result = run_world(world, create_policy("a_online", {"dispatch": "random"}), seed=seed)
        return [runs_of(result, f"J{job}", unit) for job in (1, 2, 3) for unit in range(6)]

    assert where(jobs, 0) != where(jobs, 1)
    # A fourth job changes none of the draws of the others.
    assert where([*jobs, ChunkJob(90, 1, 4)], 0) == where(jobs, 0)


# --- who is served first


def test_the_highest_average_rate_is_served_first_and_preempts() -> None:
    # One worker. J1: D p = 1 x 9; J2: D p = 4 x 2 = 8 goes before it, J3: 1 x 10 after it.
    jobs = [ChunkJob(0, 1, 9), ChunkJob(1, 4, 2), ChunkJob(1, 1, 10)]
    result = run(jobs, [Server()], preempt=True)
    assert times_of(result) == {"J1": (0, 17), "J2": (1, 9), "J3": (17, 27)}
    assert column_of(result, "preemptions") == {"J1": 1, "J2": 0, "J3": 0}


def test_without_preemption_the_running_chunk_goes_first() -> None:
    # J1 to its end, 0-9; then by rate: J2's 9-17, J3 17-27.
    jobs = [ChunkJob(0, 1, 9), ChunkJob(1, 4, 2), ChunkJob(1, 1, 10)]
    result = run(jobs, [Server()])
    assert times_of(result) == {"J1": (0, 9), "J2": (9, 17), "J3": (17, 27)}
    fifo = run([ChunkJob(0, 1, 9), ChunkJob(1, 1, 10), ChunkJob(1, 4, 2)], [Server()], queue="fifo")
    assert times_of(fifo) == {"J1": (0, 9), "J2": (9, 19), "J3": (19, 27)}


def test_without_preemption_chunks_that_come_when_a_worker_gets_free_compete_for_it() -> None:
    # J1 is done at 5, when J3 comes, which needs no upload. J2 has waited since 1 and never run: by rate J3
    # (D p = 2) goes before it (D p = 9), 5-7, then J2 7-16. At 6 J2 would have run, and J3 would wait.
    jobs = [ChunkJob(0, 1, 5), ChunkJob(1, 1, 9), ChunkJob(5, 1, 2)]
    assert times_of(run(jobs, [Server()])) == {"J1": (0, 5), "J2": (7, 16), "J3": (5, 7)}
    late = run([*jobs[:2], ChunkJob(6, 1, 2)], [Server()])
    assert times_of(late) == {"J1": (0, 5), "J2": (5, 14), "J3": (14, 16)}


def test_jobs_of_one_chunk_on_one_worker_are_served_shortest_first() -> None:
    # 1, 2, 3, 5, 8: flow times 1, 3, 6, 11, 19, which is the least possible sum.
    jobs = [ChunkJob(0, 1, length) for length in (5, 3, 8, 1, 2)]
    assert column_of(run(jobs, [Server()]), "jct_s") == {"J1": 11, "J2": 6, "J3": 19, "J4": 1, "J5": 3}


def test_exact_increments_of_first_come_first_served_are_refused() -> None:
    with pytest.raises(InvalidScenarioError, match=r"exact_q: .* set queue=rate"):
        create_policy("a_online", {"exact_q": True, "queue": "fifo"})


def test_beta_is_what_is_left_over_d_p() -> None:
    # It is asked when jobs come and end: at 0, 3, 12 and 15. At 3 J1 (D p = 2 x 6) has 3 of 6 s left on each
    # worker, 3 / 12; J2 (D p = 9) takes the first, 3-12; at 12 only J1's 3 s there are left. Workers' means:
    # 0, 1 / 4, 1 / 8 and 0.
    result = run([ChunkJob(0, 2, 6), ChunkJob(3, 1, 9)], [Server(2)], preempt=True)
    betas = result.timeline.select("time_s", "beta").rows()
    assert betas == [(0, 0), (3, 0.25), (6, 0.25), (12, 0.125), (15, 0)]


# --- parameter servers


def test_parameter_servers_are_kept_and_then_drawn_by_job_and_slot() -> None:
    # Twenty servers of one worker and one parameter server each; twenty jobs of one chunk at once.
    jobs = [ChunkJob(0, 1, 5)] * 20
    servers = [Server(ps=1)] * 20
    given = {seed: _ps_servers(_seeded(jobs, servers, seed)) for seed in (0, 1)}
    for drawn in given.values():
        assert sorted(drawn.values()) == sorted(f"s{i}" for i in range(20))
    assert given[0] != given[1]
    assert given[0] == _ps_servers(_seeded(jobs, servers, 0))
    # A job that runs from 0 on keeps its own while others come: it is told once.
    late = [ChunkJob(0, 1, 50), *[ChunkJob(at, 1, 5) for at in range(1, 20)]]
    result = replay(chunk_world(late, servers, slot_s=1), "a_online")
    assert [event[1] for event in events_of(result, "J1") if event[1] in ("start", "move", "stop")] == [
        "start",
        "start",
    ]


def _seeded(jobs: Sequence[ChunkJob], servers: Sequence[Server], seed: int) -> RunResult:
    return run_world(chunk_world(jobs, servers, slot_s=1), create_policy("a_online"), seed=seed)


def _ps_servers(result: RunResult) -> dict[str, str]:
    rows = result.events.filter((result.events["role"] == "ps") & (result.events["event"] == "start"))
    return dict(rows.select("job_id", "server").rows())


def test_a_mixed_job_keeps_the_parameter_server_of_the_edge() -> None:
    # The job of 2.C. Its chunk at the edge runs 2-14 and has the edge's parameter server; the one in the
    # cloud goes on with it, 12-24.
    result = run([EXAMPLE], [Server(ps=1), CLOUD_SERVER])
    assert _ps_servers(result) == {"J1": "s0"}
    # Where the edge has none the chunk there stands still, and with it the job.
    assert run([EXAMPLE], [Server(ps=0), CLOUD_SERVER]).summary.unfinished == 1


def test_jobs_without_any_parameter_server_stall_and_are_named_and_counted() -> None:
    result = run([ChunkJob(0, 2, 3), ChunkJob(4, 1, 3)], [Server(ps=0)])
    assert column_of(result, "reason") == {"J1": "stalled", "J2": "stalled"}
    assert result.summary.unfinished == 2
    # J1 has had the worker from 0 on, until nothing more happens at 4.
    assert chunked_of(result).stalled_s == 4


# --- servers that go


def test_lost_chunks_are_sent_again_and_to_the_cloud_if_no_edge_is_there() -> None:
    # s0 goes at 2; J1's chunk (4 s) is sent again: to the cloud, uploaded by 5, 5-9.
    changes = [(2.0, 0, DOWN), (20.0, 0, UP)]
    world = chunk_world([ChunkJob(0, 1, 4, 0, 3)], [Server(), CLOUD_SERVER], slot_s=1, changes=changes)
    assert runs_of(replay(world, "a_online"), "J1", 0) == [(0, 2), (5, 9)]


def test_what_a_cloud_loses_of_a_job_goes_to_a_cloud_again() -> None:
    # Both chunks run in the cloud from 1 to 5; lost at 3 and back at 6: sent at 6, 7-11.
    changes = [(3.0, 1, DOWN), (6.0, 1, UP)]
    jobs = [ChunkJob(0, 2, 4, 90, 1)]
    world = chunk_world(jobs, [Server(kind=EDGE, workers=0), CLOUD_SERVER], slot_s=1, changes=changes)
    assert [runs_of(replay(world, "a_online"), "J1", unit) for unit in (0, 1)] == [[(1, 3), (7, 11)]] * 2


# --- all in all


@pytest.mark.long
@pytest.mark.parametrize("params", TOGETHER, ids=str)
def test_every_option_holds_the_contract(params: dict[str, object]) -> None:
    assert [outcome.detail for outcome in check_policy("a_online", params) if outcome.failed] == []


def random_world(seed: int, scale: int = 1, cloud: bool = True) -> World:
    """Thirty jobs on five edge servers with as many parameter servers as workers."""
    draw = np.random.default_rng(seed)
    at = np.sort(draw.integers(0, 60, 30))
    jobs = [
        ChunkJob(
            float(scale * (submit - at[0])),
            int(draw.integers(1, 6)),
            scale * int(draw.integers(1, 12)),
            scale * int(draw.integers(0, 4)),
            scale * int(draw.integers(10, 20)),
            exchange_s=float(scale * draw.integers(0, 2)),
        )
        for submit in at
    ]
    servers = [Server(2, 30, EDGE)] * 5 + [CLOUD_SERVER] * cloud
    return chunk_world(jobs, servers, slot_s=1, deadline_factor=3)


@pytest.mark.parametrize("seed", seeds(5, quick=1))
def test_scaling_all_durations_scales_all_completion_times(seed: int) -> None:
    one, three = (replay(random_world(seed, scale), "a_online") for scale in (1, 3))
    assert [3 * jct for jct in one.jobs["jct_s"]] == three.jobs["jct_s"].to_list()


def totals(world: World, result: RunResult) -> tuple[float, float]:
    """F, and the sum of the chunks' flow times; each chunk over the chunks of its job, in seconds."""
    chunks = ChunkFacts.in_world(world).chunks
    fractional = flows = 0.0
    for job, submit in enumerate(world.table.submit_us / 1e6):
        for unit in range(chunks[job]):
            runs = runs_of(result, f"J{job + 1}", unit)
            length = sum(end - begin for begin, end in runs)
            mean = sum((end - begin) * ((begin + end) / 2 - submit) for begin, end in runs) / length
            fractional += (mean + length / 2) / chunks[job]
            flows += (runs[-1][1] - submit) / chunks[job]
    return fractional, flows


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(5, quick=1))
@pytest.mark.parametrize("params", [{}, *OPTIONS], ids=str)
def test_the_chunks_flow_times_bound_the_jobs_completion_times(seed: int, params: dict[str, object]) -> None:
    """F <= sum (1/D) sum flow <= sum JCT <= D_max sum (1/D) sum flow (2.4 c); the cloud never queues."""
    world = random_world(seed)
    result = replay(world, create_policy("a_online", params))
    fractional, flows = totals(world, result)
    profile, chunks = ChunkFacts.in_world(world).times.profile, ChunkFacts.in_world(world).chunks
    jct = float(result.jobs["jct_s"].sum())
    assert fractional <= flows + 1e-9
    assert flows <= jct + 1e-9
    assert jct <= chunks.max() * flows + 1e-9
    in_cloud = result.events.filter((result.events["server"] == "s5") & (result.events["role"] == "chunk"))
    begun = in_cloud.filter(in_cloud["event"] == "start").select("job_id", "time_s").rows()
    numbers = [int(job[1:]) - 1 for job, _ in begun]
    ready = [world.table.submit_us[job] / 1e6 + profile.upload_cloud_s[job] for job in numbers]
    assert [time for _, time in begun] == ready


class Adding(AOnline):
    """Adds up the increments of all that it sends."""

    def __init__(self, preempt: bool) -> None:
        super().__init__(exact_q=True, preempt=preempt)
        self.total = 0.0

    def _greedy(
        self, count: int, whole: bool, edge: Offers, cloud: CloudOffer | None
    ) -> tuple[IntArray, bool]:
        workers, in_cloud = super()._greedy(count, whole, edge, cloud)
        at_edge = workers != (-1 if cloud is None else cloud.worker)
        increments = edge.increment[: len(workers)][at_edge[: len(workers)]].sum()
        if cloud is not None:
            increments += (~at_edge).sum() * (cloud.cost_all_in_cloud if in_cloud else cloud.cost_mixed)
        self.total += increments / 1e6 / count
        return workers, in_cloud


@pytest.mark.parametrize("seed", seeds(3, quick=1))
@pytest.mark.parametrize("preempt", [True, False])
def test_exact_increments_add_up_to_f(seed: int, preempt: bool) -> None:
    """2.4 b, in whole runs with a cloud, as long as no job stands still for want of a parameter server."""
    world, policy = random_world(seed), Adding(preempt=preempt)
    result = replay(world, policy)
    assert chunked_of(result).stalled_s == 0
    # Each is rounded to a microsecond, before it is divided by D.
    rounding = 0.5e-6 * int(ChunkFacts.in_world(world).chunks.sum())
    assert policy.total == pytest.approx(totals(world, result)[0], abs=rounding)


@pytest.mark.slow
@pytest.mark.parametrize("sites", [2, 7])
def test_any_number_of_sites_gives_the_same_bytes(sites: int) -> None:
    world = busy_chunks(seed=3)
    params: dict[str, object] = {"deadlines": "danger", "preempt": True}
    result = replay(world, create_policy("a_online", params))
    again = replay(world, create_policy("a_online", params), sites=sites)
    assert fingerprint(again) == fingerprint(result)
    # So that something is at stake: preemptions that cost, and jobs in danger.
    assert chunked_of(result).preemption_cost_s > 0
    assert (result.summary.policy_counts or {})["in_danger"] > 0


# --- deadlines

# A long job of one chunk of 6 s, uploaded for 1 s, and short ones of 2 s that come every 2 s, on one worker.
# At factor 3 the long one is due at 3 x (1 + 6) = 21, and each short one 9 s after it came.
LONG_AND_SHORT = [ChunkJob(0, 1, 6, 1, 90), *(ChunkJob(at, 1, 2, 1, 90) for at in range(0, 16, 2))]


def with_deadlines(slot_s: float | None = 1, **params: object) -> RunResult:
    world = chunk_world(LONG_AND_SHORT, [Server()], slot_s=slot_s, deadline_factor=3)
    return replay(world, create_policy("a_online", params))


def test_by_rate_a_long_job_misses_its_deadline() -> None:
    # Eight short ones from 1 to 17, each 3 s after it came, then the long one until 23.
    result = with_deadlines()
    assert result.jobs["finish_s"].to_list() == [23, 3, 5, 7, 9, 11, 13, 15, 17]
    assert chunked_of(result).deadlines == DeadlineMisses(late=1, never=0, share=1 / 9)


def test_a_job_in_danger_goes_first() -> None:
    # With slack 2 the long one is in danger when less than 12 s are left, at 10: 10 to 16. The short one that
    # it overtakes (9 to 10) is due at 17 and ends then; those that follow are due at 19, 21, 23 and end then.
    result = with_deadlines(deadlines="danger", preempt=True)
    assert result.jobs["finish_s"].to_list() == [16, 3, 5, 7, 9, 17, 19, 21, 23]
    # Without preemption it waits for the end of that short one, 9 to 11.
    waits = with_deadlines(deadlines="danger")
    assert waits.jobs["finish_s"].to_list() == [17, 3, 5, 7, 9, 11, 19, 21, 23]
    assert chunked_of(result).deadlines == DeadlineMisses(late=0, never=0, share=0)
    # The long one, and the last four: each is due in less than twice what it needs before it gets the worker.
    assert (result.summary.policy_counts or {})["in_danger"] == 5


def test_who_cannot_meet_the_deadline_any_more_does_not_go_first() -> None:
    # Slots of 4 s; a long job of 8 s, and a short one of 4 s in each slot. At factor 2 the long one is due at
    # 16 and in danger after 16 - 1.01 x 8 = 7.92, seen at 8, when it has just the time: 8 to 16.
    jobs = [ChunkJob(0, 1, 8, 0, 90), *(ChunkJob(at, 1, 4, 0, 90) for at in (0, 4, 8, 12))]
    due_at_16 = chunk_world(jobs, [Server()], slot_s=4, deadline_factor=2)
    assert replay(due_at_16, "a_online", deadlines="danger", slack=1.01).jobs["finish_s"][0] == 16
    # Due at 15 = 1.875 x 8 it is in danger after 6.92, and at 8 it is too late: it waits for the short ones.
    due_at_15 = chunk_world(jobs, [Server()], slot_s=4, deadline_factor=1.875)
    assert replay(due_at_15, "a_online", deadlines="danger", slack=1.01).jobs["finish_s"][0] == 24


def test_jobs_that_the_horizon_cuts_off_before_they_are_due_are_neither_late_nor_in_time() -> None:
    # At 16 s seven short ones are done in time; the last is due at 23 and the long one at 21.
    world = chunk_world(LONG_AND_SHORT, [Server()], slot_s=1, deadline_factor=3, horizon_s=16)
    assert chunked_of(replay(world, "a_online")).deadlines == DeadlineMisses(late=0, never=0, share=0)
    # At 22 s the long one is known to be late.
    world = chunk_world(LONG_AND_SHORT, [Server()], slot_s=1, deadline_factor=3, horizon_s=22)
    assert chunked_of(replay(world, "a_online")).deadlines == DeadlineMisses(late=0, never=1, share=1 / 9)


def test_danger_is_about_deadlines() -> None:
    with pytest.raises(InvalidScenarioError, match=r"deadlines=danger: the jobs have no deadlines; .*factor"):
        run([ChunkJob(0, 1, 3)], [Server()], deadlines="danger")


def test_chunks_that_do_not_fit_before_the_horizon_leave_their_job_unfinished() -> None:
    # Five chunks of 3 s on one worker: three of them by 10 s.
    world = chunk_world([ChunkJob(0, 5, 3)], [Server()], slot_s=1, horizon_s=10)
    result = replay(world, "a_online")
    assert column_of(result, "reason") == {"J1": "horizon"}
    assert [len(runs_of(result, "J1", unit)) for unit in range(3)] == [1, 1, 1]
