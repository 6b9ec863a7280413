"""Answer of one clause of the contract, and how a clause says that it is broken or does not apply."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class NotCheckedError(Exception):
    """A clause does not apply to the policy; the text says why."""


class BrokenError(Exception):
    """A clause does not hold; the text says how."""


class Verdict(StrEnum):
    """Whether a policy holds a clause."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"
    """The clause does not apply to it, or an error stops it; the detail says why."""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """One clause of the contract and whether the policy holds it."""

    name: str
    result: Verdict
    detail: str

    @property
    def failed(self) -> bool:
        """Whether the policy breaks the clause."""
        return self.result is Verdict.FAILED

    def to_dict(self) -> dict[str, Any]:
        """For --json; ``passed`` is null where the clause was not checked."""
        passed = None if self.result is Verdict.NOT_CHECKED else not self.failed
        return {"name": self.name, "result": self.result.value, "passed": passed, "detail": self.detail}
