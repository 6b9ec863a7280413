"""Events at which policies decide."""

from __future__ import annotations

from enum import Flag, auto


class Wake(Flag):
    """The events at which a policy wants to decide."""

    ARRIVAL = auto()
    COMPLETION = auto()
    SLOT = auto()
    """Every slot boundary while a job waits or runs."""
    REVIEW = auto()
    """Times the policy asked for itself."""
    SERVER_CHANGE = auto()
    """Servers go or come back."""
    ACTIVATION = auto()
    """Sites report that jobs begin or cease to be active, in kinds that have such reports. Asked at once,
    also where decisions wait for slots."""


NO_WAKE = Wake(0)
"""No event."""
