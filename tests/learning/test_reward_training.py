"""Fitting the reward model with PyTorch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ray_sim[learn]'")

from ray_sim.engine.kinds.elastic.facts import ElasticFacts
from ray_sim.environments.episodes import Episode, scenario_episodes
from ray_sim.learning.reward_model import relative_error
from ray_sim.learning.reward_training import Form, RewardTraining, fit_reward_model
from ray_sim.learning.speed_samples import SpeedSamples, draw_samples
from ray_sim.model.errors import InvalidInputError
from tests.conftest import REPOSITORY
from tests.learning.small_training import scenario

STUDY = REPOSITORY / "docs/studies/interference"


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    """Jobs of the eight types of harmony_types on Harmony's six servers."""
    jobs = scenario(STUDY / "jobs.yaml", STUDY / "testbed.yaml", jobs=36, horizon_s=14_400, slot_s=1200)
    return scenario_episodes(jobs, range(24))


def _models(episodes: list[Episode]) -> list[str]:
    """Names of all models."""
    names = (ElasticFacts.in_world(world).profile.model_names for world, _ in episodes)
    return sorted(set().union(*names))


@pytest.mark.long
@pytest.mark.parametrize("form", ["shared", "dense"])
def test_both_forms_fit_32_samples_to_less_than_one_percent(form: Form, episodes: list[Episode]) -> None:
    models = _models(episodes)
    few = draw_samples(episodes, models, 32, seed=1)
    training = RewardTraining(form=form, hidden=(64, 64, 64), epochs=1500, minibatch=32, target=0.01)
    fitted = fit_reward_model(few, few, len(models), training, seed=1)
    assert fitted.errors[-1].held_out < 0.01
    assert relative_error(fitted.model.speeds(few.kind, few.tasks), few) == fitted.errors[-1].held_out


@pytest.mark.long
def test_the_error_on_job_sets_that_it_has_not_seen_falls_below_ten_percent(episodes: list[Episode]) -> None:
    models = _models(episodes)
    samples = draw_samples(episodes[:16], models, 6000, seed=1)
    held_out = draw_samples(episodes[16:], models, 1000, seed=2)
    fitted = fit_reward_model(samples, held_out, len(models), RewardTraining(), seed=1)
    assert fitted.errors[-1].held_out <= 0.1
    assert len(fitted.errors) < RewardTraining().epochs  # it stops when it has reached its target


def _few(count: int = 40) -> SpeedSamples:
    """Jobs of two types alone on one of two servers; type 1 trains twice as fast as type 0."""
    draw = np.random.default_rng(1)
    kind = draw.integers(0, 2, (count, 1))
    tasks = np.zeros((count, 1, 2, 2), dtype=np.int64)
    tasks[np.arange(count), 0, :, draw.integers(0, 2, count)] = 1
    return SpeedSamples(kind, tasks, np.where(kind == 1, 20.0, 10.0))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["shared", "dense"])
def test_the_same_seed_gives_the_same_weights(form: Form) -> None:
    training = RewardTraining(form=form, hidden=(8, 8), epochs=3, target=0.0)
    one, same, other = (fit_reward_model(_few(), _few(), 2, training, seed=seed) for seed in (1, 1, 2))
    assert one.errors == same.errors
    assert one.errors != other.errors


@pytest.mark.parametrize("form", ["shared", "dense"])
def test_inference_gives_the_loss_of_training_to_single_precision(form: Form) -> None:
    # In one minibatch of all samples both normalise by the same averages; the last step is nearly 0.
    samples = _few()
    training = RewardTraining(form=form, hidden=(8, 8), epochs=100, target=0.0)
    last = fit_reward_model(samples, samples, 2, training, seed=1).errors[-1]
    assert last.held_out == pytest.approx(last.fitted, rel=1e-2, abs=1e-5)


def test_jobs_without_a_measured_speed_do_not_change_the_fit() -> None:
    samples = _few()
    idle = np.concatenate([samples.tasks, samples.tasks], axis=1) * 0
    silent = SpeedSamples(
        np.concatenate([samples.kind, np.full_like(samples.kind, -1)], axis=1),
        idle + np.concatenate([samples.tasks, samples.tasks * 0], axis=1),
        np.concatenate([samples.speed, samples.speed * 0], axis=1),
    )
    training = RewardTraining(hidden=(8, 8), epochs=2, target=0.0)
    plain, padded = (fit_reward_model(each, each, 2, training, seed=1) for each in (samples, silent))
    assert plain.errors == padded.errors


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_bad_samples_and_losses_that_are_no_numbers_are_refused() -> None:
    samples, training = _few(), RewardTraining(hidden=(8, 8))
    nothing = replace(samples, speed=samples.speed * 0)
    with pytest.raises(InvalidInputError, match="no job of the samples has a measured speed"):
        fit_reward_model(samples, nothing, 2, training, seed=1)
    with pytest.raises(InvalidInputError, match="at least two samples to fit, got 1"):
        fit_reward_model(samples.part(slice(1)), samples, 2, training, seed=1)
    with pytest.raises(InvalidInputError, match=r"the loss is (nan|inf) in step \d+ of epoch \d+"):
        fit_reward_model(samples, samples, 2, replace(training, learning_rate=1e30, epochs=50), seed=1)
