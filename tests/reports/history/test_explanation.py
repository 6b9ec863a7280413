"""Explanations of waits, also of chunks, agree with a naive replay of the events and with worked examples."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.experiments.explain import facts_of
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.model.job import TrainingProfile
from ray_sim.model.parameters import resolve
from ray_sim.model.result import RunResult
from ray_sim.reports.history.explanation import Explanation, RunExplainer
from ray_sim.reports.history.explanation_text import (
    event_rows,
    explanation_sections,
    headline_rows,
    others_rows,
    part_rows,
)
from ray_sim.reports.history.holdings import FreeCapacity, History, free_capacity, read_history
from ray_sim.reports.history.reasons import find_waits
from ray_sim.reports.run_report import run_page
from ray_sim.reports.submission_times import utc_text
from tests import history
from tests.chunk_worlds import CLOUD, EDGE, ChunkJob, Server, chunk_world
from tests.elastic_worlds import elastic_world
from tests.proofs import instances
from tests.random_worlds import PolicyChoice, policies, server_changes, worlds
from tests.reports.history.naive_reasons import naive_ahead, naive_chunk_reasons, naive_free, naive_reason
from tests.training import profile
from tests.worlds import DOWN, UP, Job, availability, cluster_of, job_table, replay, world_of

few = settings(max_examples=instances(200, 8))


def explain_all(world: World, result: RunResult, **declared: object) -> list[Explanation]:
    """Explain every job, with the declared parameters of the policy."""
    explainer = RunExplainer(facts_of(world, declared), result.jobs, result.events)
    return [explainer.explain(job) for job in range(len(world.table))]


@st.composite
def failing_worlds(draw: st.DrawFn) -> World:
    """Random worlds, half of them with servers that come and go, half with GPU types."""
    world = draw(worlds())
    table, cluster = world.table, world.cluster
    if draw(st.booleans()):
        cluster = replace(cluster, availability=availability(draw(server_changes(len(cluster)))))
    if draw(st.booleans()):
        types = draw(st.lists(st.sampled_from(["a", "b"]), min_size=len(cluster), max_size=len(cluster)))
        lists = st.lists(st.sampled_from(["a", "b", "a|b", None]), min_size=len(table), max_size=len(table))
        table = replace(table, gpu_types=pl.Series(draw(lists), dtype=pl.String))
        cluster = replace(cluster, gpu_type=tuple(types))
    return build_world(table, cluster, partition=world.partition, params=world.params)


POOLED = {"gpu_shares": "pooled"}


def training_of(workers: tuple[int, int], ps: tuple[int, int], samples: float = 1000) -> TrainingProfile:
    """A job by the number and the milli-GPUs of its workers and of its parameter servers."""
    job = profile(samples=samples, epochs=1, num_workers=workers[0], num_ps=ps[0])
    return replace(job, worker_demand=np.array([[workers[1]]]), ps_demand=np.array([[ps[1]]]))


@st.composite
def failing_gangs(draw: st.DrawFn) -> World:
    """Jobs of workers and parameter servers in slots of 10 s, half of them on servers that come and go."""
    sizes = st.sampled_from([0.0, 0.5, 1.0, 1.0, 2.0])
    gpus = draw(st.lists(sizes, min_size=1, max_size=4))
    demands = st.sampled_from([0, 250, 500, 500, 1000])
    submits = draw(st.lists(st.integers(0, 20).map(float), min_size=1, max_size=8))
    jobs = []
    for _ in submits:
        workers, ps = [(draw(st.integers(1, 3)), draw(demands)) for _ in range(2)]
        jobs.append(training_of(workers, ps, samples=draw(st.sampled_from([0, 100, 300]))))
    changes = draw(server_changes(len(gpus))) if draw(st.booleans()) else []
    return elastic_world(submits, jobs, gpus, {"slot_s": 10.0, **POOLED}, changes=changes)


WITHOUT_RULE = [PolicyChoice(name, {}) for name in ("load_balance", "tetris_packing", "drf")]
"""Policies that decide on slots and have no placement rule."""


def free_of(world: World, result: RunResult) -> tuple[History, FreeCapacity]:
    facts = facts_of(world, {})
    events = read_history(result.events, result.jobs, facts.servers)
    return events, free_capacity(facts, events)


@pytest.mark.slow
@few
@given(world=failing_worlds(), policy=policies())
def test_free_capacity_is_what_servers_have_less_what_jobs_hold(world: World, policy: PolicyChoice) -> None:
    result = replay(world, policy.create())
    _, free = free_of(world, result)
    for time_us, (expected, _) in naive_free(world, result).items():
        if time_us < round(result.events["time_s"].max() * 1e6):  # type: ignore[operator, arg-type]  # jobs
            assert free.at(time_us)[:, 0].tolist() == expected


@pytest.mark.slow
@few
@given(world=failing_worlds(), policy=policies())
def test_every_second_of_waiting_belongs_to_one_reason(world: World, policy: PolicyChoice) -> None:
    result = replay(world, policy.create())
    spans = history.History(result).spans
    for found in explain_all(world, result, **policy.params):
        waited = 0.0
        held = [(span.begin_us / 1e6, span.end_us / 1e6) for span in spans[found.job_id]]
        for wait in found.waits:
            edges = [wait.begin_s, *(part.end_s for part in wait.parts)]
            assert [part.begin_s for part in wait.parts] == edges[:-1]
            assert edges[-1] == wait.end_s
            assert all(end <= wait.begin_s or begin >= wait.end_s for begin, end in held)
            waited += wait.end_s - wait.begin_s
        assert waited == pytest.approx(found.queue_s, abs=1e-6)
        assert sum(found.seconds_by_reason.values()) == pytest.approx(waited)


def parameters_of(policy: PolicyChoice) -> dict[str, object]:
    """Parameters of a policy with their values, as they are declared for a stored run."""
    return dict(resolve(policy.name, policy.create().parameters, policy.params))


def agree_with_replay(world: World, result: RunResult, policy: PolicyChoice) -> None:
    """The reasons at every instant are those of the naive replay."""
    free = naive_free(world, result)
    declared = parameters_of(policy)
    rule = declared.get("placement")
    assert rule is None or isinstance(rule, str)
    ahead = naive_ahead(world, result)
    for job, found in enumerate(explain_all(world, result, **declared)):
        for wait in found.waits:
            rows = ahead.get((found.job_id, wait.begin_s), set())
            for time_us in (each for each in free if wait.begin_s <= each / 1e6 < wait.end_s):
                [part] = [part for part in wait.parts if part.begin_s <= time_us / 1e6 < part.end_s]
                now = sum(begin <= time_us / 1e6 < end for _, begin, end in rows)
                behind = now > 0 or declared.get("backfill") is False
                assert part.reason == naive_reason(world, job, *free[time_us], rule=rule, behind=behind)


@few
@given(world=failing_worlds(), policy=policies())
def test_reasons_agree_with_a_replay_instant_by_instant(world: World, policy: PolicyChoice) -> None:
    agree_with_replay(world, replay(world, policy.create()), policy)


@pytest.mark.slow
@few
@given(world=failing_gangs(), policy=policies() | st.sampled_from(WITHOUT_RULE))
def test_reasons_of_workers_and_parameter_servers_agree_with_a_replay(
    world: World, policy: PolicyChoice
) -> None:
    agree_with_replay(world, replay(world, policy.create()), policy)


@pytest.mark.slow
@few
@given(world=failing_worlds() | failing_gangs(), rule=st.sampled_from(RULE_NAMES))
def test_with_backfill_and_no_preemption_a_job_that_its_rule_can_place_never_waits(
    world: World, rule: str
) -> None:
    result = replay(world, "fifo", placement=rule, backfill=True)
    reasons = {
        part.reason
        for found in explain_all(world, result, placement=rule, backfill=True)
        for wait in found.waits
        for part in wait.parts
    }
    assert reasons <= {"outage", "full", "fragmented", "no_server"}


@few
@given(world=worlds(), policy=policies())
def test_jobs_ahead_are_those_that_start_while_a_job_waits(world: World, policy: PolicyChoice) -> None:
    result = replay(world, policy.create())
    expected = naive_ahead(world, result)
    for found in explain_all(world, result):
        for wait in found.waits:
            rows = expected.get((found.job_id, wait.begin_s), set())
            assert wait.ahead_total == len({name for name, _, _ in rows})
            assert {each.job_id for each in wait.ahead} <= {name for name, _, _ in rows}
            for part in wait.parts:
                assert part.ahead == sum(begin <= part.begin_s < end for _, begin, end in rows)


def test_a_wait_by_hand() -> None:
    # Servers of 2 and 2 GPUs, first in first out, strict, consolidate. J1 holds one GPU of s0 for 0-10, J2
    # one of s1 for 0-20 (the fullest server that holds it is s0, so J2 is there too: s1 is empty).
    # J3 wants 2 GPUs at 1 and gets s1 for 1-8. J4 wants 2 at 2: nothing is free. At 8 it gets s1 until 12.
    # J5 wants 1 at 3, behind J4 until 8; then no GPU is free until J1 ends at 10.
    jobs = [Job(0, 1, 10), Job(0, 1, 20), Job(1, 2, 7), Job(2, 2, 4), Job(3, 1, 5)]
    world = world_of(jobs, [2.0, 2.0])
    result = replay(world, "fifo")
    found = explain_all(world, result, placement="consolidate", backfill=False)
    assert [len(each.waits) for each in found] == [0, 0, 0, 1, 1]
    [wait] = found[3].waits
    assert [(part.begin_s, part.end_s, part.reason) for part in wait.parts] == [(2, 8, "full")]
    assert wait.parts[0].text == "too little is free in the cluster: needs 2 gpu; free: 0 gpu on 2 servers"
    assert part_rows(found[3], wait, 10) == [
        ("0 s", "6 s", 0, "too little is free in the cluster", "2 gpu", "0 gpu on 2 servers")
    ]
    # GPU-seconds within 2-8: J3 12, J1 and J2 6 each.
    assert [(each.job_id, each.amount) for each in wait.holders] == [("J3", 12), ("J1", 6), ("J2", 6)]
    [wait] = found[4].waits
    assert [(part.begin_s, part.end_s, part.reason, part.ahead) for part in wait.parts] == [
        (3, 10, "full", 1)
    ]
    assert [each.job_id for each in wait.ahead] == ["J4"]
    assert dict(headline_rows(found[4]))["waited in all"] == "7 s"
    assert event_rows(found[4])[:2] == [("0 s", "submitted", ""), ("7 s", "started (worker)", "s0: 1")]
    assert others_rows(wait)[1] == ("started first", "J4 (2 gpu)")


def test_submissions_of_a_dated_workload_count_from_the_first() -> None:
    # Second 1,698,300,300 since 1970 is 2023-10-26 06:05 UTC; J2 comes three hours later.
    begin_s = 1_698_300_300
    world = world_of([Job(begin_s, 1, 10), Job(begin_s + 3 * 3600, 1, 10)], [1.0])
    result = replay(world, "fifo")
    assert (
        dict(headline_rows(explain_all(world, result)[1]))["submitted"] == "+3 h after the first submission"
    )
    dated = replace(facts_of(world, {}), epoch_utc=datetime.fromtimestamp(0, UTC))
    explainer = RunExplainer(dated, result.jobs, result.events)
    found = explainer.explain(1)
    assert (found.submit_s, found.after_first_s) == (begin_s + 10_800, 10_800)
    assert dict(headline_rows(found))["submitted"] == (
        "+3 h after the first submission, 2023-10-26 09:05 UTC"
    )
    page = run_page("", "", [], [], result, explainer)
    [slowest] = next(part for part in page.sections if part.heading == "Slowest jobs").tables
    places = [slowest.columns.index(name) for name in ("job", "submitted", "date, UTC")]
    assert [[row[place].text for place in places] for row in slowest.rows] == [
        ["J1", "+0 s", "2023-10-26 06:05"],
        ["J2", "+3 h", "2023-10-26 09:05"],
    ]


def test_a_date_beyond_the_calendar_is_left_out() -> None:
    assert utc_text(datetime.fromtimestamp(0, UTC), 1e12) is None


def test_a_job_that_fits_waits_for_the_head_of_a_strict_queue() -> None:
    # Two servers of 2. J1 takes 1.5 GPUs of s0, J2 one of s1, as s0 has half a GPU left. J3 needs 2 until J1
    # ends at 5. J4 of half a GPU fits all the time and waits for J3, the head of the strict queue. J5 needs
    # more than there is.
    jobs = [Job(0, 1.5, 5), Job(0, 1, 9), Job(1, 2, 3), Job(2, 0.5, 1), Job(3, 5, 1)]
    world = world_of(jobs, [2.0, 2.0], params=POOLED)
    result = replay(world, "fifo")
    found = explain_all(world, result, placement="consolidate", backfill=False)
    reasons = [
        [(part.reason, part.begin_s, part.end_s) for wait in each.waits for part in wait.parts]
        for each in found
    ]
    assert reasons == [[], [], [("full", 1, 5)], [("behind", 2, 5)], []]
    assert found[3].waits[0].parts[0].text == (
        "there is room, but a job before it in the queue does not fit, and no job passes that one: "
        "needs 0.5 gpu; free: 1.5 gpu on 2 servers"
    )
    assert found[4].rejection == (
        "rejected on arrival: needs 5 gpu; 2 servers have 4 gpu when empty, the largest of them 2 gpu"
    )


@pytest.mark.parametrize(
    ("rule", "start_s", "reasons"), [("consolidate", 9, ["no_server"]), ("pooled", 1, [])]
)
def test_a_rule_that_wants_one_server_waits_where_tasks_would_fit_on_two(
    rule: str, start_s: float, reasons: list[str]
) -> None:
    # J1 and J2 need 1.2 GPUs, so each server of 2.2 has one GPU left; J3's two tasks fit on both together.
    world = world_of([Job(0, 1.2, 9), Job(0, 1.2, 9), Job(1, 2, 3)], [2.2, 2.2])
    result = replay(world, "fifo", placement=rule)
    found = explain_all(world, result, placement=rule, backfill=False)[2]
    assert found.start_s == start_s
    assert [part.reason for wait in found.waits for part in wait.parts] == reasons
    for part in (part for wait in found.waits for part in wait.parts):
        assert part.text == (
            "there is room on several servers, on no single one; placement rule consolidate gives it a "
            "single server: needs 2 gpu; free: 2 gpu on 2 servers"
        )


def test_a_task_larger_than_each_piece_waits_for_one_piece() -> None:
    # One task of 0.9 GPU; each server of one GPU has 0.5 free, together 1.0.
    world = world_of([Job(0, 0.5, 4), Job(0, 0.5, 6), Job(1, 0.9, 1)], [1.0, 1.0])
    result = replay(world, "fifo", placement="spread")
    [wait] = explain_all(world, result, placement="spread", backfill=False)[2].waits
    assert [(part.reason, part.end_s) for part in wait.parts] == [("fragmented", 4)]
    assert wait.parts[0].text == (
        "free capacity is in pieces, where 0 of 1 tasks fit: needs 0.9 gpu; free: 1 gpu on 2 servers"
    )


def test_a_share_larger_than_what_each_device_has_waits_for_one_device() -> None:
    # The GPUs of the server have 0.4 free each, together 0.8.
    world = world_of([Job(0, 0.6, 4), Job(0, 0.6, 6), Job(1, 0.6, 1)], [2.0])
    result = replay(world, "fifo")
    [wait] = explain_all(world, result, placement="consolidate", backfill=False)[2].waits
    assert [(part.reason, part.end_s) for part in wait.parts] == [("fragmented", 4)]
    assert wait.parts[0].text == (
        "free capacity is in pieces, where 0 of 1 tasks fit: needs 0.6 gpu; free: 0.8 gpu on 1 server"
    )


def test_jobs_that_start_at_one_instant_are_not_ahead_of_each_other() -> None:
    # J2 and J3 fit on the six free GPUs from 1 on, and both start at the slot boundary at 10.
    world = elastic_world([0, 1, 1], [profile(), profile(), profile()], [8.0], {"slot_s": 10.0})
    found = explain_all(world, replay(world, "load_balance"))
    assert [[(part.reason, part.ahead) for part in each.waits[0].parts] for each in found[1:]] == [
        [("policy", 0)],
        [("policy", 0)],
    ]


def test_a_strict_queue_holds_a_job_back_though_the_job_before_it_starts_at_the_same_instant() -> None:
    # J1 holds 3 of 4 GPUs until 10. J3 (2 GPUs, 5 s) is first by run time and does not fit, so J2 (1 GPU,
    # 50 s) waits beside a free GPU. Both start at 10, J2 first in the events.
    world = world_of([Job(0, 3, 10), Job(1, 1, 50), Job(1, 2, 5)], [4.0])
    found = explain_all(world, replay(world, "sjf"), placement="consolidate", backfill=False)
    assert [(part.reason, part.begin_s, part.end_s) for part in found[1].waits[0].parts] == [
        ("behind", 1, 10)
    ]
    assert found[1].waits[0].parts[0].cause == (
        "there is room, but a job before it in the queue does not fit, and no job passes that one"
    )


def test_servers_that_fail_are_the_reason_while_they_would_be_enough() -> None:
    # s1 is away for 2-7. J1 holds s0 for 0-5, J2 wants 2 GPUs at 3: with s1 it would fit, at 5 s0 is free.
    cluster = replace(cluster_of([2.0, 2.0]), availability=availability([(2, 1, DOWN), (7, 1, UP)]))
    world = build_world(job_table([Job(0, 2, 5), Job(3, 2, 1)]), cluster)
    result = replay(world, "fifo")
    found = explain_all(world, result, backfill=False)[1]
    assert [(part.reason, part.end_s) for part in found.waits[0].parts] == [("outage", 5)]
    [part] = found.waits[0].parts
    assert (part.free_by_resource, part.unavailable) == ({"gpu": 0}, 1)
    assert part.free == "0 gpu on 1 of 2 servers, 1 unavailable"


def test_a_demand_differs_in_the_text_from_a_little_less_that_is_free() -> None:
    world = world_of([Job(0, 0.3, 5), Job(1, 1500.4, 1)], [1500.5], params=POOLED)
    found = explain_all(world, replay(world, "fifo"), placement="pooled", backfill=False)[1]
    [part] = found.waits[0].parts
    assert part.text == "too little is free in the cluster: needs 1,500.4 gpu; free: 1,500.2 gpu on 1 server"
    assert (found.demand, part.free_by_resource) == ({"gpu": 1500.4}, {"gpu": 1500.2})


def test_a_page_says_how_many_parts_of_a_wait_it_leaves_out() -> None:
    # J1 holds one of two GPUs of s0 for 100 s. J2 wants a server with two. One is free on s1, which fails
    # three times: the reasons are no_server and outage in turn.
    changes = availability([(10 * n, 1, UP if n % 2 == 0 else DOWN) for n in range(1, 7)])
    cluster = replace(cluster_of([2.0, 1.0]), availability=changes)
    world = build_world(job_table([Job(0, 1, 100), Job(0, 2, 1)]), cluster)
    result = replay(world, "fifo", placement="first_fit")
    found = explain_all(world, result, placement="first_fit", backfill=False)[1]
    [_, (title, lines)] = explanation_sections(found)
    assert len(found.waits[0].parts) == 7
    assert title == "waited 1 min 40 s: from 0 s to 1 min 40 s after its submission; its 4 longest parts of 7"
    assert len(lines) == 4 + len(others_rows(found.waits[0]))


def test_a_job_that_demands_nothing_waits_for_a_server() -> None:
    cluster = replace(cluster_of([2.0]), availability=availability([(2, 0, DOWN), (7, 0, UP)]))
    world = build_world(job_table([Job(3, 0, 5)]), cluster)
    [found] = explain_all(world, replay(world, "fifo"), placement="pooled", backfill=False)
    assert [(part.reason, part.begin_s, part.end_s) for part in found.waits[0].parts] == [("outage", 3, 7)]


def test_a_job_that_demands_nothing_waits_for_servers_without_capacity_too() -> None:
    # s0 has two GPUs and is away for 5-20, s1 has none and is away for 5-30. J2 asks for no GPU at 10.
    changes = availability([(5, 0, DOWN), (5, 1, DOWN), (20, 0, UP), (30, 1, UP)])
    world = build_world(
        job_table([Job(0, 1, 1), Job(10, 0, 5)]), replace(cluster_of([2.0, 0.0]), availability=changes)
    )
    found = explain_all(world, replay(world, "fifo"), placement="pooled", backfill=False)[1]
    [part] = found.waits[0].parts
    assert (part.reason, part.begin_s, part.end_s) == ("outage", 10, 20)
    assert part.cause == "no server is available; together they would be enough"


def test_a_job_that_starts_and_finishes_in_one_instant_was_ahead_until_then() -> None:
    # J1 holds both GPUs until 5. J2 runs for no time, J3 needs both GPUs: both fit only at 5, when J4, before
    # J3 in the queue, takes one GPU for 5 s. So J3 waits on after J2 has started.
    world = world_of([Job(0, 2, 5), Job(1, 1, 0), Job(1, 1, 5), Job(2, 2, 1)], [2.0])
    result = replay(world, "fifo")
    assert result.jobs["start_s"].to_list() == [0, 5, 5, 10]
    found = explain_all(world, result, placement="pooled", backfill=False)[3]
    assert [each.job_id for each in found.waits[0].ahead] == ["J2", "J3"]
    assert [part.ahead for part in found.waits[0].parts] == [2]


def test_a_job_waits_behind_one_that_has_nothing_to_train() -> None:
    # J1 trains for 10.8 s. At the slot boundary at 20 J2 starts, has no samples and finishes at once; its
    # GPUs are free again, and J3 waits for the next boundary.
    jobs = [profile(samples=100, epochs=1), profile(samples=0), profile(samples=100, epochs=1)]
    world = elastic_world([0, 1, 2], jobs, [2.0], {"slot_s": 20.0})
    result = replay(world, "load_balance")
    assert result.jobs["start_s"].to_list() == [0, 20, 40]
    [wait] = explain_all(world, result)[2].waits
    assert [(part.reason, part.end_s, part.ahead) for part in wait.parts] == [
        ("full", 10.8, 1),
        ("behind", 20, 1),
        ("policy", 40, 0),
    ]
    assert [each.job_id for each in wait.ahead] == ["J2"]


def test_nobody_holds_what_a_job_without_demand_needs() -> None:
    # J1 holds all GPUs until 10. J2 needs them and is first; J3 needs none and waits behind it.
    world = world_of([Job(0, 2, 10), Job(1, 2, 5), Job(2, 0, 1)], [2.0])
    found = explain_all(world, replay(world, "fifo"), placement="pooled", backfill=False)
    assert [each.job_id for each in found[1].waits[0].holders] == ["J1"]
    assert found[2].waits[0].holders == ()


def test_a_part_of_the_waits_says_how_many_there_are() -> None:
    # The least remaining time first, on one GPU: J1 is suspended for each of the four others.
    world = world_of([Job(0, 1, 100), *[Job(10 * n, 1, n) for n in (1, 2, 3, 4)]], [1.0])
    result = replay(world, "srtf")
    explainer = RunExplainer(facts_of(world, {}), result.jobs, result.events)
    found = explainer.explain(0, 2)
    assert [(wait.begin_s, wait.end_s) for wait in found.waits] == [(30, 33), (40, 44)]
    assert explanation_sections(found)[0][0] == "Why it waited in its 2 longest waits of 4: 7 s of 10 s"
    assert explanation_sections(explainer.explain(0))[0][0] == "Why it waited"


def test_the_rows_of_one_start_are_one_start() -> None:
    # A worker and a parameter server of one GPU each start at 0: two rows of events, no second start.
    world = elastic_world([0], [profile()], [4.0])
    [found] = explain_all(world, replay(world, "fifo"), placement="consolidate", backfill=False)
    starts = [name for _, name, _ in event_rows(found) if name.startswith("started")]
    assert starts == ["started (worker)", "started (ps)"]


def test_a_suspension_names_the_jobs_that_got_its_servers() -> None:
    # One GPU each on s0 and s1. J1 holds both for 100 s; at 5 come J2 and J3, both shorter, and J1 stops.
    world = world_of([Job(0, 2, 100), Job(5, 1, 10), Job(5, 1, 20)], [1.0, 1.0])
    first = explain_all(world, replay(world, "srtf"))[0]
    assert ("5 s", "suspended (servers to J2, J3)", "") in event_rows(first)
    assert [event.successors for event in first.events if event.event != "stop"] == [()] * 4


def test_a_job_with_room_waits_for_the_next_slot_of_a_policy_without_a_rule() -> None:
    # Both servers of one GPU come back at 43 s. The worker and the parameter server fit on them together, on
    # none alone. Slots begin every 10 s.
    changes = [(0, 0, DOWN), (0, 1, DOWN), (43, 0, UP), (43, 1, UP)]
    world = elastic_world([0], [profile()], [1.0, 1.0], {"slot_s": 10.0}, changes=changes)
    [found] = explain_all(world, replay(world, "load_balance"))
    assert [(part.reason, part.begin_s, part.end_s) for part in found.waits[0].parts] == [
        ("outage", 0, 43),
        ("policy", 43, 50),
    ]


def test_two_roles_that_fit_apart_and_not_together_find_the_capacity_in_pieces() -> None:
    # J1 leaves 600 of s0, J2 300 of s1. J3 asks for two workers of 200 and a parameter server of 500: the
    # workers or the parameter server fit on s0, and s1 holds one worker.
    jobs = [training_of((1, 400), (1, 0)), training_of((1, 700), (1, 0)), training_of((2, 200), (1, 500))]
    world = elastic_world([0, 0, 1], jobs, [1.0, 1.0], POOLED)
    found = explain_all(world, replay(world, "fifo", placement="pooled"), placement="pooled", backfill=False)
    part = found[2].waits[0].parts[0]
    assert part.reason == "fragmented"
    assert part.cause == (
        "free capacity is in pieces, where its workers and its parameter servers do not fit together"
    )


def test_waits_of_elastic_jobs_add_up() -> None:
    # Two jobs of 2 workers and a parameter server on 4 GPUs: the second waits for the first.
    world = elastic_world([0, 1], [profile(num_workers=2), profile(num_workers=2)], [4.0])
    result = replay(world, "fifo")
    found = explain_all(world, result, placement="consolidate", backfill=False)
    assert [each.queue_s for each in found] == [
        sum(w.end_s - w.begin_s for w in each.waits) for each in found
    ]
    assert found[1].waits[0].parts[0].reason == "full"
    assert found[1].demand == {"gpu": 3}


def test_a_chunked_job_waits_while_no_chunk_makes_progress() -> None:
    # One worker. Chunks of 10 s after an upload of 5: J1 trains 5-15-25, J2 (one chunk) uploads until 6 and
    # waits for the worker until 25.
    world = chunk_world(
        [ChunkJob(0, 2, 10, upload_s=5), ChunkJob(1, 1, 10, upload_s=5)], [Server()], slot_s=1.0
    )
    result = replay(world, "chunk_fifo")
    facts = facts_of(world, {})
    events = read_history(result.events, result.jobs, facts.servers)
    waits = find_waits(events, result.jobs, chunked=True)
    total = np.bincount(waits.job, waits.end_us - waits.begin_us, minlength=2) / 1e6
    assert total.tolist() == result.jobs["queue_s"].to_list()
    first = explain_all(world, result)[0]
    assert event_rows(first)[2:4] == [
        ("5 s", "started (chunk 0)", "s0"),
        ("15 s", "finished (chunk 0)", "s0"),
    ]
    chunks = events.holdings.role == 2
    assert (events.holdings.end_us - events.holdings.begin_us)[chunks].tolist() == [10_000_000] * 3
    assert {part.reason for each in explain_all(world, result) for w in each.waits for part in w.parts} == {
        "chunks"
    }


@st.composite
def chunk_worlds(draw: st.DrawFn) -> World:
    """Chunked jobs that want parameter servers of two sizes, which are few and come and go."""
    servers = [
        Server(
            workers=draw(st.integers(0, 2)),
            ps=draw(st.integers(0, 2)),
            kind=draw(st.sampled_from([EDGE, EDGE, EDGE, CLOUD])),
            ps_gib=draw(st.sampled_from([None, 4, 8])),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    submits = sorted(draw(st.lists(st.integers(0, 20).map(float), min_size=1, max_size=6)))
    jobs = [
        ChunkJob(
            submit,
            chunks=draw(st.integers(1, 3)),
            chunk_s=draw(st.integers(1, 8)),
            upload_s=draw(st.integers(0, 3)),
            cloud_upload_s=draw(st.integers(0, 12)),
            ps_gib=draw(st.sampled_from([0, 6])),
        )
        for submit in submits
    ]
    return chunk_world(jobs, servers, slot_s=1.0, changes=draw(server_changes(len(servers))))


@pytest.mark.slow
@few
@given(world=chunk_worlds(), policy=st.sampled_from(["chunk_fifo", "chunk_spt", "chunk_earliest_finish"]))
def test_reasons_of_chunked_jobs_agree_with_a_replay(world: World, policy: str) -> None:
    result = replay(world, policy)
    expected = naive_chunk_reasons(world, result)
    for found in explain_all(world, result):
        for wait in found.waits:
            for time_us, reasons in expected.items():
                if wait.begin_s <= time_us / 1e6 < wait.end_s:
                    [part] = [part for part in wait.parts if part.begin_s <= time_us / 1e6 < part.end_s]
                    assert part.reason == reasons[found.job_id]


def test_a_job_waits_for_its_gpu_type_while_others_are_free() -> None:
    # J1 holds one of the two V100s until 10; J2 needs both, and six T4s are free. J3 asks for a type that no
    # server has. J4 takes T4s, passes J2, and is no job ahead of it.
    jobs = [Job(0, 1, 10), Job(1, 2, 5), Job(1, 1, 5), Job(2, 1, 5)]
    columns = {"gpu_types": ["V100", "V100", "P100", "T4"]}
    cluster = replace(cluster_of([2, 6]), gpu_type=("V100", "T4"))
    world = build_world(job_table(jobs, columns=columns), cluster)
    result = replay(world, "fifo")
    _, second, third, fourth = explain_all(world, result, backfill=False, placement="pooled")
    assert second.seconds_by_reason == {"gpu_type": 9.0}
    assert second.waits[0].ahead == ()
    part = second.waits[0].parts[0]
    assert part.text == (
        "too little is free on V100; on all types together it would be enough: needs 2 gpu; "
        "free: 1 gpu on 1 server with V100"
    )
    assert third.rejection == (
        "rejected on arrival: no server of its partition has a GPU type that it accepts"
    )
    assert (fourth.start_s, fourth.waits) == (2.0, ())
