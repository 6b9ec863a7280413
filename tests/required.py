"""Parameters that a built-in policy cannot do without, for tests that run every policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import ray_sim
from ray_sim.engine.contract import Policy
from ray_sim.policies.registry import create_policy

HISTORY = Path(ray_sim.__file__).parent / "studies" / "gittins" / "history.parquet"
"""Four jobs of 1,000 GPU-s and one of 10,000."""

REQUIRED: Mapping[str, Mapping[str, object]] = {"gittins": {"history": str(HISTORY)}}


def new_policy(name: str, params: Mapping[str, object] | None = None) -> Policy:
    """A built-in policy with what it requires and these parameters."""
    return create_policy(name, {**REQUIRED.get(name, {}), **(params or {})})
