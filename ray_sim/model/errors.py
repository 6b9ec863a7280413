"""Every error a user can meet. The command line prints their text and no traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class RaySimError(Exception):
    """Base of all errors with a message meant for the user."""


def failure_text(failure: BaseException) -> str:
    """The type and the text of a user's error, whose own text may fail too."""
    try:
        return f"{type(failure).__name__}: {failure}"
    except Exception:  # its __str__ may do anything
        return f"{type(failure).__name__} (whose text cannot be had)"


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
        near = nearest(name, names)
        hint = f" Did you mean '{near}'?" if near else ""
        listing = ", ".join(names) if names else "none"
        super().__init__(f"unknown {kind} '{name}'.{hint} Known: {listing}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a name is most like, if any is."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return near[0] if near else None


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
