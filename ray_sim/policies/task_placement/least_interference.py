"""Least interference first (LIF): each task where its job is predicted to be slowed least."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.parameter_blocks import AS_WORLD
from ray_sim.model.slowdown_coefficients import SlowdownCoefficients, parse_coefficients
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.shared.elastic_options import PARAMETER_BLOCKS
from ray_sim.policies.task_placement.gangs import TaskPlacement
from ray_sim.policies.task_placement.placement_kernels import (
    LEAST_SLOWED,
    LEAST_SLOWED_TOGETHER,
    count_beside,
)
from ray_sim.policy_api import ElasticContext, ElasticView, Parameter, Streams

BUNDLED = Path(__file__).with_name("harmony_types.json")
"""Coefficients fitted to samples of the interference profile of that name; the file has the command."""

COEFFICIENTS = Parameter(
    "coefficients",
    "text",
    None,
    "JSON file of fitted coefficients, from `ray-sim interference PROFILE --samples 2000 -o FILE`; none = "
    "those fitted to the profile harmony_types",
    source="docs/models/baselines.md#least-interference-first",
)

TIES = Parameter(
    "ties",
    "choice",
    "load",
    "which of the servers with the least predicted slowdown: load, the least loaded; own_job, that with most "
    "tasks of the job, then the least loaded",
    choices=("load", "own_job"),
    source="docs/models/harmony.md#our-choices",
)


class _Prediction(NamedTuple):
    """Facts of a run for the prediction of slowdowns."""

    job_type: IntArray
    """(J,)"""
    table: FloatArray
    """(powers, L, L)"""


class LeastInterference(TaskPlacement):
    """Place each task of a gang on the server with the smallest predicted slowdown of its job there.

    Ties: `TIES`, then the lowest. The prediction is a regression on the numbers of tasks of
    other jobs, by type.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (COEFFICIENTS, TIES, PARAMETER_BLOCKS)
    sees: frozenset[str] = frozenset({"training_profile"})

    def __init__(
        self, coefficients: str | None = None, ties: str = "load", parameter_blocks: str = AS_WORLD
    ) -> None:
        super().__init__(parameter_blocks)
        self.rule = LEAST_SLOWED_TOGETHER if ties == "own_job" else LEAST_SLOWED
        self._file = str(BUNDLED) if coefficients is None else coefficients

    def input_files(self) -> Mapping[str, Path]:
        """The file of coefficients."""
        return {COEFFICIENTS.name: Path(self._file)}

    @abstractmethod
    def table(self, fitted: SlowdownCoefficients) -> FloatArray:
        """(powers, L, L) coefficients of the policy's regression."""

    def start(self, world: ElasticContext, streams: Streams) -> None:
        """Read the coefficients.

        Raises
        ------
        InvalidInputError : the file cannot be read, breaks its rules, or lacks models of the workload
        """
        super().start(world, streams)
        try:
            text = Path(self._file).read_bytes()
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"coefficients={self._file}: cannot be read: {error}") from error
        fitted = parse_coefficients(text, f"coefficients={self._file}")
        jobs = world.jobs
        types = fitted.types_of(jobs.model, tuple(jobs.model_names), self._file)
        self._prediction = _Prediction(types, self.table(fitted))

    def job_types(self, jobs: IntArray) -> IntArray:
        """(n,) type of each of ``jobs``."""
        return self._prediction.job_type[jobs]

    def coefficients(self) -> FloatArray:
        """(powers, L, L) coefficients of the policy's regression."""
        return self._prediction.table

    def beside(self, view: ElasticView) -> IntArray:
        """(S, L) tasks on each server by type of job."""
        running = view.running
        tasks = np.zeros((len(view.available), self._prediction.table.shape[1]), dtype=np.int64)
        count_beside(view.placements.rows_of(running), self.job_types(running), tasks)
        return tasks


class LifLinear(LeastInterference):
    """Least interference first by a linear regression.

    Source: a baseline of Bao et al., Deep Learning-based Job Placement in Distributed Machine Learning
    Clusters, INFOCOM 2019.
    """

    name: ClassVar[str] = "lif_linear"
    section: ClassVar[str] = "docs/models/baselines.md#least-interference-first (Bao et al., INFOCOM 2019)"
    summary: ClassVar[str] = "fixed gangs, each task where a linear regression predicts the least slowdown"

    def table(self, fitted: SlowdownCoefficients) -> FloatArray:
        """(1, L, L)."""
        return fitted.linear


class LifQuad(LeastInterference):
    """Least interference first by a regression with squares.

    Source: a baseline of Bao et al., Deep Learning-based Job Placement in Distributed Machine Learning
    Clusters, INFOCOM 2019.
    """

    name: ClassVar[str] = "lif_quad"
    section: ClassVar[str] = "docs/models/baselines.md#least-interference-first (Bao et al., INFOCOM 2019)"
    summary: ClassVar[str] = "fixed gangs, each task where a quadratic regression predicts the least slowdown"

    def table(self, fitted: SlowdownCoefficients) -> FloatArray:
        """(2, L, L)."""
        return fitted.quadratic
