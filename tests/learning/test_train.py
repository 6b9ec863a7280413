"""Trainings: equal bytes whatever stops or dies; what is kept when a loss is no number."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from ray_sim.engine.run import run_world
from ray_sim.learning.collection import Guide, LocalCollectors, Unit
from ray_sim.learning.returns import rewards
from ray_sim.learning.setting import setting_of
from ray_sim.learning.train import run_training
from ray_sim.learning.trainer import Trainer
from ray_sim.learning.update import Learner, TrainingDivergedError
from ray_sim.learning.validation import mean_jct_s
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, RunFailedError
from ray_sim.policies.harmony.checkpoint import parse_checkpoint
from ray_sim.policies.harmony.policy import Harmony
from tests.learning.small_training import contents, parsed


def trained(folder: Path, out: Path, **options: Any) -> dict[str, bytes]:
    """Files of a training in this process."""
    run_training(parsed(folder), out, command="a command", actors=0, **options)
    return dict(contents(out))


@pytest.mark.slow
def test_equal_plans_give_equal_bytes_and_another_seed_other_weights(tmp_path: Path) -> None:
    once = trained(tmp_path, tmp_path / "a")
    assert trained(tmp_path, tmp_path / "b") == once
    run_training(parsed(tmp_path, seed=1), tmp_path / "c", command="a command", actors=0)
    assert contents(tmp_path / "c")["last.npz"] != once["last.npz"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds", [pytest.param(1, marks=pytest.mark.long), 2, pytest.param(3, marks=pytest.mark.long)]
)
def test_a_training_that_stops_and_goes_on_ends_with_the_bytes_of_one_that_did_not(
    tmp_path: Path, rounds: int
) -> None:
    whole = trained(tmp_path, tmp_path / "whole")
    done: list[object] = []
    parts = tmp_path / "parts"
    trained(tmp_path, parts, report=done.append, stop=lambda: len(done) >= rounds)
    assert pl.read_parquet(parts / "curves.parquet").height == rounds
    assert trained(tmp_path, parts, resume=True) == whole


@pytest.mark.slow
def test_validation_has_the_mean_jct_of_runs_with_the_checkpoint(tmp_path: Path) -> None:
    plan = parsed(tmp_path)
    trained(tmp_path, tmp_path / "out")
    checkpoint = parse_checkpoint((tmp_path / "out/checkpoint.npz").read_bytes(), "checkpoint.npz")
    policy = {"checkpoint": str(tmp_path / "out/checkpoint.npz")}
    results = [run_world(world, Harmony(**policy), seed=0) for world, _ in setting_of(plan).validation]
    mean = float(np.mean([result.summary.jct_s.mean for result in results]))
    assert checkpoint.header.training["validation_jct_s"] == pytest.approx(mean, rel=1e-9)


@pytest.mark.slow
def test_curves_have_the_phases_the_error_of_the_reward_model_and_validations(tmp_path: Path) -> None:
    plan = parsed(tmp_path, phases={"imitation": 1, "offline": 1, "online": 6})
    run_training(plan, tmp_path / "out", command="a command", actors=0)
    curves = pl.read_parquet(tmp_path / "out/curves.parquet")
    assert curves["phase"].to_list() == ["imitation", "offline", *["online"] * 6]
    assert curves["validation_jct_s"].is_null().to_list() == [True, False] * 4
    error = curves["reward_model_error"].to_list()
    assert error[0] is None
    assert error[-1] != error[1]  # fitted to the speeds that were measured online
    assert curves["samples"].to_list() == [3 * 2 * 20] * 8


@pytest.mark.slow
def test_a_loss_that_is_no_number_names_the_step_and_keeps_the_state_before_the_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    trained(tmp_path, tmp_path / "before", report=done.append, stop=lambda: len(done) >= 2)
    kept = contents(tmp_path / "before")

    def broken(*given: Any) -> np.ndarray:
        found: np.ndarray = rewards(*given)
        return np.full_like(found, np.nan)

    monkeypatch.setattr("ray_sim.learning.trainer.rewards", broken)
    with pytest.raises(TrainingDivergedError, match="step 6: the loss is nan"):
        trained(tmp_path, tmp_path / "before", resume=True)
    assert contents(tmp_path / "before") == kept
    monkeypatch.undo()
    assert trained(tmp_path, tmp_path / "before", resume=True) == trained(tmp_path, tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize("learning_rate", [1e10, 1e25])
def test_weights_that_overflow_name_the_step_and_leave_nothing_of_their_round(
    tmp_path: Path, learning_rate: float
) -> None:
    # The one step of the round has finite losses, and leads to weights whose products have none.
    learning = {"most_jobs": 6, "most_new": 3, "block": 8, "hidden": [8, 8], "learning_rate": learning_rate}
    plan = parsed(tmp_path, learning=learning, updates=1, phases={"online": 2})
    with pytest.raises(TrainingDivergedError, match=r"step 1: the loss is .* Lower learning_rate"):
        run_training(plan, tmp_path / "out", command="test", actors=0)
    assert not contents(tmp_path / "out")


def test_weights_that_overflow_choose_no_action(tmp_path: Path) -> None:
    setting = setting_of(parsed(tmp_path))
    large = {name: np.full_like(array, 3e38) for name, array in Trainer(setting).parameters().items()}
    for act in (
        lambda: setting.collection.collect(Unit(0, 0), Guide(large)),
        lambda: mean_jct_s(setting.collection, setting.validation, large),
    ):
        with pytest.raises(RunFailedError, match=r"rates an action by no finite number.*lower learning_rate"):
            act()


def test_a_training_without_an_interval_to_learn_from_says_so(tmp_path: Path) -> None:
    plan = parsed(tmp_path, phases={"online": 1}, collecting={"units": 1, "lanes": 2, "steps": 1})
    with pytest.raises(RunFailedError, match=r"no interval has ended .*; raise collecting\.steps"):
        run_training(plan, tmp_path / "out", command="test", actors=0)


@pytest.mark.slow
def test_another_training_is_not_overwritten_and_another_plan_does_not_go_on(tmp_path: Path) -> None:
    trained(tmp_path, tmp_path / "out")
    with pytest.raises(InvalidInputError, match="has a training already; go on with --resume"):
        trained(tmp_path, tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"state.npz: is of another plan"):
        run_training(parsed(tmp_path, seed=1), tmp_path / "out", command="", actors=0, resume=True)
    state = tmp_path / "out/state.npz"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(InvalidInputError, match=r"state.npz: is no state of a training, or damaged"):
        trained(tmp_path, tmp_path / "out", resume=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "problem"),
    [
        ({"truth": "rigid", "slot_s": 600}, "world: jobs of truth=rigid have no models to learn; set truth="),
        ({"truth": "placement"}, "slot_s: the world of episode 0 has none, and jobs are placed at slot"),
    ],
)
def test_worlds_that_give_no_placements_to_learn_from_are_refused(
    tmp_path: Path, world: dict[str, object], problem: str
) -> None:
    with pytest.raises(InvalidScenarioError, match=problem):
        setting_of(parsed(tmp_path, world=world))


def test_jobs_of_models_that_the_network_has_no_column_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"models: lacks .*, of which there are jobs; it has none"):
        setting_of(parsed(tmp_path, models=["none"]))


@pytest.mark.slow
def test_the_teacher_is_learned(tmp_path: Path) -> None:
    learning = {
        "most_jobs": 6,
        "most_new": 3,
        "block": 8,
        "hidden": [8],
        "minibatch": 64,
        "entropy": 0,
        "learning_rate": 0.01,
    }
    phases = {"imitation": 8}
    setting = setting_of(parsed(tmp_path, learning=learning, phases=phases, updates=20))
    trainer, collectors = Trainer(setting), LocalCollectors(setting.collection)
    losses = [trainer.do_round(collectors).policy_loss for _ in range(8)]
    assert losses[-1] < losses[0] / 2  # - log pi of the teacher's actions


@pytest.mark.slow
def test_learners_go_on_from_their_state(tmp_path: Path) -> None:
    setting = setting_of(parsed(tmp_path))
    one, collectors = Trainer(setting), LocalCollectors(setting.collection)
    one.do_round(collectors)
    other, state = Trainer(setting), one.state()
    for name in ("curves.phase", "learner.replay.action", "learner.replay.returns"):
        wrong = {
            **state,
            name: state[name] - np.inf if state[name].dtype.kind == "f" else state[name] + 10**6,
        }
        with pytest.raises(ValueError, match=f"{name.removeprefix('learner.')}: expected"):
            Trainer(setting).restore(wrong)
    other.restore(state)
    assert isinstance(one._learner, Learner)
    for trainer in (one, other):
        trainer.do_round(collectors)
    first, second = one.state(), other.state()
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(second[name], array, err_msg=name)


_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from ray_sim.cli import main
sys.exit(main(["train", "harmony", sys.argv[1], "--actors", "0", "-o", sys.argv[2]]))
"""


@pytest.mark.slow
def test_without_pytorch_one_line_says_how_to_install_it(tmp_path: Path) -> None:
    from tests.learning.small_training import written

    command = [sys.executable, "-c", _WITHOUT_TORCH, str(written(tmp_path)), str(tmp_path / "out")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    beats = ("compiling", " so far)")
    lines = [line for line in ended.stderr.splitlines() if not any(beat in line for beat in beats)]
    assert len(lines) == 1
    assert "pip install 'ray_sim[learn]'" in lines[0]
    assert not (tmp_path / "out").exists()
