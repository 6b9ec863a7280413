"""Parameters that several policies of elastic jobs offer, and what they ask of a world.

drf, tetris and dorm decide by `WHEN`, at slot boundaries or at once. They, optimus and the
policies of `task_placement` take `PARAMETER_BLOCKS`.
"""

from __future__ import annotations

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.parameter_blocks import AS_WORLD, EVEN, BlockRule
from ray_sim.policy_api import Decision, Parameter, PolicyContext, View

WHEN = Parameter(
    "when",
    "choice",
    "slot",
    "times of decisions. slot: at slot boundaries, needs slot_s; event: at once when jobs come or end, or "
    "servers change",
    source="docs/models/baselines.md#times-of-decisions",
    choices=("slot", "event"),
)


def deciding_slot_us(policy: str, when: str, world: PolicyContext) -> int:
    """Length of the slots on which a policy decides; 1 if it decides at once, since time is in microseconds.

    Parameters
    ----------
    policy : its name, for messages
    when : value of `WHEN`

    Raises
    ------
    InvalidScenarioError : when=slot in a world without slots
    """
    if when != "slot":
        return 1
    if world.slot_us is None:
        raise InvalidScenarioError(
            f"policy {policy} decides on slots: give their length, e.g. -w slot_s=600, or set -p when=event"
        )
    return world.slot_us


def next_slot_us(view: View, slot_us: int) -> int:
    """First slot boundary after now."""
    return (view.now_us // slot_us + 1) * slot_us


def waits_for_slot(view: View, slot_us: int) -> Decision | None:
    """Within a slot a no-op with a review at the slot's end; None at a slot boundary."""
    return Decision(review_us=next_slot_us(view, slot_us)) if view.now_us % slot_us else None


PARAMETER_BLOCKS = Parameter(
    "parameter_blocks",
    "choice",
    AS_WORLD,
    "rule that assigns parameter blocks to parameter servers under truth=placement. world: the world's "
    "parameter_blocks; other values as there",
    source="docs/training.md#parameter-blocks; Peng et al., EuroSys 2018, section 5.3",
    choices=(AS_WORLD, EVEN, *BlockRule),
)
