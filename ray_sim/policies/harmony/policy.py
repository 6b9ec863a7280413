"""The policy `harmony`: a trained network places the tasks of new jobs, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from ray_sim.agents.agent import PlacementAgent
from ray_sim.agents.round import Observation
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.model.text import names_text
from ray_sim.model.units import NEVER_US
from ray_sim.policies.harmony.architecture import STATE
from ray_sim.policies.harmony.checkpoint import Header, parse_checkpoint
from ray_sim.policies.harmony.network import PolicyNetwork
from ray_sim.policies.task_placement.gangs import NEVER_FIT, LoadBalance
from ray_sim.policy_api import (
    Decision,
    ElasticContext,
    ElasticPolicy,
    ElasticView,
    Parameter,
    PolicyContext,
    Streams,
    View,
)

BUNDLED = Path(__file__).with_name("harmony_types.npz")
"""A network for the models of the training profile of that name."""

CHECKPOINT = Parameter(
    "checkpoint",
    "text",
    None,
    "file of a trained network (.npz); none = the bundled one, for the models of harmony_types",
    source="docs/models/harmony.md#checkpoints",
)

UNKNOWN_MODELS = Parameter(
    "unknown_models",
    "choice",
    "refuse",
    "jobs of models that the network does not know: refuse the world, or show them without a type",
    source="docs/studies/harmony.md#models-that-the-network-does-not-know",
    choices=("refuse", "blank"),
)


class Harmony(PlacementAgent):
    """Place each task of new jobs, at slot boundaries, by the most probable action of the policy network.

    Jobs that cannot be completed hold nothing and wait. What is placed stays. A network that completes no job
    on idle servers would do the same in every later slot; then jobs are placed as by `load_balance`.

    Source: Bao, Peng and Wu, Deep Learning-based Job Placement in Distributed Machine Learning Clusters,
    INFOCOM 2019.
    """

    name: ClassVar[str] = "harmony"
    section: ClassVar[str] = "docs/models/harmony.md#policy (Bao et al., INFOCOM 2019)"
    summary: ClassVar[str] = "fixed gangs, task by task, by a network trained to avoid interference"
    parameters: ClassVar[tuple[Parameter, ...]] = (CHECKPOINT, UNKNOWN_MODELS)
    schedules: ClassVar[str] = ElasticPolicy.schedules
    unchanging: ClassVar[frozenset[str]] = frozenset({"network", "_balance"})
    observe = STATE
    scaled = True

    def __init__(
        self, checkpoint: str | None = None, unknown_models: str = str(UNKNOWN_MODELS.default)
    ) -> None:
        self.blank_types = unknown_models == "blank"
        self._file = str(BUNDLED) if checkpoint is None else checkpoint
        self._balance = LoadBalance()
        self._balanced = 0

    def input_files(self) -> Mapping[str, Path]:
        """The checkpoint."""
        return {CHECKPOINT.name: Path(self._file)}

    def start(self, world: PolicyContext, streams: Streams) -> None:
        """Read the network.

        Raises
        ------
        InvalidInputError : the file cannot be read or is no checkpoint
        InvalidScenarioError : its network is for other models, resources or servers than the world's
        """
        source = f"checkpoint={self._file}"
        try:
            content = Path(self._file).read_bytes()
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"{source}: cannot be read: {error}") from error
        trained = parse_checkpoint(content, source)
        header = trained.header
        problems = _unfit(header, world) + ([] if self.blank_types else _unknown_models(header, world))
        if self.blank_types and not len(world.jobs.model_names):
            problems.append("no job has a model; `ray-sim enrich` draws models")
        if problems:
            raise InvalidScenarioError(_refusal(source, problems))
        self.most_jobs, self.most_new = header.most_jobs, header.most_new
        self.models = tuple(header.models)
        super().start(world, streams)
        assert isinstance(world, ElasticContext), "it schedules elastic jobs"
        self._balance.start(world, streams)
        columns = np.array([header.resources.index(name) for name in world.cluster.resources], dtype=np.int64)
        self.network = PolicyNetwork(header.architecture, trained.parameters, len(world.cluster), columns)

    def act(self, observation: Observation) -> int:
        """The valid action of the largest probability, the lowest of equals.

        Raises
        ------
        InvalidInputError : weights of the network are so large that its sums overflow
        """
        action = self.network.best(observation)
        if action < 0:
            raise InvalidInputError(
                f"checkpoint={self._file}: the network rates an action by no finite number: its weights are "
                "too large; train it anew"
            )
        return action

    def decide(self, view: View) -> Decision:
        """Place new jobs by the network, or by load balancing where it completes none on idle servers."""
        decision = super().decide(view)
        if decision.served or len(view.running) or len(view.waiting) == len(decision.reject):
            return decision
        return self._unstuck(view, decision)

    def _unstuck(self, view: View, decision: Decision) -> Decision:
        """Place jobs that wait by load balancing; reject those that fit on no servers even so."""
        assert isinstance(view, ElasticView), "it schedules elastic jobs"
        balanced = self._balance.decide(view)
        if balanced.served:
            self._balanced += len(balanced.served)
            return replace(decision, changes=balanced.changes, review_us=NEVER_US)
        if view.available.all():
            return Decision(reject=view.waiting, reject_reason=NEVER_FIT)
        return replace(decision, review_us=NEVER_US)

    def counts(self) -> Mapping[str, int]:
        """Jobs that load balancing placed."""
        return {"jobs_balanced": self._balanced}


def _unknown_models(header: Header, world: PolicyContext) -> list[str]:
    """Which jobs have no column of x."""
    problems = []
    names: tuple[str, ...] = tuple(world.jobs.model_names)
    nameless = world.jobs.model < 0 if len(names) else np.ones(len(world.jobs.submit_us), dtype=np.bool_)
    if nameless.any():
        problems.append(f"{nameless.sum()} jobs have no model, the first in row {int(np.argmax(nameless))}")
    if unknown := sorted(set(names) - set(header.models)):
        problems.append(f"model {names_text(unknown)}: it knows {names_text(header.models)}")
    if problems:
        problems.append("-p unknown_models=blank shows such jobs without a type")
    return problems


def _unfit(header: Header, world: PolicyContext) -> list[str]:
    """Which resources and servers the network was not trained for."""
    problems = []
    if unknown := sorted(set(world.cluster.resources) - set(header.resources)):
        problems.append(f"resource {names_text(unknown)}: it knows {names_text(header.resources)}")
    if header.servers and header.servers != len(world.cluster):
        problems.append(
            f"servers: the world has {len(world.cluster)}, and this network is for {header.servers}; "
            "one of form shared takes any number"
        )
    return problems


def _refusal(source: str, problems: list[str]) -> str:
    """Text of an error about a network that does not fit a world."""
    listing = "\n".join(f"  {problem}" for problem in problems)
    return (
        f"{source}: the network does not fit the world:\n{listing}\n  train one for this world and "
        "name its file by -p checkpoint=FILE"
    )
