"""Fixtures of all test suites."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).parents[1]

# The same examples in every run, and no limit on the time that one takes on a busy machine.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, those that start Ray share one, and so do those of a file."""
    items.sort(key=lambda item: item.get_closest_marker("ray") is None)  # the long ones first
    for item in items:
        together = "ray" if item.get_closest_marker("ray") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(together))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder that holds real traces (`data/`) and other simulators' results (`reference/`).

    It is not part of the project: a test that asks for it is skipped where it is absent.
    """
    folder = (REPOSITORY / os.environ.get("RAY_SIM_SHARED", "../shared")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no folder of real traces at {folder}; name one in RAY_SIM_SHARED")
    return folder
