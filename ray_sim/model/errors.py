"""Every error a user can meet. The command line prints their text and no traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class RaySimError(Exception):
    """Base of all errors with a message meant for the user."""


class InvalidInputError(RaySimError):
    """A file, an option or a value is not what it must be. Exit code 2."""


class InvalidWorkloadError(InvalidInputError):
    """A trace or workload file cannot be read, or breaks the schema."""


class InvalidClusterError(InvalidInputError):
    """A cluster description breaks its rules; the message lists every problem."""


class InvalidScenarioError(InvalidInputError):
    """A scenario or sweep file, or a parameter, breaks its rules."""


class UnknownNameError(InvalidInputError):
    """A name is not among those known; the message lists them and the nearest."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        listing = ", ".join(names) if names else "none"
        super().__init__(f"unknown {kind} '{name}'.{hint} Known: {listing}")


class RunFailedError(RaySimError):
    """A simulation could not be carried through. Exit code 1."""


class RunStoppedError(RaySimError):
    """A simulation was asked to stop, and can be continued."""


class InfeasibleDecisionError(RunFailedError):
    """A policy's decision breaks a rule of the world (capacity, arrival, gang, partition)."""


class BlindPolicyError(RunFailedError):
    """A policy reads a column or an observation that its `sees` does not declare."""


def problems_text(source: str, problems: Sequence[str]) -> str:
    """One line per problem of a file, after a line that counts them."""
    count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
    return "\n".join([f"{source}: {count}", *(f"  {problem}" for problem in problems)])
