"""The compiled loop and the general one leave the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings

from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.kernels.core.placement import RULE_NAMES
from ray_sim.policies.fifo import Fifo
from tests.proofs import instances
from tests.random_worlds import PolicyChoice, policies, worlds
from tests.worlds import Job, fingerprint, replay, times_of, world_of
from workloads.convert import convert
from workloads.store import load_workload


@pytest.mark.slow
@settings(max_examples=instances(300, 25))
@given(world=worlds(), policy=policies())
def test_the_two_loops_agree_on_small_worlds_full_of_ties(world: World, policy: PolicyChoice) -> None:
    compiled = replay(world, policy.create())
    general = replay(world, policy.create(), loop="general")
    assert (compiled.loop, general.loop) == ("compiled", "general")
    assert fingerprint(compiled) == fingerprint(general)


EVERY_COMMIT = {("fifo", "consolidate"), ("sjf", "pooled"), ("srtf", "pooled")}
"""Each policy, on whole servers or single GPUs; small worlds try all pairs in each commit."""
WEEK_POLICIES: dict[str, dict[str, object]] = {
    "fifo": {"backfill": True},
    "sjf": {},
    "srtf": {},
    "las": {"limits_gpu_s": (3600.0, 36000.0), "knob": 4},
}


@pytest.fixture(scope="module")
def philly_week(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    file = tmp_path_factory.mktemp("philly") / "week.parquet"
    convert("csv", [shared_data / "reference" / "replay" / "philly_week_6vc.csv"], file)
    cluster = load_cluster("philly-week-6vc")
    table = load_workload(file, cluster.resources)
    return build_world(table, cluster, partition="vc", params={"restart_cost_s": 30})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "placement"),
    [
        pytest.param(policy, rule, marks=[pytest.mark.long] * ((policy, rule) not in EVERY_COMMIT))
        for policy in WEEK_POLICIES
        for rule in RULE_NAMES
    ],
)
def test_the_two_loops_agree_on_a_week_of_philly(policy: str, placement: str, philly_week: World) -> None:
    chosen = PolicyChoice(policy, {"placement": placement, **WEEK_POLICIES[policy]})
    compiled = replay(philly_week, chosen.create())
    general = replay(philly_week, chosen.create(), loop="general")
    assert (compiled.loop, general.loop) == ("compiled", "general")
    assert fingerprint(compiled) == fingerprint(general)


class Hesitant(Fifo):
    """FIFO that starts nobody before 10 s."""

    wake_on: Wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.REVIEW

    def decide(self, view: View) -> Decision:
        if view.now_us < 10_000_000:
            self._service.push(view.arrived, self._keys[view.arrived])
            return Decision(review_us=10_000_000)
        return super().decide(view)


class OnSlots(Fifo):
    """FIFO that decides on slots only."""

    slotted: ClassVar[bool] = True


def test_a_subclass_that_decides_for_itself_is_not_run_as_its_parent() -> None:
    # J1 waits until 10 s; the compiled loop would start it at 0 s.
    result = replay(world_of([Job(0, 1, 5)], [1]), Hesitant())
    assert result.loop_reason == "the policy decides in Python"
    assert times_of(result) == {"J1": (10, 15)}
    # Slots of 4 s: J1 comes at 1 s and starts at 4 s.
    slots = replay(world_of([Job(0, 1, 1), Job(1, 1, 5)], [1], params={"slot_s": 4}), OnSlots())
    assert times_of(slots) == {"J1": (0, 1), "J2": (4, 9)}
