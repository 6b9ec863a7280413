"""The examples of docs/environments.md, where the libraries that they train with are installed."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _in_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "docs/examples/environments")
    monkeypatch.chdir(REPOSITORY / "docs/examples/environments")


@pytest.mark.slow
def test_maskable_ppo_trains_and_runs_as_a_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed")
    from ray_sim.engine.run import run_world
    from ray_sim.environments import scenario_episodes
    from ray_sim.policies.registry import create_policy

    example = importlib.import_module("train_queue")
    learner = example.train(rounds=1, steps=64, seeds=1, evaluated=range(100, 101))
    steps, jct_h = capsys.readouterr().out.split()
    assert int(steps) == 2048  # one batch
    monkeypatch.chdir(tmp_path)
    learner.save("queue_agent")
    [episode] = scenario_episodes(example.OPTIONS["scenario"], [100])
    result = run_world(episode.world, create_policy("queue_agent:Trained"))
    assert (result.summary.jct_s.mean or 0.0) / 3600 == pytest.approx(float(jct_h))


@pytest.mark.ray
@pytest.mark.long
def test_rllib_trains(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tree", reason="ray[rllib] is not installed")
    pytest.importorskip("torch", reason="torch is not installed")
    import ray

    example = importlib.import_module("train_placement")
    try:
        example.train(rounds=1, steps=500, seeds=1).stop()
    finally:
        ray.shutdown()
    steps, mean = capsys.readouterr().out.split("\n")[0].split()
    assert int(steps) == 500
    assert float(mean) < 0
