"""Runs in which the blocks of models load parameter servers unevenly.

The job of `tests.training.profile` trains 100 samples a step, in 10 s of one worker, and moves 50 MB, in
0.4 s within a server and 4 s between two, there and back; it has 20 steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.dealt_loads import DealtLoads
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError
from ray_sim.model.job import BlockProfile, Exchange, TrainingProfile
from ray_sim.model.metrics import Trim
from ray_sim.model.parameter_blocks import BlockRule
from ray_sim.model.streams import Streams
from ray_sim.model.training_progress import Nic, placement_progress
from ray_sim.policies.registry import create_policy
from ray_sim.policy_api import ElasticContext, ElasticView
from ray_sim.reports.tables import summary_rows
from tests.elastic_worlds import elastic_world
from tests.figures import elastic_of
from tests.scripted import at_times, scripted
from tests.training import ONE, Placement, profile, rows
from tests.worlds import cluster_of, fingerprint

THREE_AND_ONE = BlockProfile(lists=((3, 1),), of_job=np.array([0]))
"""Of two parameter servers, one holds 3 and one 1: the fullest has 1.5 times the average."""
GIVEN_ORDER = {"parameter_blocks": "tensorflow"}


def with_blocks(
    world: World, blocks: BlockProfile, params: Mapping[str, object], gpus: Sequence[float]
) -> World:
    """The world of the same jobs, which say of which blocks their models are."""
    facts = {"truth": "placement", **params}
    return build_world(replace(world.table, blocks=blocks), cluster_of(gpus), params=facts)


def alike(jobs: int, lists: tuple[tuple[int, ...], ...]) -> BlockProfile:
    """One list after the other, and again."""
    return BlockProfile(lists, np.arange(jobs) % len(lists))


@pytest.mark.parametrize(
    ("nic", "placement", "one_way_s"),
    [
        # On each server a worker and a parameter server: one slice goes out and one stays. 1.5 (4 + 0.4) / 2.
        (Nic.PER_TASK, [(1, 1), (1, 1)], 1.5 * 4.4 / 2),
        (Nic.PER_SERVER, [(1, 1), (1, 1)], 1.5 * 4.4 / 2),
        # Two workers here, two parameter servers there: each of these passes two slices out.
        (Nic.PER_TASK, [(2, 0), (0, 2)], 1.5 * 8 / 2),
        # Both on one interface pass what all parameters are, however they are dealt out.
        (Nic.PER_SERVER, [(2, 0), (0, 2)], 2 * 8 / 2),
        (Nic.PER_LINK, [(2, 0), (0, 2)], 1.5 * 4 / 2),
        # One worker passes two slices of 4 s; a parameter server 1.5 of them: the worker is the bottleneck.
        (Nic.PER_TASK, [(1, 0), (0, 2)], 8 / 2),
    ],
)
def test_the_fullest_parameter_server_passes_its_share(
    nic: Nic, placement: Placement, one_way_s: float
) -> None:
    loads = DealtLoads(THREE_AND_ONE, BlockRule.TENSORFLOW, Streams(0))
    truth = placement_progress(profile(), np.ones(2), nic, loads=loads)
    workers = sum(w for w, _ in placement)
    rate = truth.samples_per_s(ONE, rows(placement))
    assert rate == pytest.approx(100 / (10 / workers + 2 * one_way_s))


@pytest.mark.parametrize(
    ("nic", "placement", "one_way_s"),
    [
        # Three blocks in turn to two parameter servers are two requests and one: 0.25 s each. On servers of
        # their own the busiest serves 2 workers: 2 x 2 x 0.25; a worker makes 3 requests, 0.75 s.
        (Nic.PER_TASK, [(2, 0), (0, 1), (0, 1)], 2 * 4 / 2 + 2 * 2 * 0.25),
        # One worker: its own three requests take longer than the two at the busiest server.
        (Nic.PER_TASK, [(1, 0), (0, 1), (0, 1)], 2 * 4 / 2 + 3 * 0.25),
        # Two parameter servers on one interface serve the three requests of two workers.
        (Nic.PER_SERVER, [(2, 0), (0, 2)], 2 * 8 / 2 + 2 * 3 * 0.25),
        (Nic.PER_LINK, [(2, 0), (0, 2)], 4 / 2 + 2 * 0.25),
    ],
)
def test_a_request_takes_time_on_both_sides(nic: Nic, placement: Placement, one_way_s: float) -> None:
    blocks = BlockProfile(lists=((2, 3, 1),), of_job=np.array([0]))  # 3 and 3 parameters
    loads = DealtLoads(blocks, BlockRule.TENSORFLOW, Streams(0))
    truth = placement_progress(profile(), np.ones(3), nic, loads=loads, request_s=0.25)
    workers = sum(w for w, _ in placement)
    rate = truth.samples_per_s(ONE, rows(placement))
    assert rate == pytest.approx(100 / (10 / workers + 2 * one_way_s))


def test_equal_slices_are_one_request_to_each_parameter_server() -> None:
    # Apart, a worker passes two slices of 2 s with 0.25 s each, the parameter servers one.
    truth = placement_progress(profile(), np.ones(3), request_s=0.25)
    rate = truth.samples_per_s(ONE, rows([(1, 0), (0, 1), (0, 1)]))
    assert rate == pytest.approx(100 / (10 + 2 * (2 * 2 + 2 * 0.25)))


def test_a_giant_block_in_turn_makes_more_parameter_servers_useless() -> None:
    """All on one of p: that one has p times the average, and transfers take as long as with one."""
    giant = BlockProfile(lists=((10**7,),), of_job=np.array([0]))
    truth = placement_progress(
        profile(), np.ones(8), loads=DealtLoads(giant, BlockRule.TENSORFLOW, Streams(0))
    )
    one, four = rows([(4, 0), (0, 1)]), rows([(4, 0), (0, 1), (0, 1), (0, 1), (0, 1)])
    assert truth.samples_per_s(ONE, four) == truth.samples_per_s(ONE, one)
    even = placement_progress(profile(), np.ones(8))
    assert even.samples_per_s(ONE, four)[0] > 2 * even.samples_per_s(ONE, one)[0]


def test_a_run_takes_as_long_and_says_how_uneven_it_was() -> None:
    """Two and two for ten steps of 5 + 2 x 1.5 x 0.4, then one and one for ten of 10 + 2 x 0.4."""
    even = elastic_world([0], [profile()], [4])
    both = Decision.of({0: [(0, WORKER, 2), (0, PARAMETER_SERVER, 2)]})
    one = Decision.of({0: [(0, WORKER, 1), (0, PARAMETER_SERVER, 1)]})
    world = with_blocks(even, THREE_AND_ONE, GIVEN_ORDER, [4])
    result = run_world(world, scripted(at_times({0: both, 62: one}), elastic=True))
    assert result.jobs["finish_s"][0] == pytest.approx(62 + 108, abs=1e-5)
    assert elastic_of(result).ps_imbalance == pytest.approx((62 * 1.5 + 108 * 1.0) / 170)
    result = run_world(even, scripted(at_times({0: both}), elastic=True))
    assert result.jobs["finish_s"][0] == pytest.approx(20 * 5.8, abs=1e-5)
    assert elastic_of(result).ps_imbalance == 1.0
    assert dict(summary_rows(result.summary))["fullest parameter server over the average"] == 1.0


def test_a_run_counts_its_tasks_and_the_share_of_their_time_that_computes() -> None:
    """20 steps of 10 s of samples: ten of 5.8 s by four tasks, a restart of 7 s, ten of 10.8 s by two."""
    world = elastic_world([0], [profile()], [4], {"restart_cost_s": 7})
    both = Decision.of({0: [(0, WORKER, 2), (0, PARAMETER_SERVER, 2)]})
    one = Decision.of({0: [(0, WORKER, 1), (0, PARAMETER_SERVER, 1)]})
    result = run_world(world, scripted(at_times({0: both, 58: one}), elastic=True))
    assert result.jobs["finish_s"][0] == pytest.approx(58 + 7 + 108, abs=1e-5)
    figures = elastic_of(result)
    assert figures.mean_tasks == pytest.approx((58 * 4 + 108 * 2) / 173)
    assert figures.computing_share == pytest.approx(200 / (58 * 4 + 108 * 2))


def test_the_mean_counts_the_time_of_training_and_the_jobs_that_count() -> None:
    """The first job trains 20 steps with 1.5, 10 s of restart apart; the second, later, with 1 and 1."""
    jobs = [profile(num_workers=2, num_ps=2), profile()]
    even = elastic_world([0, 1000], jobs, [4])
    blocks = BlockProfile(((3, 1),), np.array([0, 0]))
    world = with_blocks(even, blocks, {**GIVEN_ORDER, "restart_cost_s": 10}, [4])
    whole = run_world(world, create_policy("fifo"))
    assert elastic_of(whole).ps_imbalance == pytest.approx((124 * 1.5 + 216 * 1.0) / 340)
    late = run_world(world, create_policy("fifo"), trim=Trim(warm_up_s=500))
    assert elastic_of(late).ps_imbalance == 1.0


def test_trial_runs_and_observed_speeds_are_those_of_the_dealt_out_blocks() -> None:
    """Two and two, apart: 5 + 2 x 1.5 x 2 x 4 / 2 seconds; on one server 5 + 2 x 1.5 x 0.4."""
    seen: list[float] = []

    def decide(view: ElasticView) -> Decision:
        if view.now_us:
            seen.extend(view.samples_per_s(ONE).tolist())
            return Decision()
        both = Decision.of({0: [(0, WORKER, 2), (0, PARAMETER_SERVER, 2)]})
        return replace(both, review_us=10_000_000)

    world = with_blocks(elastic_world([0], [profile()], [4]), THREE_AND_ONE, GIVEN_ORDER, [4])
    policy = scripted(decide, elastic=True, visible=frozenset({"training_speed"}))
    simulation = Simulation(world, policy)
    apart = rows([(1, 0), (1, 0), (0, 1), (0, 1)])
    assert isinstance(simulation.world, ElasticContext)
    assert simulation.world.trial_speed(ONE, apart) == pytest.approx(100 / (5 + 12))
    run_world(world, policy)
    assert seen[0] == pytest.approx(100 / 6.2)


def uneven(training: Sequence[TrainingProfile], rule: str, blocks: BlockProfile | None = None) -> World:
    """Jobs that arrive every 10 s on seven servers."""
    gpus = [4.0, 4.0, 4.0, 2.0, 2.0, 2.0, 2.0]
    world = elastic_world([10.0 * i for i in range(len(training))], training, gpus)
    facts = {"parameter_blocks": rule, "slot_s": 20, "restart_cost_s": 5}
    blocks = blocks or alike(len(training), ((500, 400, 300, 90, 10), (7, 5, 1), (1000, 1)))
    return with_blocks(world, blocks, facts, gpus)


JOBS = [profile(num_workers=2, num_ps=2, gradient_mb=20 + 5 * i) for i in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["optimus", "drf", "tetris", "dorm"])
def test_the_rule_of_a_policy_comes_before_that_of_the_world(policy: str) -> None:
    params: dict[str, object] = {"remaining": "known"} if policy == "optimus" else {}

    def finish_s(of_world: str, of_policy: str) -> list[float]:
        chosen = create_policy(policy, {**params, "parameter_blocks": of_policy})
        return run_world(uneven(JOBS[:4], of_world), chosen).jobs["finish_s"].to_list()

    in_turn, even = finish_s("tensorflow", "world"), finish_s("even", "world")
    assert in_turn != even
    assert finish_s("even", "tensorflow") == in_turn
    assert finish_s("tensorflow", "even") == even


def test_blocks_that_a_policy_deals_out_must_be_there() -> None:
    drf = create_policy("drf", {"parameter_blocks": "paa"})
    with pytest.raises(InvalidScenarioError, match="parameter_blocks=paa: the workload does not say"):
        run_world(elastic_world([0], [profile()], [4], {"slot_s": 20}), drf)
    world = with_blocks(
        elastic_world([0], [profile()], [4]), THREE_AND_ONE, {"truth": "pd_ors", "slot_s": 20}, [4]
    )
    with pytest.raises(InvalidScenarioError, match="parameter_blocks=paa: is about parameter servers under"):
        run_world(world, drf)


@pytest.mark.parametrize("policy", ["optimus", "drf", "srtf"])
def test_any_number_of_sites_gives_the_same_run(policy: str) -> None:
    params = {"remaining": "known"} if policy == "optimus" else {}
    runs = [
        run_world(uneven(JOBS, "mxnet"), create_policy(policy, params), seed=3, sites=sites, loop="general")
        for sites in (1, 2, 7)
    ]
    assert fingerprint(runs[0]) == fingerprint(runs[1]) == fingerprint(runs[2])
    imbalance = elastic_of(runs[0]).ps_imbalance
    assert imbalance == elastic_of(runs[2]).ps_imbalance
    assert imbalance is not None
    assert imbalance > 1


def test_the_seed_draws_the_servers_of_mxnet_and_of_no_other_rule() -> None:
    def finish_s(rule: str, seed: int) -> list[float]:
        return run_world(uneven(JOBS, rule), create_policy("srtf"), seed=seed).jobs["finish_s"].to_list()

    assert any(finish_s("mxnet", 0) != finish_s("mxnet", seed) for seed in range(1, 4))
    assert finish_s("paa", 0) == finish_s("paa", 1)


def test_where_blocks_divide_evenly_every_rule_but_chance_gives_the_run_of_equal_slices() -> None:
    blocks = alike(len(JOBS), ((5, 5, 5, 5),))
    runs = [run_world(uneven(JOBS, rule, blocks), create_policy("srtf")) for rule in ("even", "paa")]
    runs.append(run_world(uneven(JOBS, "tensorflow", blocks), create_policy("srtf")))
    assert fingerprint(runs[0]) == fingerprint(runs[1]) == fingerprint(runs[2])


def test_jobs_without_parameter_servers_are_not_touched() -> None:
    ring = [profile(exchange=Exchange.ALL_REDUCE, num_workers=2, num_ps=0)] * 3
    dealt, even = (run_world(uneven(ring, rule), create_policy("srtf")) for rule in ("tensorflow", "even"))
    assert fingerprint(dealt) == fingerprint(even)
    assert elastic_of(dealt).ps_imbalance is None


@pytest.mark.parametrize("truth", ["rigid", "pd_ors"])
def test_other_progress_rules_have_no_form_for_blocks(truth: str) -> None:
    world = elastic_world([0], [profile()], [4])
    with pytest.raises(InvalidScenarioError, match="parameter_blocks: is about the parameter servers"):
        with_blocks(world, THREE_AND_ONE, {"truth": truth, "parameter_blocks": "paa"}, [4])


def test_a_workload_without_blocks_is_refused() -> None:
    with pytest.raises(
        InvalidScenarioError, match="parameter_blocks=paa: the workload does not say"
    ) as error:
        elastic_world([0], [profile()], [4], {"parameter_blocks": "paa"})
    assert "ray-sim enrich" in str(error.value)


def test_an_unknown_rule_of_a_policy_is_refused_with_the_known_ones() -> None:
    policy = create_policy("drf")
    vars(policy)["parameter_blocks"] = "evn"
    with pytest.raises(UnknownNameError, match=r"parameter_blocks 'evn'.*even"):
        Simulation(elastic_world([0], [profile()], [4]), policy)
