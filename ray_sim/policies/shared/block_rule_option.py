"""Parameter of policies for elastic jobs: the rule for parameter blocks."""

from __future__ import annotations

from ray_sim.model.parameter_blocks import AS_WORLD, EVEN, BlockRule
from ray_sim.policy_api import Parameter

PARAMETER_BLOCKS = Parameter(
    "parameter_blocks",
    "choice",
    AS_WORLD,
    "rule that assigns parameter blocks to parameter servers under truth=placement. world: the world's "
    "parameter_blocks; other values as there",
    source="docs/training.md#parameter-blocks; Peng et al., EuroSys 2018, section 5.3",
    choices=(AS_WORLD, EVEN, *BlockRule),
)
