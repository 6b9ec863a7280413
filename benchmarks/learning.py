"""Benchmark of learning: placements per second, errors of the reward model, and what two actors collect."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

from benchmarks.children import call
from benchmarks.harmony_worlds import JOBS, harmony_worlds
from benchmarks.measurement import Findings, Measurement, SkippedError, Step
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import NEVER
from ray_sim.learning.model_world import ModelWorld, model_columns
from ray_sim.learning.reward_model import ModelledSpeeds, RewardModel
from ray_sim.learning.speed_samples import SpeedSamples, draw_samples, heuristic_actions
from ray_sim.learning.speeds import SpeedModel, true_speeds
from ray_sim.model.units import US_PER_S

PLACEMENTS_BUDGET, ERROR_BUDGET = 50_000, 0.1
"""Least placements per CPU second, largest relative error of held-out speeds from 10,000 samples on."""

ACTORS_BUDGET = 1.6
"""Least actions per second that two actors collect, relative to one, on a machine with two cores or more."""

LANES, SETS, SAMPLES, STEPS, ROUNDS, TRIALS = 256, 64, (1_000, 3_000, 10_000, 30_000), 400, 20, 5


def run(
    step: Step = lambda what: None,
    lanes: int = LANES,
    sets: int = SETS,
    samples: Sequence[int] = SAMPLES,
    steps: int = STEPS,
    rounds: int = ROUNDS,
    trials: int = TRIALS,
) -> Findings:
    """Fit reward models to samples of the engine's speeds; measure them, and collection.

    Placements are measured in CPU seconds, those of actors in seconds of the clock.

    Parameters
    ----------
    lanes : episodes that are stepped together
    sets : sets of jobs from which samples are drawn
    samples : numbers of samples, rising
    steps : steps of all lanes that are timed
    rounds : rounds of the default training that actors collect in a trial
    trials : trials of one and of two actors in turn

    Raises
    ------
    SkippedError : PyTorch is not installed
    """
    if find_spec("torch") is None:
        raise SkippedError("PyTorch is not installed: pip install 'ray_sim[learn]'")
    step("drawing worlds and samples")
    worlds, unseen = harmony_worlds(sets, seed=1), harmony_worlds(sets, seed=2)
    models = model_columns([*worlds, *unseen])
    drawn = draw_samples(worlds, models, samples[-1], seed=1)
    held_out = draw_samples(unseen, models, max(samples[-1] // 10, 100), seed=2)
    rows, model = _errors(drawn, held_out, len(models), samples, step)
    step("completion times under the model and in truth")
    rows += _completion_times(unseen, models, model)
    step(f"placements of {lanes} episodes")
    _, rates = call("benchmarks.learning_rates", str(lanes), str(steps), str(sets), one_thread=True)
    rows += [
        Measurement(case, "placements_per_cpu_s", rate, "placements/s", "larger", PLACEMENTS_BUDGET)
        for case, rate in rates.items()
    ]
    step("collection by one and by two actors")
    _, by_actors = call("benchmarks.collection_rates", str(rounds), str(trials))
    rows += _actors(by_actors["1"], by_actors["2"])
    text = f"{JOBS} jobs of {len(models)} types on 6 servers, 3 in each interval, {lanes} episodes at once"
    return Findings(text, tuple(rows))


def _actors(one: float, two: float) -> list[Measurement]:
    """Figures of actors from their actions per second."""
    budget = ACTORS_BUDGET if (os.cpu_count() or 1) > 1 else None
    return [
        Measurement("actors-1", "samples_per_s", one, "samples/s", "larger"),
        Measurement("actors-2", "times_one", two / one, "x", "larger", budget),
    ]


def _errors(
    drawn: SpeedSamples, held_out: SpeedSamples, types: int, samples: Sequence[int], step: Step
) -> tuple[list[Measurement], RewardModel]:
    """Errors by number of samples, by epoch, and of the published form; also the model of most samples."""
    from ray_sim.learning.reward_training import RewardTraining, fit_reward_model

    training = RewardTraining(target=0.0)
    rows = []
    for count in samples:
        step(f"fitting {count} samples")
        fitted = fit_reward_model(drawn.part(slice(count)), held_out, types, training, seed=1)
        budget = ERROR_BUDGET if count >= 10_000 else None
        rows.append(_error(f"samples-{count}", fitted.errors[-1].held_out, budget))
    rows += [_error(f"epoch-{error.epoch}", error.held_out, None) for error in fitted.errors[::4]]
    step(f"fitting {samples[-1]} samples in the published form")
    most = max(drawn.kind.shape[1], held_out.kind.shape[1])
    dense = replace(training, form="dense", hidden=(256, 256), rows=most)
    published = fit_reward_model(drawn, held_out, types, dense, seed=1)
    rows.append(_error(f"dense-{samples[-1]}", published.errors[-1].held_out, None))
    return rows, fitted.model


def _error(case: str, value: float, budget: float | None) -> Measurement:
    return Measurement(case, "held_out_error", value, "relative", "smaller", budget)


def _completion_times(worlds: list[World], models: Sequence[str], model: RewardModel) -> list[Measurement]:
    """Mean completion time of both heuristics under the model, relative to the truth."""
    rows = []
    for name, packs in (("balance", False), ("pack", True)):
        true = _mean_jct_s(worlds, models, lambda batch: batch.speeds, packs)
        modelled = _mean_jct_s(worlds, models, lambda batch: ModelledSpeeds(model, batch.sets.model), packs)
        rows.append(Measurement(name, "jct_modelled_over_true", modelled / true, "x", "neither"))
    return rows


def _mean_jct_s(
    worlds: list[World], models: Sequence[str], speeds: Callable[[ModelWorld], SpeedModel], packs: bool
) -> float:
    """Mean completion time of all jobs where each set runs once."""
    twice = [*worlds, *worlds]  # lane e goes on with set e + E, which keeps the completions of set e
    batch = ModelWorld(twice, true_speeds(twice), episodes=len(worlds), models=models)
    batch.speeds = speeds(batch)
    pending, rule = np.ones(len(worlds), dtype=np.bool_), np.full(len(worlds), packs)
    while pending.any():
        pending &= ~batch.step(heuristic_actions(batch, rule)).episode_ended
    of_first = slice(batch.sets.first[len(worlds)])
    done = batch.sets.completion[of_first] < NEVER
    taken = batch.sets.completion[of_first] - batch.sets.submit[of_first]
    return float(taken[done].mean()) / US_PER_S
