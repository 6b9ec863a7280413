"""Number of instances of a proof: few (`make test-quick`), some (`make test`) or all (`make test-all`)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

PROOFS = "RAY_SIM_PROOFS"
"""Environment variable: `few` (`make test-quick`), `some` (default) or `all` (`make test-all`)."""

PER_COMMIT = 15
QUICK_SHARE = 5
"""`few` tries a fifth of `some`,"""
QUICK_LEAST = 8
"""and at least eight: of fewer, some proofs cannot show that they tried what they are about."""


def proofs() -> str:
    """How many instances proofs take: few, some or all."""
    size = os.environ.get(PROOFS, "some")
    if size not in ("few", "some", "all"):
        raise ValueError(f"{PROOFS}: must be few, some or all, got {size!r}")
    return size


def instances(whole: int, per_commit: int = PER_COMMIT) -> int:
    """Number of random instances to try: `whole` in `make test-all`, else at most `per_commit`.

    Fewer instances are the first of the whole, by fixed seeds.
    """
    size = proofs()
    if size == "all":
        return whole
    tried = min(whole, per_commit)
    return tried if size == "some" else min(tried, max(QUICK_LEAST, tried // QUICK_SHARE))


def quick_first(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """Cases for `parametrize`, tuples for several arguments; those from ``quick`` on are slow tests."""
    return [case if at < quick else _slow(case) for at, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    if isinstance(case, pytest.ParameterSet):  # has marks of its own
        return case
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)


def seeds(count: int, quick: int = 5) -> list[Any]:
    """Seeds 0 to ``count - 1`` for `pytest.mark.parametrize`; those from ``quick`` on are slow tests."""
    return quick_first(range(count), quick)
