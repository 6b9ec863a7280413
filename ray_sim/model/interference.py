"""Interference between jobs on one server: what types of jobs ask of its channels, and their sensitivity.

A channel is a part of a server that no scheduler hands out: caches and cores, buses, the network interface,
disks. docs/models/interference.md has the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.kernels.core.arrays import MOST_TASKS as MOST_TASKS
from ray_sim.kernels.elastic.colocation import PARTS as PARTS
from ray_sim.model.errors import InvalidScenarioError, problems_text
from ray_sim.model.text import names_text
from ray_sim.model.units import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class InterferenceProfile:
    """Loads and sensitivities of L types of jobs on Q channels.

    Source: Bao et al., Deep Learning-based Job Placement in Distributed Machine Learning Clusters, INFOCOM
    2019, measure interference; the form is ours, docs/models/interference.md.
    """

    name: str
    channels: tuple[str, ...]
    between_sockets: BoolArray
    """(Q,) channels that only servers with several sockets have."""
    types: tuple[str, ...]
    """Models of jobs, as in the column ``model``."""
    worker_load: IntArray
    """(L, Q) parts of each channel that a worker asks for, >= 0."""
    ps_load: IntArray
    """(L, Q) the same of a parameter server."""
    sensitivity: FloatArray
    """(L, Q) by how much others that ask for a whole channel slow a job, >= 0."""
    own_tasks: int = MOST_TASKS
    """Tasks of a role on one server that do not slow their own job; further ones do, like those of others."""

    def types_of(self, models: IntArray, model_names: Sequence[str]) -> IntArray:
        """(J,) type of each job.

        Parameters
        ----------
        models : (J,) index into ``model_names``, -1 where the model is not known

        Raises
        ------
        InvalidScenarioError : jobs of a model without a type, or without a model
        """
        types, problems = types_by_model(self.types, models, model_names, "type")
        if problems:
            text = problems_text(f"interference={self.name}", problems)
            raise InvalidScenarioError(
                f"{text}\n  the types are {names_text(self.types)}; add the missing ones to the profile, or "
                "draw models that it has by `ray-sim enrich` or `enrich` of the workload"
            )
        return types


def types_by_model(
    types: Sequence[str], models: IntArray, model_names: Sequence[str], lacks: str
) -> tuple[IntArray, list[str]]:
    """(J,) type of each job, by the name of its model, and what is wrong: models and jobs without a type.

    Parameters
    ----------
    models : (J,) index into ``model_names``, -1 where the model is not known
    lacks : what a model without a type lacks, for messages
    """
    known = {name: number for number, name in enumerate(types)}
    used = np.unique(models).tolist()
    missing = [model_names[at] for at in used if at >= 0 and model_names[at] not in known]
    problems = [f"model {name}: has no {lacks}" for name in missing]
    if nameless := int((models < 0).sum()):
        problems.append(f"{nameless} jobs have no model, the first in row {int(np.argmax(models < 0))}")
    numbers = np.array([known.get(name, -1) for name in model_names], dtype=np.int64)
    return (numbers[models] if len(numbers) else np.full(len(models), -1)), problems


def channels_of(profile: InterferenceProfile, sockets: IntArray) -> BoolArray:
    """(S, Q) which channels servers with so many sockets, (S,), have."""
    there: BoolArray = ~profile.between_sockets[None, :] | (sockets[:, None] > 1)
    return there


def pair_slowdowns(profile: InterferenceProfile, sockets: int = 1) -> FloatArray:
    """(L, L) by what factor a type is slowed (row) beside another (column) on one server.

    Each has one worker and one parameter server.
    """
    there = channels_of(profile, np.array([sockets]))[0]
    load = _pair_load(profile)
    slowdown: FloatArray = 1.0 + (profile.sensitivity * there) @ load.T
    return slowdown


def mean_speed(profile: InterferenceProfile, jobs: int, sockets: int = 1) -> float:
    """Mean speed of a job among ``jobs`` on one server, relative to its speed alone.

    The mean is over all types of it and of each other job, each with one worker and one parameter server.
    O(L^jobs) time, O(L^(jobs - 1)) memory.
    """
    others = pair_slowdowns(profile, sockets) - 1.0
    return float(np.mean([_mean_speed_of_type(beside, jobs) for beside in others]))


def _mean_speed_of_type(others: FloatArray, jobs: int) -> float:
    """`mean_speed` of a job that one of each type, (L,), slows by so much."""
    beyond = np.zeros(1)
    for _ in range(jobs - 1):  # each further job is of any type, whatever the others are
        beyond = (beyond[:, None] + others[None, :]).ravel()
    return float((1.0 / (1.0 + beyond)).mean())


def _pair_load(profile: InterferenceProfile) -> FloatArray:
    """(L, Q) share of each channel that a worker and a parameter server ask for."""
    load: FloatArray = (profile.worker_load + profile.ps_load) / PARTS
    return load
