"""Every built-in policy gets through whatever the checks of workloads accept, with books that add up."""

from __future__ import annotations

import warnings

import pytest

from ray_sim.contract.books import checked_run
from ray_sim.model.errors import InvalidInputError
from ray_sim.policies.registry import create_policy, policy_classes
from tests.contract.extreme_workloads import Case, cases, worlds
from tests.proofs import instances, quick_first
from tests.required import new_policy

CLASSES = policy_classes()


@pytest.fixture(name="found", scope="module")
def _found() -> dict[str, Case]:
    return cases()


@pytest.mark.parametrize("name", quick_first(CLASSES, 4))
def test_no_policy_fails_at_the_ends_of_what_workloads_may_hold(name: str, found: dict[str, Case]) -> None:
    tried = instances(len(found), 3)
    first = list(CLASSES).index(name) * tried  # others for each, so that together they try all
    rotated = [list(found)[(first + i) % len(found)] for i in range(tried)]
    for case in dict.fromkeys(["a run of a microsecond", "next to no samples", *rotated]):
        for world in worlds(CLASSES[name], found[case]):
            policy = new_policy(name)
            try:
                with warnings.catch_warnings(action="ignore", category=UserWarning):
                    result = checked_run(world, policy)
            except InvalidInputError:  # a scenario that the policy refuses by name
                continue
            assert result.summary.jobs == len(world.table), case


@pytest.mark.parametrize("name", ["pd_ors", "oasis"])
def test_a_job_of_a_microsecond_is_planned_with_a_worker_and_ends(name: str, found: dict[str, Case]) -> None:
    # Its 2e-6 samples take 1e-10 workers in a slot of an hour; plans are made of whole workers.
    for world in worlds(CLASSES[name], found["a run of a microsecond"]):
        for speeds in ("world", "published"):
            result = checked_run(world, create_policy(name, {"speeds": speeds}))
            assert result.jobs["status"].to_list() == ["completed"] * 4
