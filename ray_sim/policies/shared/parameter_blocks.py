"""The parameter that policies for elastic jobs share: how models go to parameter servers."""

from __future__ import annotations

from ray_sim.model.parameter_blocks import AS_WORLD, EVEN, BlockRule
from ray_sim.policy_api import Parameter

PARAMETER_BLOCKS = Parameter(
    "parameter_blocks",
    "choice",
    AS_WORLD,
    "how the parameters of a model go to its parameter servers under truth=placement. world: as the world's "
    "parameter_blocks says; the others as there",
    source="docs/training.md#parameter-blocks; Peng et al., EuroSys 2018, section 5.3",
    choices=(AS_WORLD, EVEN, *BlockRule),
)
