"""The examples of docs/environments.md, where the libraries that they train with are installed."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from ray_sim.contract.rigid_worlds import busy_world
from tests.command_line import python
from tests.conftest import REPOSITORY


@pytest.fixture(autouse=True)
def _in_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "docs/examples/environments")
    monkeypatch.chdir(REPOSITORY / "docs/examples/environments")


@pytest.mark.long
def test_maskable_ppo_trains_and_runs_as_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    from ray_sim.engine.run import run_world
    from ray_sim.environments import scenario_episodes
    from ray_sim.policies.registry import create_policy

    example = importlib.import_module("train_queue")
    learner = example.train(rounds=1, steps=64, seeds=1, evaluated=range(100, 101))
    steps, jct_h = capsys.readouterr().out.splitlines()[-1].split()
    assert int(steps) == 2048  # one batch
    [episode] = scenario_episodes("queue.yaml", [100])
    monkeypatch.chdir(tmp_path)
    learner.save("queue_agent")
    result = run_world(episode.world, create_policy("queue_agent:Trained"))
    assert (result.summary.jct_s.mean or 0.0) / 3600 == pytest.approx(float(jct_h))
    run_world(busy_world(10), create_policy("queue_agent:Trained"))  # of other servers


@pytest.mark.ray
@pytest.mark.long
def test_rllib_trains() -> None:
    pytest.importorskip("tree", reason="dm-tree, which RLlib needs, is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    # A process and a Ray of its own: workers import the example from the directory in which Ray was started.
    training = "import train_placement as e; e.train(rounds=1, steps=500, seeds=1, evaluated=range(100, 101))"
    lines = python("-c", training, RAY_ADDRESS="local").splitlines()
    *_, (steps, jct_h) = (line.split() for line in lines if line[0].isdigit())
    assert int(steps) == 500
    assert float(jct_h) > 0


@pytest.mark.slow
def test_rules_and_curves_are_on_the_jobs_of_the_examples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from ray_sim.environments import PlacementEnv

    rules, curves = importlib.import_module("rules"), importlib.import_module("curves")
    env = PlacementEnv(scenario="placement.yaml", seeds=range(100, 101), most_jobs=1)
    rules.print_rules("placement", env)
    printed = capsys.readouterr().out
    rows = {line.split(maxsplit=2)[2]: float(line.split()[1]) for line in printed.splitlines()}
    # Random choice and load balancing spread a job over servers, and its transfers take longest there.
    assert max(rows["first_valid_action"], rows["tetris_packing"]) < min(rows["random"], rows["load_balance"])
    measured, learned, picture = tmp_path / "rules.txt", tmp_path / "learned.txt", tmp_path / "curves.svg"
    measured.write_text(printed, encoding="utf-8")
    learned.write_text("4000 1.5\n8000 1.25\n", encoding="utf-8")
    curves.main(learned, learned, measured, picture)
    assert "<svg" in picture.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_rule_of_four_numbers_learns_and_runs_as_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from ray_sim.environments import QueueEnv, evaluate

    example = importlib.import_module("train_rule")
    weights = example.train(seeds=16, rounds=4, rules=10, draws=8, kept=3)
    ratios = [float(each) for each in capsys.readouterr().out.rpartition(":")[2].split()]
    assert len(ratios) == 4
    assert ratios[-1] < ratios[0]
    other_jobs = QueueEnv(seeds=range(1000, 1010), **example.OPTIONS)
    monkeypatch.chdir(tmp_path)
    np.savetxt("rule_weights.txt", weights)
    found = evaluate(example.rule(weights), other_jobs, [example.oldest_that_fits, "train_rule:Rule"])
    assert found.baselines["train_rule:Rule"].difference == 0
    interval = found.baselines["oldest_that_fits"].interval
    assert interval is not None
    assert interval.high < 0


def test_the_rule_waits_for_a_shorter_job_without_room() -> None:
    # Run times of 10,000 and 1,000 s after waits of 10,000 s. Where the second has no room, the first is
    # longer by 1 in log10 and scores 0.5 - 1; where both have room, both score 0.5.
    example = importlib.import_module("train_rule")
    seen = {
        "tasks": np.array([1.0, 8.0, 0.0]),
        "duration_s": np.array([4.0, 3.0, 0.0]),
        "waited_s": np.array([4.0, 4.0, 0.0]),
        "action_mask": np.array([1, 0, 0, 1]),
    }
    np.testing.assert_allclose(example.features(seen)[:2], [[1, 0, 0, 1], [1, -1, 0, 0]])
    act = example.rule(np.array([0.5, 0.0, 0.0, -1.0]))
    assert act(seen) == 3
    assert act(seen | {"action_mask": np.array([1, 0, 0, 0])}) == 0  # it may not wait
    assert act(seen | {"action_mask": np.array([1, 1, 0, 1])}) == 0
