"""Masked distributions, and the gradient of the losses: the worked example, and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'ray_sim[learn]'")

from ray_sim.learning.loss import (
    entropies,
    importance_weights,
    log_probabilities,
    policy_losses,
    value_losses,
)
from ray_sim.learning.pytorch import torch
from tests.proofs import quick_first

LOGITS, MASK = [[1.0, 2.0, 0.0, -1.0]], [[True, False, True, True]]


def gradient_of(entropy_factor: float) -> list[float]:
    """Of the policy loss of example 5.A: advantage 0.5, action 2."""
    logits = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor(MASK)
    found = log_probabilities(logits, mask)
    action, advantage = torch.tensor([2]), torch.tensor([0.5], dtype=torch.float64)
    policy_losses(found, mask, action, advantage, entropy_factor).sum().backward()
    return logits.grad[0].tolist()


def test_probabilities_and_entropy_of_example_5_a() -> None:
    """Example 5.A: the probability of the forbidden action is exactly 0."""
    mask = torch.tensor(MASK)
    found = log_probabilities(torch.tensor(LOGITS, dtype=torch.float64), mask)
    np.testing.assert_allclose(found.exp()[0], [0.6652, 0, 0.2447, 0.0900], atol=5e-5)
    assert found.exp()[0, 1].item() == 0.0
    assert entropies(found, mask).item() == pytest.approx(0.8324, abs=5e-5)


@pytest.mark.parametrize(
    ("entropy_factor", "expected"),
    [(0.0, [0.3326, 0, -0.3776, 0.0450]), (0.1, [0.3609, 0, -0.3917, 0.0308])],
)
def test_gradient_of_example_5_a(entropy_factor: float, expected: list[float]) -> None:
    np.testing.assert_allclose(gradient_of(entropy_factor), expected, atol=6e-5)


def random_batch(seed: int, size: int = 8, actions: int = 12) -> tuple[Any, Any, Any, Any]:
    draw = np.random.default_rng(seed)
    mask = draw.random((size, actions)) < 0.5
    mask[np.arange(size), draw.integers(0, actions, size)] = True
    action = np.array([draw.choice(np.flatnonzero(row)) for row in mask])
    return (
        torch.tensor(draw.normal(0, 3, (size, actions))),
        torch.tensor(mask),
        torch.tensor(action),
        torch.tensor(draw.normal(0, 1, size)),
    )


@pytest.mark.slow
def test_a_mask_of_minus_infinity_renormalises_the_softmax() -> None:
    for seed in range(20):
        logits, mask, _, _ = random_batch(seed)
        plain = torch.softmax(logits, dim=1) * mask
        found = log_probabilities(logits, mask).exp()
        np.testing.assert_allclose(found, plain / plain.sum(dim=1, keepdim=True), rtol=1e-12)
        np.testing.assert_allclose(found.sum(dim=1), 1, rtol=1e-12)
        assert (found[~mask] == 0).all()


@pytest.mark.parametrize("entropy_factor", quick_first([0.0, 0.1, 1.0]))
def test_the_gradient_agrees_with_finite_differences(entropy_factor: float) -> None:
    for seed in range(3):
        logits, mask, action, advantage = random_batch(seed, 4, 6)

        def loss(at: Any, mask: Any = mask, action: Any = action, advantage: Any = advantage) -> Any:
            found = log_probabilities(at, mask)
            return policy_losses(found, mask, action, advantage, entropy_factor).mean()

        assert torch.autograd.gradcheck(loss, (logits.requires_grad_(),), eps=1e-6, atol=1e-8)
        loss(logits).backward()
        assert (logits.grad[~mask] == 0).all()


def test_values_and_weights_by_hand() -> None:
    assert value_losses(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 1.0])).tolist() == [1.0, 4.0]
    now, then = torch.tensor([0.3, 0.8]).log(), torch.tensor([0.6, 0.1]).log()
    assert importance_weights(now, then, 2.0).tolist() == pytest.approx([0.5, 2.0])
