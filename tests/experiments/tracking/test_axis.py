"""Axis of a sweep: the number over which lines are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ray_sim.experiments.axis import place_settings
from ray_sim.experiments.scenario import Scenario
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.experiments.tracking.axis import SweepAxis, find_axis
from ray_sim.experiments.tracking.views import SeedGroup, configurations
from ray_sim.reports.tables import Place

POLICIES = ("fifo", "las(knob=2)")


def _groups(labels: Sequence[str]) -> list[SeedGroup]:
    """Two policies in a place for each label."""
    return configurations(
        [
            Entry(f"{label}{policy}", label, "pool", "", policy, None, f"{label}{policy}")
            for label in labels
            for policy in POLICIES
        ]
    )


def _found(places: Mapping[str, Mapping[str, object]]) -> SweepAxis | None:
    settings: dict[Place, Mapping[str, object]] = {
        (label, "pool", ""): each for label, each in places.items()
    }
    return find_axis(_groups(list(places)), settings)


def _lines(axis: SweepAxis | None) -> dict[str, list[tuple[float, str]]]:
    assert axis is not None
    return {line.name: [(x, group.place[0]) for x, group in line.points.items()] for line in axis.lines}


def test_a_line_per_policy_with_points_in_order_of_the_number() -> None:
    axis = _found(
        {"x1.5": {"load": 1.5, "world": 1}, "x0.8": {"load": 0.8, "world": 1}, "x1": {"load": 1, "world": 1}}
    )
    points = [(0.8, "x0.8"), (1.0, "x1"), (1.5, "x1.5")]
    assert (axis and axis.name, _lines(axis)) == ("load", dict.fromkeys(POLICIES, points))


def test_another_setting_makes_other_lines() -> None:
    axis = _found(
        {f"{load}{rule}": {"load": load, "rule": rule} for load in (1, 2, 3) for rule in ("days", "none")}
    )
    assert list(_lines(axis)) == [
        f"{policy}, rule={rule}" for rule in ("days", "none") for policy in POLICIES
    ]
    assert {len(points) for points in _lines(axis).values()} == {3}


def test_of_two_numbers_the_one_with_more_values_is_the_axis() -> None:
    axis = _found({f"{a} {b}": {"a": a, "b": b} for a in (0, 60) for b in (1, 2, 3)})
    assert axis is not None
    assert axis.name == "b"
    assert next(iter(_lines(axis))) == "fifo, a=0"


def test_names_truth_values_and_numbers_that_change_together_are_no_axis() -> None:
    assert _found({"a": {"path": "a", "flag": True}, "b": {"path": "b", "flag": False}}) is None
    assert _found({"a": {"path": "a", "jobs": 10}, "b": {"path": "b", "jobs": 20}}) is None
    assert _found({"a": {"jobs": 10}, "b": {"jobs": None}}) is None
    assert _found({"a": {"jobs": 10}}) is None
    assert find_axis([], {}) is None


def test_a_place_has_the_defaults_of_what_is_not_given_and_the_servers_of_each_entry() -> None:
    scenario = Scenario.model_validate(
        {"workload": "week.parquet", "cluster": "pool-368@server.count=12", "policy": "fifo"}
    )
    entry = Entry.of(scenario, "hash", None, "hash")
    settings = place_settings(entry, scenario)
    assert settings["workload.load_scale"] == 1.0
    assert (settings["cluster"], settings["cluster.server.count"]) == ("pool-368", 12)
    assert settings["world.restart_cost_s"] == 0.0


def test_entries_of_a_policys_own_world_are_no_setting_of_the_place() -> None:
    content = {"workload": "week.parquet", "cluster": "pool-368", "policy": "fifo", "world": {"slot_s": 60}}
    scenario = Scenario.model_validate(content)
    entry = replace(Entry.of(scenario, "hash", None, "hash"), shared_world='{"slot_s": 3600}')
    assert place_settings(entry, scenario)["world.slot_s"] == 3600
