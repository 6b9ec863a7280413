"""Levels of water filling: worked examples, recorded runs, and the least level."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ray_sim.model.units import FloatArray
from ray_sim.policies.gavel.jobs import JobsNow
from ray_sim.policies.gavel.needs import mean_speed
from ray_sim.policies.gavel.programme import Programme
from ray_sim.policies.gavel.water_filling import Entities, WaterFilling
from tests.policies.gavel.recorded import recorded_states
from tests.policies.gavel.small_jobs import assert_shareable, example, random_jobs, rows_of, speeds
from tests.proofs import instances

E = example()
TWO = Entities(of=np.array([0, 0, 1, 1]), weight=np.array([1.0, 2.0]), fifo=np.array([False, True]))


def levels(now: JobsNow, entities: Entities | None = None) -> FloatArray:
    return WaterFilling(aware=True, entities=entities).levels(Programme("water_filling", now))


def test_the_second_job_goes_on_where_the_first_cannot() -> None:
    # Job 1 is on b: q = 1. Job 2 is on a: q/e = 4/2.5.
    now = rows_of(example(speed=[[1, 1], [4, 1], [1, 1]]), [0, 1])
    np.testing.assert_allclose(levels(now), [1, 1.6], rtol=1e-9)
    np.testing.assert_allclose(WaterFilling(aware=True).shares(now), [[0, 1], [1, 0]], atol=3e-6)


def test_entities_share_by_weight_and_by_their_inner_rules() -> None:
    # Gains 1/4, 3/4, 2. At tau = 1/2 job 3 has a GPU: 1/8, 3/8, 1. Of half a GPU, 1/4, 3/4 and job 4's 2.
    now = example(
        job=np.arange(4),
        speed=np.ones((4, 1)),
        gpus=np.ones(4, dtype=int),
        weight=[1.0, 3, 1, 1],
        steps_left=np.ones(4),
        age_s=np.zeros(4),
        capacity=[2],
        pair_speed=np.zeros((0, 2, 1)),
    )
    np.testing.assert_allclose(levels(now, TWO), [1 / 6, 1 / 2, 1, 1 / 3], rtol=1e-9)


def test_entities_of_the_example_with_a_fourth_job_like_the_second() -> None:
    now = rows_of(E, [0, 1, 2, 1])
    now = replace(now, job=np.arange(4))
    np.testing.assert_allclose(levels(now, TWO), [0.4, 0.4, 1, 0.6], rtol=1e-9)


def test_the_least_level_is_that_of_max_min() -> None:
    for seed in range(instances(30, 6)):
        rng = np.random.default_rng(seed)
        now = random_jobs(rng, int(rng.integers(1, 8)), pairs=bool(seed % 2))
        level, unit = levels(now), mean_speed(now)
        per_level = now.weight * unit / now.gpus
        z = Programme("max_min", now).corner(per_level=per_level).level
        assert (level * now.gpus / now.weight).min() == pytest.approx(z, rel=1e-7)
        shares = WaterFilling(aware=True).shares(now)
        assert_shareable(now, shares)
        assert (speeds(now, shares) >= level * unit * (1 - 2e-6) - 3e-6 * now.speed.max()).all()


def test_no_level_can_rise_while_others_keep_theirs() -> None:
    for seed in range(instances(30, 6)):
        now = random_jobs(np.random.default_rng(seed), 6)
        level, unit = levels(now), mean_speed(now)
        for job in range(6):
            alone = np.where(np.arange(6) == job, unit, 0.0)
            rise = Programme("", now).corner(per_level=alone, floor=level * unit * (1 - 1e-9)).level
            assert rise <= 1.1e-5 * level[job] + 1e-7


def test_agnostic_levels_are_shares_of_gpus() -> None:
    # Jobs of 1, 1, 2 GPUs rise by w/n = 1, 1, 5/2. At tau = 0.4 job 3 has two GPUs; the others share one.
    now = replace(E, gpus=np.array([1, 1, 2]), weight=np.array([1.0, 1, 5]), capacity=np.array([1, 2]))
    rule = WaterFilling(aware=False)
    levels = rule.levels(Programme(rule.name, rule.seen(now)))
    np.testing.assert_allclose(levels, [0.5, 0.5, 1], rtol=1e-9)


@pytest.mark.parametrize("run", ["multi40_4-4-4", "single60_4-4-4"])
def test_levels_are_the_recorded_ones(shared_data: Path, run: str) -> None:
    for recorded in recorded_states(shared_data, f"{run}_max_min_fairness_water_filling_perf"):
        if len(recorded.now.job):
            theirs = speeds(recorded.now, recorded.shares) / mean_speed(recorded.now)
            np.testing.assert_allclose(levels(recorded.now), theirs, rtol=0, atol=1e-6)
