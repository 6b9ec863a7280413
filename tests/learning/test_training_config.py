"""Settings of training: defaults, and faults by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.learning.training_config import Advantage, Importance, TrainingConfig
from ray_sim.learning.training_plan import Collecting, parse_plan, read_plan
from ray_sim.model.errors import InvalidInputError
from ray_sim.policies.harmony.architecture import Form
from tests.command_line import python
from tests.learning.small_training import small_plan, written


def test_defaults_are_those_of_the_papers() -> None:
    config = TrainingConfig()
    assert (config.learning_rate, config.minibatch, config.buffer) == (1e-4, 256, 8192)
    assert (config.discount, config.exploration, config.entropy, config.block) == (0.9, 0.4, 0.1, 32)
    assert (Collecting().units, Collecting().lanes, Collecting().steps) == (4, 16, 176)
    assert TrainingConfig(form=Form.DENSE).hidden_widths == (196, 196, 128)


def test_a_file_is_read(tmp_path: Path) -> None:
    learning = {"form": "dense", "hidden": [64, 32], "advantage": "gae", "importance": "none"}
    config = read_plan(written(tmp_path, learning=learning)).learning
    assert (config.form, config.hidden_widths) == (Form.DENSE, (64, 32))
    assert (config.advantage, config.trace_decay, config.importance) == (Advantage.GAE, 0.95, Importance.NONE)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"learning_rat": 1.0}, "learning_rat: unknown key; did you mean 'learning_rate'?"),
        ({"learning_rate": 0.0}, "learning_rate: must be > 0, got 0.0"),
        ({"learning_rate": float("inf")}, "learning_rate: must be a finite number"),
        ({"minibatch": 2.5}, "minibatch: must be a whole number, got 2.5"),
        ({"discount": 1.5}, "discount: must be <= 1, got 1.5"),
        ({"hidden": []}, "hidden: must not be empty"),
        ({"hidden": [8, 0]}, r"hidden\[1\]: must be >= 1, got 0"),
        ({"form": "round"}, "form: must be 'dense' or 'shared', got 'round'"),
        ({"advantage": "best"}, "advantage: must be 'return', 'td' or 'gae', got 'best'"),
        ({"most_new": 5, "most_jobs": 4}, "most_new: must be at most most_jobs = 4"),
        ({"critic": False, "advantage": "td"}, "advantage: td needs a critic; set critic: true"),
        ([], "learning: must be a mapping"),
    ],
)
def test_faults_are_named_by_key(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        parse_plan(small_plan(tmp_path, learning=content), "t.yaml")


@pytest.mark.slow
def test_runs_do_not_import_pytorch() -> None:
    code = (
        "import sys; import ray_sim.policies.registry, ray_sim.environments.placement; "
        "print('torch' in sys.modules)"
    )
    assert python("-c", code) == "False\n"
