"""Plans of trainings: what is refused, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.scenario import Value
from ray_sim.learning.training_plan import parse_plan, read_plan
from ray_sim.model.errors import InvalidInputError
from tests.learning.small_training import parsed, small_plan, written


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"phase": {}}, "Did you mean 'phases'|phases"),
        ({"phases": {"online": -1}}, "phases.online"),
        ({"phases": {}}, "phases: at least one must have a round"),
        ({"jobs": {"first": 0, "count": 9}}, "validation.seeds: must have no seed of `jobs`"),
        ({"collecting": {"lanes": 7}}, "lanes: must be at most jobs.count = 6"),
        ({"collecting": {"lanes": 6, "lanes_per_set": 4}}, "lanes: must be a multiple of"),
        ({"learning": {"discount": 0}}, "learning.discount"),
        ({"learning": {"learnin_rate": 1}}, "learnin_rate"),
        ({"workload": "jobs.parquet"}, "workload: must be drawn with a seed"),
        ({"seed": -1}, "seed"),
        ({"name": "a/b"}, "name"),
    ],
)
def test_problems_of_a_plan_are_named(tmp_path: Path, changed: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        parse_plan(small_plan(tmp_path, **changed), "plan.yaml")


def test_phases_follow_each_other(tmp_path: Path) -> None:
    plan = parsed(tmp_path)
    assert [plan.phase(i) for i in range(plan.rounds)] == ["imitation", "offline", "online", "online"]


def test_the_digest_is_of_the_content_and_not_of_the_name(tmp_path: Path) -> None:
    plan = parsed(tmp_path)
    assert parsed(tmp_path, name="other").digest == plan.digest
    assert parsed(tmp_path, seed=1).digest != plan.digest


def test_changes_replace_entries_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    changes: dict[str, Value] = {"seed": "7", "learning.critic": "false", "learning.hidden": "[8, 4]"}
    plan, plain = read_plan(path, changes), read_plan(path)
    assert (plan.seed, plan.learning.critic, plan.learning.hidden) == (7, False, (8, 4))
    assert plan.learning.block == plain.learning.block
    assert plan.collecting == plain.collecting
    with pytest.raises(InvalidInputError, match=r"learning\.criti"):
        read_plan(path, {"learning.criti": "false"})
    with pytest.raises(InvalidInputError, match=r"learning\.critic"):
        read_plan(path, {"learning.critic": "maybe"})
    with pytest.raises(InvalidInputError, match="seed"):
        read_plan(path, {"seed.first": "1"})


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("- 1\n")
    with pytest.raises(InvalidInputError, match=r"plan\.yaml"):
        read_plan(path)
