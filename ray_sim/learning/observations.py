"""Observations of Placement-v0 of several episodes, as collection, networks and the buffer hand them on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ray_sim.agents.features import ACTION_MASK
from ray_sim.policies.harmony.architecture import STATE

Observations = Mapping[str, npt.NDArray[np.float32] | npt.NDArray[np.int8]]
"""Entries of observations by name, each with a leading axis of states."""

ENTRIES = (*STATE, ACTION_MASK)
"""Entries that networks need and training keeps; docs/environments.md describes them."""
