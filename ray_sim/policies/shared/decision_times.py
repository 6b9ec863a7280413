"""Choice between decisions at slot boundaries and at once, for policies that share all servers anew.

Used by the policies drf, tetris and dorm.
"""

from __future__ import annotations

from ray_sim.model.errors import InvalidScenarioError
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
    """Within a slot, the decision to change nothing and be called at its end; None at a slot boundary."""
    return Decision(review_us=next_slot_us(view, slot_us)) if view.now_us % slot_us else None
