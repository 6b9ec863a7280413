"""Masked distributions over actions, and the losses of policy and value; docs/models/harmony.md#loss."""

from __future__ import annotations

from ray_sim.learning.pytorch import Tensor, torch


def log_probabilities(logits: Tensor, mask: Tensor) -> Tensor:
    """(E, actions) logarithms of the softmax over valid actions, -inf for others.

    That is the softmax over all actions, with 0 for actions that are not valid, renormalised.
    """
    return torch.log_softmax(logits.masked_fill(~mask, -torch.inf), dim=1)


def entropies(log_probability: Tensor, mask: Tensor) -> Tensor:
    """(E,) entropies of masked distributions, in nats."""
    finite = torch.where(mask, log_probability, torch.zeros_like(log_probability))
    return -(log_probability.exp() * finite).sum(dim=1)


def policy_losses(
    log_probability: Tensor, mask: Tensor, action: Tensor, advantage: Tensor, entropy_factor: float
) -> Tensor:
    """(E,) ``- A log pi(a | s) - beta H(pi(. | s))`` of each sample.

    Parameters
    ----------
    advantage : (E,), times the weight of the sample; no gradient goes through it
    entropy_factor : beta
    """
    taken = log_probability.gather(1, action[:, None]).squeeze(1)
    return -advantage.detach() * taken - entropy_factor * entropies(log_probability, mask)


def value_losses(values: Tensor, returns: Tensor) -> Tensor:
    """(E,) squared errors of values."""
    return (returns - values) ** 2


def proximal_weights(log_probability: Tensor, taken_with: Tensor, advantage: Tensor, most: float) -> Tensor:
    """(E,) ratios of probabilities; 0 where one is above 1 + ``most`` or below 1 - ``most``, as the
    advantage wants it.

    So ``- A w log pi`` has the gradient of the clipped objective of Schulman et al., Proximal Policy
    Optimization Algorithms, 2017, equation 7.
    """
    ratio = (log_probability - taken_with).exp().detach()
    goes_on = torch.where(advantage > 0, ratio < 1.0 + most, ratio > 1.0 - most)
    return torch.where(goes_on, ratio, torch.zeros_like(ratio))


def importance_weights(log_probability: Tensor, taken_with: Tensor, most: float) -> Tensor:
    """(E,) ratios of the probability of an action now and when it was taken, at most ``most``."""
    return (log_probability - taken_with).exp().clamp(max=most).detach()
