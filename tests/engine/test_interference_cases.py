"""The bundled interference profile: the three cases that motivate Harmony's placement hold."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise, product

import numpy as np
import pytest

from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.inputs.training_file import load_training_draws
from ray_sim.model.interference import mean_speed, pair_slowdowns
from ray_sim.model.step_time import transfer_s
from workloads.training.draws import Constant

PROFILE = load_interference("harmony_types")
SIX = ("ctc", "alexnet", "vgg-16", "resnet-50", "inception-bn", "seq2seq")


def slowdown(name: str, beside: str) -> float:
    types = PROFILE.types
    return float(pair_slowdowns(PROFILE)[types.index(name), types.index(beside)])


def test_six_packed_jobs_lose_a_third_of_their_speed() -> None:
    # Over the 15 ways to put six types on three servers, every type stands beside every other equally often.
    speeds = [1 / slowdown(a, b) for a, b in product(SIX, SIX) if a != b]
    assert 1 - np.mean(speeds) == pytest.approx(0.332, abs=5e-4)


def test_slowdowns_of_pairs_differ_widely() -> None:
    pairs = list(combinations_with_replacement(PROFILE.types, 2))
    sums = {pair: slowdown(*pair) + slowdown(*reversed(pair)) for pair in pairs}
    least, most = min(sums, key=sums.__getitem__), max(sums, key=sums.__getitem__)
    assert (least, round(sums[least], 2)) == (("resnext-110", "dssm"), 2.25)
    assert (most, round(sums[most], 2)) == (("vgg-16", "vgg-16"), 5.47)


@pytest.mark.parametrize(
    ("name", "packing_wins"),
    [("vgg-16", False), ("resnet-50", True), ("dssm", False), ("resnext-110", False)],
)
def test_packing_wins_for_some_types_and_loses_for_others(name: str, packing_wins: bool) -> None:
    # Two jobs of a worker and a parameter server: all on one server, or each task alone on one of four.
    family = next(each for each in load_training_draws("harmony_types").families if each.name == name)
    given = {
        key: float(str(draw.value))
        for key, draw in family.columns.items()
        if isinstance(draw, Constant) and key != "exchange"
    }
    training_s = given["batch"] * given["sample_s"]
    size = np.array([given["gradient_mb"]])
    inside_s, outside_s = (
        2 * float(transfer_s(size, np.array([given[key]]))[0])
        for key in ("internal_bandwidth_mbps", "bandwidth_mbps")
    )
    packed_s = (training_s + inside_s) * slowdown(name, name)
    assert (packed_s < training_s + outside_s) == packing_wins


@pytest.mark.parametrize("name", ["harmony_types", "harmony_types_strong", "harmony_types_weak"])
@pytest.mark.parametrize("sockets", [1, 2])
def test_speed_falls_with_every_job_on_a_server(name: str, sockets: int) -> None:
    profile = load_interference(name)
    speeds = [mean_speed(profile, jobs, sockets) for jobs in range(1, 5)]
    assert speeds[0] == 1.0
    assert all(later < earlier for earlier, later in pairwise(speeds))


def test_strengths_multiply_sensitivities() -> None:
    weak, strong = (load_interference(f"harmony_types_{name}") for name in ("weak", "strong"))
    for each, factor in ((weak, 0.5), (strong, 2.0)):
        assert each.types == PROFILE.types
        assert np.array_equal(each.sensitivity, factor * PROFILE.sensitivity)
        assert np.array_equal(each.worker_load, PROFILE.worker_load)
    assert pair_slowdowns(strong) - 1 == pytest.approx(2 * (pair_slowdowns(PROFILE) - 1))
