"""Content of a file given as a Python mapping, in the types that a YAML file gives."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ray_sim.engine.contract import Policy
from ray_sim.model.errors import InvalidScenarioError
from workloads.describe import Workload


def plain(value: object) -> object:
    """The value with texts for paths, lists for other sequences, and Python's numbers for those of numpy.

    A loaded workload becomes its path, a class of policies the name by which other processes import it.

    Raises
    ------
    InvalidScenarioError : a class that other processes cannot import
    """
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | range | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Workload):
        return value.path
    return _importable(value) if isinstance(value, type) and issubclass(value, Policy) else value


def _importable(policy: type[Policy]) -> str:
    name = f"{policy.__module__}:{policy.__qualname__}"
    if policy.__module__ == "__main__" or "." in policy.__qualname__:
        raise InvalidScenarioError(
            f"policy {policy.__qualname__}: other processes run it and cannot import it from here; write it "
            f"to a file, in a notebook with %%writefile my_policies.py, and name it as "
            f"'my_policies:{policy.__name__}'"
        )
    return name
