"""Errors that a user can meet. The command line prints their text and no traceback."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

from ray_sim.model.text import cut, shown


class RaySimError(Exception):
    """Base of all errors with a message for the user."""


def failure_text(failure: BaseException) -> str:
    """Type and text of an error; the text of a user's own error may fail too."""
    try:
        return cut(f"{type(failure).__name__}: {failure}".removesuffix(": "))
    except Exception:  # its __str__ may do anything
        return f"{type(failure).__name__} (its text cannot be read)"


def place_of(failure: BaseException, file: str | None) -> str:
    """The last line in the folder of a user's file that led to a failure, else the last line of all."""
    frames = traceback.extract_tb(failure.__traceback__)
    folder = None if file is None else Path(file).parent
    ours = Path(__file__).parents[1]  # the user's folder may be the one that a clone of ray_sim is in
    hidden = None if folder is None or folder.is_relative_to(ours) else ours
    own = [
        frame for frame in frames if folder in (where := Path(frame.filename).parents) and hidden not in where
    ]
    last = own[-1] if own else frames[-1]
    return f"{last.filename}, line {last.lineno}, in {last.name}"


class InvalidInputError(RaySimError):
    """A file, an option or a value is invalid. Exit code 2."""


class MissingPackageError(InvalidInputError, ImportError):
    """An optional dependency is not installed; the message says how to install it."""


class InvalidWorkloadError(InvalidInputError):
    """A trace or workload file cannot be read or breaks the schema."""


class InvalidClusterError(InvalidInputError):
    """A cluster description breaks its rules; the message lists every problem."""


class InvalidScenarioError(InvalidInputError):
    """A scenario or sweep file, or a parameter, breaks its rules."""


class UnknownNameError(InvalidInputError):
    """An unknown name; the message lists the known names and the nearest one, or the one that is meant."""

    def __init__(self, kind: str, name: str, known: Iterable[str], meant: str | None = None) -> None:
        names = sorted(known)
        near = meant or nearest(name, names)
        hint = f" Did you mean '{near}'?" if near else ""
        listing = ", ".join(names) if names else "none"
        super().__init__(f"unknown {kind} '{name}'.{hint} Known: {listing}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Known name that is most similar to a name, in any case; None if none is similar."""
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None


class RunFailedError(RaySimError):
    """A simulation failed. Exit code 1."""

    place: str | None = None
    """File, line and function of a policy where it failed, if that is known."""


class RunStoppedError(RaySimError):
    """A simulation was stopped on request and can be continued."""


class InfeasibleDecisionError(RunFailedError):
    """A policy's decision breaks a rule of the world (capacity, arrival, gang, partition)."""


class BlindPolicyError(RunFailedError):
    """A policy reads a column or an observation that its `sees` does not declare."""


class ForbiddenActionError(RunFailedError):
    """An action that is not valid in the state of an environment; nothing has been changed."""


def problems_text(source: str, problems: Sequence[str]) -> str:
    """Text with one line per problem of a file, after a line that counts them.

    Line ends in a problem are escaped: a name with one cannot look like another problem.
    """
    count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
    return "\n".join([f"{source}: {count}", *(f"  {shown(problem)}" for problem in problems)])
