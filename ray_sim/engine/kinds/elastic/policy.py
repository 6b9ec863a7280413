"""Base class of policies for elastic jobs."""

from __future__ import annotations

from typing import ClassVar

from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.elastic.context import ElasticContext
from ray_sim.engine.kinds.elastic.jobs import ELASTIC
from ray_sim.engine.kinds.elastic.view import ElasticView
from ray_sim.model.parameter_blocks import AS_WORLD, BlockRule


class ElasticPolicy(Policy[ElasticContext, ElasticView]):
    """A scheduler of elastic jobs: it decides how many workers and parameter servers each holds, and where.

    It runs under truth=placement and pd_ors. It may answer with an `ElasticDecision`.
    """

    schedules: ClassVar[str] = ELASTIC
    parameter_blocks: str = AS_WORLD
    """Rule that assigns parameters of models to parameter servers, under truth=placement: `EVEN`, a
    `BlockRule`, or `AS_WORLD`, as the world says."""

    @property
    def draws(self) -> bool:
        """Whether its runs draw random numbers."""
        return self.uses_seed or self.parameter_blocks == BlockRule.MXNET
