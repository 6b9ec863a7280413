"""Samples of co-locations, the regressions fitted to them, and the command that writes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ray_sim.cli import main
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.interference_samples import (
    MOST_OF_A_ROLE,
    MOST_OTHERS,
    Samples,
    draw_samples,
    fit_errors,
    fit_slowdowns,
    predictions,
)
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.slowdown_coefficients import parse_coefficients
from ray_sim.model.streams import Streams
from ray_sim.policies.task_placement.least_interference import BUNDLED
from tests.command_line import answer, complaint
from tests.interfering_worlds import interference

TYPES = ("x", "y", "z")


def synthetic(table: np.ndarray, n: int = 300) -> Samples:
    """Samples without noise of a regression, (powers, L, L)."""
    draw = Streams(3).generator("synthetic-samples")
    samples = Samples(draw.integers(0, 3, n), draw.integers(0, 5, (n, 3)), np.ones(n))
    return Samples(samples.of_type, samples.beside, predictions(table, samples))


LINEAR = np.array([[[0.5, 0.0, 0.25], [0.125, 1.0, 2.0], [0.0, 0.0, 0.75]]])
SQUARES = np.array([[[0.1, 0.0, 0.0], [0.05, 0.0, 0.2], [0.0, 0.3, 0.0]]])


def test_the_linear_fit_recovers_coefficients_of_linear_data() -> None:
    fitted = fit_slowdowns(TYPES, synthetic(LINEAR))
    np.testing.assert_allclose(fitted.linear, LINEAR, atol=1e-12)
    np.testing.assert_allclose(fitted.quadratic, np.concatenate([LINEAR, 0 * LINEAR]), atol=1e-12)


def test_the_quadratic_fit_recovers_both_coefficients() -> None:
    table = np.concatenate([LINEAR, SQUARES])
    samples = synthetic(table)
    fitted = fit_slowdowns(TYPES, samples)
    np.testing.assert_allclose(fitted.quadratic, table, atol=1e-11)
    errors = fit_errors(fitted, samples)
    assert errors["quadratic"] < 1e-12 < errors["linear"]


def test_relative_errors_by_hand() -> None:
    # 0.5 per task: predicted 1.5 and 2 beside 1 and 2 tasks, measured 1.2 and 2.5: 0.3 / 1.2, 0.5 / 2.5.
    samples = Samples(np.array([0, 0]), np.array([[1], [2]]), np.array([1.2, 2.5]))
    fitted = parse_coefficients(
        json.dumps({"types": ["x"], "linear": {"a": [[0.5]]}, "quadratic": {"a": [[0.5]], "b": [[0]]}}),
        "hand",
    )
    assert fit_errors(fitted, samples)["linear"] == pytest.approx((0.25 + 0.2) / 2)


def test_a_type_without_samples_gets_coefficients_of_zero() -> None:
    samples = Samples(np.array([0]), np.array([[1, 0]]), np.array([2.0]))
    fitted = fit_slowdowns(("x", "y"), samples)
    assert fitted.linear.tolist() == [[[1.0, 0.0], [0.0, 0.0]]]


def test_samples_without_noise_are_the_slowdowns_of_the_profile() -> None:
    """Workers and parameter servers ask for the same here, so phi is linear in tasks: z l per task."""
    profile = interference(
        {"x": [0.5, 0.0], "y": [0.0, 0.25]},
        {"x": [1.0, 2.0], "y": [0.5, 4.0]},
        ps_load={"x": [0.5, 0.0], "y": [0.0, 0.25]},
        between_sockets=["nic"],
    )
    one, two = (draw_samples(profile, 500, 0, 0.0, sockets) for sockets in (1, 2))
    np.testing.assert_allclose(one.slowdown, predictions(np.array([[[0.5, 0.0], [0.25, 0.0]]]), one))
    np.testing.assert_allclose(two.slowdown, predictions(np.array([[[0.5, 0.5], [0.25, 1.0]]]), two))
    assert one.beside.sum(axis=1).max() <= MOST_OTHERS * 2 * MOST_OF_A_ROLE
    assert (one.beside.sum(axis=1) == 0).any()


def test_noise_is_relative_and_drawn_with_the_seed() -> None:
    profile = load_interference("harmony_types")
    true, first, again, other = (
        draw_samples(profile, 4000, seed, noise)
        for seed, noise in ((1, 0.0), (1, 0.05), (1, 0.05), (2, 0.05))
    )
    assert np.array_equal(first.beside, true.beside)
    assert np.array_equal(first.slowdown, again.slowdown)
    assert not np.array_equal(first.slowdown, other.slowdown)
    ratio = first.slowdown / true.slowdown
    assert abs(ratio.mean() - 1) < 4 * 0.05 / np.sqrt(4000)
    assert abs(ratio.std() - 0.05) < 0.003
    with pytest.raises(InvalidScenarioError, match=r"--noise: must be from 0 to 0\.3, got 0\.4"):
        draw_samples(profile, 10, 0, 0.4)


def test_the_bundled_coefficients_are_those_of_their_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bundled = json.loads(BUNDLED.read_text(encoding="utf-8"))
    assert main(bundled["command"].split()[1:]) == 0
    again = parse_coefficients((tmp_path / BUNDLED.name).read_bytes(), "again")
    fitted = parse_coefficients(BUNDLED.read_bytes(), "bundled")
    assert again.types == fitted.types
    np.testing.assert_allclose(again.linear, fitted.linear, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(again.quadratic, fitted.quadratic, rtol=1e-9, atol=1e-12)


def test_the_command_tells_the_errors_and_replaces_only_files_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    told = answer(capsys, "interference", "harmony_types", "--samples", "500", "-o", "c.json")
    assert told["samples"] == 500
    assert 0.03 < float(told["mean relative error, linear"]) < 0.15
    assert main(["interference", "harmony_types", "--samples", "600", "-o", "c.json"]) == 0
    content = json.loads(Path("c.json").read_text(encoding="utf-8"))
    Path("c.json").write_text(json.dumps({**content, "types": []}), encoding="utf-8")
    capsys.readouterr()
    assert "not as ray-sim wrote it" in complaint(
        capsys, "interference", "harmony_types", "--samples", "600", "-o", "c.json"
    )
    assert "go together" in complaint(capsys, "interference", "harmony_types", "--samples", "600")
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]
