"""The section of teams: its charts against a walk through the events, its tables by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from ray_sim.engine.build_world import build_world
from ray_sim.engine.world import World
from ray_sim.experiments.explain import facts_of
from ray_sim.model.result import RunResult
from ray_sim.model.teams import Quota, Team
from ray_sim.reports.history.explanation import RunExplainer
from ray_sim.reports.page import Page, Section
from ray_sim.reports.run_report import run_page
from ray_sim.reports.teams import held_by_team, team_of
from tests.elastic_worlds import elastic_world
from tests.history import History
from tests.proofs import instances
from tests.random_worlds import PolicyChoice, policies, worlds
from tests.training import profile
from tests.worlds import HOUR, Job, cluster_of, job_table, replay

NAMES = pl.Series(["a", "*"])


def explainer_of(world: World, result: RunResult) -> RunExplainer:
    return RunExplainer(facts_of(world, {}), result.jobs, result.events)


@pytest.mark.slow
@settings(max_examples=instances(100, 8))
@given(world=worlds(), policy=policies())
def test_a_team_holds_the_gpus_of_its_running_jobs(world: World, policy: PolicyChoice) -> None:
    """At each instant it holds what a walk through the events leaves with its jobs."""
    result = replay(world, policy.create())
    explainer = explainer_of(world, result)
    lines = held_by_team(explainer, result.jobs["vc"], NAMES)
    facts = {
        job: ("a" if vc == "a" else "*", min(gpus, 1.0))  # whole GPUs are tasks of one
        for job, vc, gpus in result.jobs.select("job_id", "vc", "num_gpus").rows()
    }
    for time_us, holdings in History(result).held:
        if time_us >= explainer.history.end_us:  # all is given back
            break
        expected = {"a": 0.0, "*": 0.0}
        for job, holding in holdings.items():
            team, gpus = facts[job]
            expected[team] += gpus * sum(holding.values())
        for team, (time_s, held) in lines.items():
            before = np.count_nonzero(np.rint(time_s * 1e6) <= time_us)
            assert (held[before - 1] if before else 0.0) == pytest.approx(expected[team])


def test_workers_and_parameter_servers_of_elastic_jobs_are_all_that_is_used() -> None:
    # Each takes a GPU, and optimus changes their numbers as jobs come and go.
    world = elastic_world([0, 40, 300], [profile()] * 3, [4, 4], {"slot_s": 60})
    result = replay(world, "optimus", remaining="known")
    time_s, held = held_by_team(explainer_of(world, result), result.jobs["vc"], NAMES)["*"]
    at = np.searchsorted(time_s, result.timeline["time_s"].to_numpy(), side="right") - 1
    used = result.timeline["used_gpu"].to_list()
    assert [held[each] if each >= 0 else 0.0 for each in at] == used
    assert set(used) == {0.0, 4.0, 8.0}


def test_jobs_without_a_team_of_their_own_are_the_others() -> None:
    assert team_of(pl.Series(["a", "b", None]), NAMES).to_list() == ["a", "*", "*"]


def lending_world() -> World:
    """V borrows 4 of its 8 GPUs until S comes at 2 h, and loses the 2 h that no checkpoint keeps."""
    jobs = [Job(0, 8, 10 * HOUR, "vision"), Job(2 * HOUR, 4, 3 * HOUR, "speech")]
    quota = (Quota("gpu", 4000, None, 4000),)
    cluster = replace(cluster_of([8.0]), teams=(Team("vision", quota), Team("speech", quota)))
    params = {"preemption": "checkpoint", "checkpoint_s": 3 * HOUR}
    return build_world(job_table(jobs), cluster, params=params)


def section_of(page: Page, heading: str) -> Section:
    return next(part for part in page.sections if part.heading == heading)


def test_a_team_that_borrows_and_gives_back_is_drawn_with_its_quota() -> None:
    # V holds 8 GPUs 0-2 and 5-15, S 4 from 2 to 5; V wastes 2 h x 8 GPUs.
    world = lending_world()
    result = replay(world, "batch")
    teams = section_of(run_page("", "", [], [], result, explainer_of(world, result)), "Teams")
    table, waste = teams.tables
    held = table.columns.index("held, GPU-h")
    assert [(row[0].text, row[held].text) for row in table.rows] == [("vision", "96"), ("speech", "12")]
    assert waste.columns == ("wasted GPU-h", "vision", "speech")
    assert [[cell.text for cell in row] for row in waste.rows] == [["preempt", "16", "0"]]
    hours = [[each * HOUR for each in line] for line in ([0, 2, 5, 15], [2, 5])]
    gpus, shares = (chart.data["series"] for chart in teams.charts)
    assert gpus == [
        {"name": "vision", "x": hours[0], "y": [8, 0, 8, 0]},
        {"name": "speech", "x": hours[1], "y": [4, 0]},
    ]
    assert shares == [
        {"name": "vision", "x": hours[0], "y": [2, 0, 2, 0]},
        {"name": "speech", "x": hours[1], "y": [1, 0]},
    ]


def test_without_the_inputs_of_the_run_the_page_says_which_charts_are_left_out() -> None:
    page = run_page("", "", [], [], replay(lending_world(), "batch"), no_reasons="w.parquet: no such file")
    teams = section_of(page, "Teams")
    assert (teams.facts, teams.charts) == (
        (("left out: GPUs held over time", "w.parquet: no such file"),),
        (),
    )
    assert len(teams.tables) == 2
