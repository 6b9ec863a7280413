"""The engine takes a kind of job that it does not know: `tests.boosted_jobs`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from ray_sim.contract.outcome import NotCheckedError
from ray_sim.contract.rigid_worlds import busy_world, edge_cases, failing_world, with_longer_runs
from ray_sim.contract.subject import Subject, Worlds
from ray_sim.contract.suite import CLAUSES
from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.registry import JOB_KINDS
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.experiments.results.result_files import json_bytes, summary_from_json
from ray_sim.model.errors import InfeasibleDecisionError, InvalidScenarioError
from ray_sim.model.figures import FIGURES, all_figures
from ray_sim.model.metrics import Trim
from ray_sim.policies.registry import create_policy
from ray_sim.reports.tables import summary_rows
from tests.boosted_jobs import BOOSTED, BoostedDecision, BoostedJobs, BoostFigures, BoostOnce
from tests.proofs import quick_first
from tests.worlds import Job, column_of, times_of, world_of

KINDS = (*JOB_KINDS, BoostedJobs())


def boosted(world: World, **params: object) -> World:
    """The same jobs and servers in a world of boosted jobs."""
    params = {**world.params, "truth": BOOSTED, **params}
    return build_world(world.table, world.cluster, partition=world.partition, params=params, kinds=KINDS)


TWO_JOBS = world_of([Job(0, 1, 20), Job(1, 1, 8)], [1, 1])
"""J1 starts at 0 s and is boosted at 1 s, when J2 comes, until 6 s: 1 + 2 x 5 s are done, and 9 s are left.
J2 starts at 1 s and is boosted at its next decision: none comes before it ends at 9 s."""


@pytest.mark.parametrize("sites", [1, 2])
def test_a_boosted_job_ends_earlier_and_its_column_event_and_view_say_so(sites: int) -> None:
    result = run_world(boosted(TWO_JOBS), BoostOnce(), sites=sites)
    assert times_of(result) == {"J1": (0, 15), "J2": (1, 9)}
    assert column_of(result, "boosts") == {"J1": 1, "J2": 0}
    boosts = result.events.filter(result.events["event"] == "boost").select("time_s", "job_id", "count")
    assert boosts.rows() == [(1.0, "J1", 1), (6.0, "J1", 0)]


def test_its_figure_is_in_the_summary_the_printed_table_and_the_metrics_and_is_read_back() -> None:
    summary = run_world(boosted(TWO_JOBS), BoostOnce()).summary
    assert summary.figures_as(BoostFigures) == BoostFigures(restart_share=0.0, boosts=1)
    assert summary.flat()["boosts"] == 1
    assert dict(summary_rows(summary))["boosts"] == 1
    # Keys of all kinds stand in every summary.json, and null for those of the others.
    content = summary.to_dict()
    others = {*all_figures({}, FIGURES)} - {"restart_share"}
    assert {name: content[name] for name in others} == dict.fromkeys(others)
    read = summary_from_json(json_bytes(content), "summary.json", (*FIGURES, BoostFigures))
    assert read == summary


def test_figures_count_the_jobs_that_count() -> None:
    late = run_world(boosted(TWO_JOBS), BoostOnce(), trim=Trim(warm_up_s=1)).summary
    assert late.figures_as(BoostFigures) == BoostFigures(restart_share=0.0, boosts=0)


def test_its_world_parameter_counts_there_and_is_refused_elsewhere() -> None:
    # Three times as fast for 5 s: 1 + 15 s are done at 6 s.
    result = run_world(boosted(TWO_JOBS, boost_factor=3), BoostOnce())
    assert times_of(result)["J1"] == (0, 10)
    with pytest.raises(InvalidScenarioError, match="boost_factor: is about boosted jobs; set truth=boosted"):
        build_world(TWO_JOBS.table, TWO_JOBS.cluster, params={"boost_factor": 3}, kinds=KINDS)


def test_policies_for_other_jobs_are_refused_and_its_own_elsewhere() -> None:
    with pytest.raises(
        InvalidScenarioError, match="policy fifo is for rigid, elastic, measured jobs, but truth=boosted"
    ):
        run_world(boosted(TWO_JOBS), create_policy("fifo"))
    with pytest.raises(InvalidScenarioError, match="is for boosted jobs, but truth=rigid has rigid jobs"):
        run_world(TWO_JOBS, BoostOnce())


def test_its_decision_is_validated_and_refused_by_other_kinds() -> None:
    simulation = Simulation(boosted(TWO_JOBS), BoostOnce())
    assert simulation.advance() is not None
    with pytest.raises(InfeasibleDecisionError, match="boosts a job that does not run"):
        simulation.apply(BoostedDecision(boost=np.array([0])))
    rigid = Simulation(TWO_JOBS, create_policy("fifo"))
    assert rigid.advance() is not None
    with pytest.raises(InfeasibleDecisionError, match="jobs of this world take a Decision"):
        rigid.apply(BoostedDecision())


WORLDS = Worlds(
    busy=lambda *, seed, partition: boosted(busy_world(20, seed, partition=partition)),
    disturbed=lambda seed: boosted(failing_world(20, seed)),
    edge_cases=lambda: {name: (boosted(world), True) for name, world in edge_cases().items()},
    with_longer_run_times=with_longer_runs,
)


@pytest.mark.parametrize("name", quick_first([name for name in CLAUSES if name != "declarations"], 2))
def test_a_policy_for_it_keeps_the_contract(name: str) -> None:
    """Snapshots, 1, 2 and 7 sites, lost servers, blindness: all that every policy keeps."""
    clause: Callable[[Subject], str] = CLAUSES[name]
    try:
        assert clause(Subject(partial(BoostOnce), WORLDS))
    except NotCheckedError as reason:
        pytest.skip(str(reason))
