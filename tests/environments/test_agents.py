"""Agents as policies: the contract, and what they need."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

from ray_sim.agents.round import Observation
from ray_sim.contract.elastic_worlds import busy_elastic, failing_elastic
from ray_sim.contract.rigid_worlds import busy_world
from ray_sim.contract.subject import Subject
from ray_sim.contract.suite import CLAUSES, check_clause
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.environments import PlacementAgent, QueueAgent
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.model.errors import ForbiddenActionError, InvalidInputError, RunFailedError
from ray_sim.policies.registry import create_policy
from tests.command_line import python
from tests.environments.rules import InTurn, LeastLoaded, first_valid, least_loaded
from tests.proofs import quick_first


@pytest.mark.slow
@pytest.mark.parametrize("agent", [LeastLoaded, InTurn])
def test_agents_keep_the_contract(agent: type[Policy]) -> None:
    subject = Subject(agent)
    outcomes = [check_clause(name, clause, subject) for name, clause in CLAUSES.items()]
    assert [each for each in outcomes if each.failed] == []


def test_agents_declare_what_their_observations_show() -> None:
    class Knowing(QueueAgent):
        observe = ("tasks", "duration_s")

        def act(self, observation: Observation) -> int:
            return first_valid(observation)

    assert InTurn.sees == frozenset()
    assert Knowing.sees == {"duration_s"}
    assert PlacementAgent.sees == {"training_profile"}


def test_a_forbidden_answer_of_an_agent_names_the_action() -> None:
    class Stubborn(PlacementAgent):
        def act(self, observation: Observation) -> int:
            return int(observation["action_mask"].argmin())

    with pytest.raises(ForbiddenActionError, match="is forbidden"):
        run_world(busy_elastic(10), Stubborn())


def test_a_network_is_no_part_of_a_snapshot_if_it_never_changes() -> None:
    class Learned(PlacementAgent):
        unchanging = frozenset({"network"})

        def __init__(self) -> None:
            self.network = {"weights": 1}

        def act(self, observation: Observation) -> int:
            return least_loaded(observation)

    class Careless(Learned):
        unchanging = frozenset()

    world = busy_elastic(5)
    for agent in (Learned(), Careless()):
        simulation = Simulation(world, agent)
        agent.start(simulation.world, simulation.streams)
        if isinstance(agent, Careless):
            with pytest.raises(RunFailedError, match=r"keeps a dict in network; .* `unchanging`"):
                simulation.state()
        else:
            simulation.state()


class Weighted(QueueAgent):
    """The job whose tasks and run time have the largest weighted sum, of those that fit."""

    observe = ("tasks", "duration_s")
    trained_file = "weights.txt"

    def load(self, file: Path) -> np.ndarray:
        return np.loadtxt(file)

    def act(self, observation: Observation) -> int:
        scores = np.stack([observation["tasks"], observation["duration_s"]], axis=1) @ self.trained
        return int(np.where(observation["action_mask"][:-1], scores, -np.inf).argmax())


def test_a_trained_file_is_part_of_a_runs_identity(tmp_path: Path) -> None:
    content = {
        "workload": {"synth": {"profile": "philly", "jobs": 30, "load_scale": 3.0}},
        "cluster": "toy",
        "policy": f"{__name__}:Weighted",
    }

    def weighed(text: str) -> tuple[str, float | None]:
        (tmp_path / "weights.txt").write_text(text, encoding="utf-8")
        prepared = prepare(parse_scenario(content, "scenario"))
        return prepared.identity.content_hash, prepared.run().result.summary.jct_s.mean

    with chdir(tmp_path):
        with pytest.raises(InvalidInputError, match=r"Weighted: trained_file: weights.txt: cannot be read"):
            _ = prepare(parse_scenario(content, "scenario")).identity
        longest, shortest = weighed("0 1"), weighed("0 -1")
        assert longest[0] != shortest[0]
        assert longest[1] != shortest[1]
        assert weighed("0 1") == longest


def test_what_was_trained_is_no_part_of_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "weights.txt").write_text("1 1", encoding="utf-8")
    agent = Weighted()
    with chdir(tmp_path):
        run_world(busy_world(10), agent)
    assert "trained" in vars(agent)
    assert "trained" not in agent.state()


@pytest.mark.parametrize("policy", quick_first(["fifo", "srtf", "las", "tetris"]))
def test_a_run_in_the_arrays_of_another_is_like_one_in_its_own(policy: str) -> None:
    worlds = [failing_elastic(30, 1)] if policy == "tetris" else [failing_elastic(30, 1), busy_world(30, 0)]
    for world in worlds:
        results = []
        for seed in (1, 2):
            fresh = create_policy(policy)
            results.append(run_world(world, fresh, seed=seed, loop="general"))
        agent = create_policy(policy)
        simulation = Simulation(world, agent, seed=1)
        for seed, expected in zip((1, 2), results, strict=True):
            if seed == 2:
                simulation = simulation.again(seed)
            agent.start(simulation.world, simulation.streams)
            while (view := simulation.advance()) is not None:
                simulation.apply(agent.decide(view))
            result = simulation.result()
            assert result.jobs.equals(expected.jobs)
            assert result.events.equals(expected.events)
            assert result.timeline.equals(expected.timeline)


@pytest.mark.slow
def test_agents_need_no_gymnasium() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import importlib.util as u; u.find_spec = lambda name, find=u.find_spec: "
        "None if name == 'gymnasium' else find(name)\n"
        "from ray_sim.environments import PlacementAgent\n"
        "import ray_sim.environments as e\n"
        "try: e.PlacementEnv\n"
        "except ImportError as error: print(error)\n"
    )
    assert python("-c", code).strip() == "PlacementEnv needs gymnasium: pip install 'ray_sim[gym]'"
