"""Runs of the studies of posted prices, the announced jobs that they replayed, and bounds on welfare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl

from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.world import World
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results.result_files import read_manifest, read_table
from ray_sim.experiments.results.stored_runs import FoundRun, find_runs
from ray_sim.experiments.scenario import Scenario, parse_scenario
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.figures import AnnouncedFigures
from ray_sim.model.result import Summary
from ray_sim.model.statement import NANO
from ray_sim.model.units import US_PER_S, FloatArray
from ray_sim.solvers.launch_plan_lp import launch_plan_bound
from ray_sim.solvers.welfare_bound import welfare_bound

LONGEST_PROGRAMME = 300
"""Most jobs for which the programme over launch plans is solved; it takes a minute."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a sweep."""

    directory: Path
    label: tuple[str, str, str]
    """Workload, setting and policy."""
    scenario: Scenario
    summary: Summary
    jobs_of: Scenario
    """Scenario that announces the jobs of the run, honestly."""

    @property
    def seed(self) -> int:
        """Seed of the jobs."""
        return self.scenario.seed

    @property
    def jobs(self) -> pl.DataFrame:
        """jobs.parquet."""
        return read_table(self.directory, "jobs")

    @property
    def welfare(self) -> float:
        """Sum of the true values of completed jobs, in units."""
        told = self.summary.figures_as(AnnouncedFigures)
        return float(self.values().sum()) if told is None else told.welfare.welfare

    def values(self) -> FloatArray:
        """(completed jobs,) worth of jobs that ran as gangs, finishes rounded up to whole rounds."""
        facts = announced_facts(self.jobs_of.model_dump_json())
        jobs = self.jobs.filter(pl.col("finish_s").is_not_null())
        row = {job: index for index, job in enumerate(facts.table.job_id.to_list())}
        own = np.array([row[job] for job in jobs["job_id"]], dtype=np.int64)
        lag = (facts.statements.arrival - facts.statements.true.birth)[own]
        after_s = (jobs["finish_s"] - jobs["submit_s"]).to_numpy()
        after = np.ceil(np.rint(after_s * US_PER_S) / facts.slot_us).astype(np.int64)
        values = facts.statements.true.values
        worth = values[facts.statements.true.value_row[own], np.minimum(lag + after, values.shape[1] - 1)]
        return np.asarray(worth / NANO)

    def bound(self) -> float:
        """Most that any schedule earns that knows all arrivals and durations, in units."""
        return _bound(self.jobs_of.model_dump_json())

    def plan_bound(self) -> float:
        """Most that schedulers earn in expectation who learn what the signal tells; nan for many jobs."""
        return _plan_bound(self.jobs_of.model_dump_json())


def read_runs(sources: Iterable[str], announced: dict[str, object] | None = None) -> Iterator[Run]:
    """Read the runs of sweeps, in their order.

    Parameters
    ----------
    announced : world parameters under which the jobs of rigid runs are valued
    """
    for found in find_runs(sources)[0]:
        scenario = _scenario(found)
        world = scenario.world
        if world.get("truth") != "announced":
            world = scenario.model_validate({**scenario.model_dump(), "world": announced or {}}).world
        honest = {key: value for key, value in world.items() if not key.startswith("misreport")}
        jobs_of = scenario.model_copy(update={"world": honest, "policy": "announced_fifo", "params": {}})
        label = (found.entry.workload, found.entry.setting, found.entry.policy)
        yield Run(found.directory, label, scenario, found.summary, jobs_of)


def _scenario(found: FoundRun) -> Scenario:
    manifest = read_manifest(found.directory)
    inputs = manifest["inputs"]
    assert isinstance(inputs, dict)
    content = {key: manifest[key] for key in ("policy", "world", "partition")}
    content |= {"params": manifest["parameters"], "workload": inputs["workload"]}
    content |= {"cluster": inputs["cluster"], "seed": manifest["seed"] or 0}
    return parse_scenario(content, str(found.directory))


@lru_cache(maxsize=16)
def announced_world(scenario_json: str) -> World:
    """The world of announced jobs of a scenario, given as JSON."""
    return prepare(Scenario.model_validate_json(scenario_json)).world


def announced_facts(scenario_json: str) -> AnnouncedFacts:
    """The announced jobs of a scenario, given as JSON."""
    return AnnouncedFacts.in_world(announced_world(scenario_json))


def _rounds(scenario_json: str) -> int:
    horizon_s = Scenario.model_validate_json(scenario_json).world["horizon_s"]
    assert isinstance(horizon_s, int | float)
    return int(horizon_s * US_PER_S) // announced_facts(scenario_json).slot_us


@lru_cache(maxsize=1024)
def _bound(scenario_json: str) -> float:
    facts = announced_facts(scenario_json)
    jobs = facts.statements
    return welfare_bound(jobs.true, jobs.arrival, jobs.duration, facts.nodes, _rounds(scenario_json))


@lru_cache(maxsize=1024)
def _plan_bound(scenario_json: str) -> float:
    facts = announced_facts(scenario_json)
    if len(facts.statements.true) > LONGEST_PROGRAMME:
        return float("nan")
    try:
        return launch_plan_bound(facts.statements.true, facts.nodes, _rounds(scenario_json))
    except InvalidScenarioError:
        return float("nan")
