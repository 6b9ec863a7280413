"""Settings of training, from a YAML file; this module needs no PyTorch."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ray_sim.policies.harmony.architecture import Form

HIDDEN = {Form.DENSE: (196, 196, 128), Form.SHARED: (64, 64)}
"""Widths of hidden layers unless others are given: the paper's best for the dense form."""


class Advantage(StrEnum):
    """Formula of the return of an action; docs/models/harmony.md#loss has its lambda."""

    RETURN = "return"
    TD = "td"
    GAE = "gae"


class Reward(StrEnum):
    """What is rewarded, see docs/models/harmony.md#training-beyond-the-paper."""

    PROGRESS = "progress"
    """Shares of work done, as published."""
    JCT = "jct"
    """Minus the time that jobs spend in the system."""


class Importance(StrEnum):
    """Weights of samples that another policy drew."""

    NONE = "none"
    CLIPPED = "clipped"
    """Ratios of probabilities, at most 2."""
    PROXIMAL = "proximal"
    """Ratios, 0 where the policy has already moved by a fifth in the direction of the advantage (PPO)."""


Width = Annotated[int, Field(ge=1, le=4096)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=10**7)]


class TrainingConfig(BaseModel):
    """Settings of networks, loss, exploration and replay; docs/models/harmony.md has their sources."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    form: Annotated[Form, Field(strict=False)] = Form.SHARED
    most_jobs: Width = 24
    most_new: Width = 8
    block: Width = 32
    hidden: Annotated[tuple[Width, ...], Field(min_length=1, strict=False)] | None = None
    """Widths of hidden layers; `HIDDEN` of the form where None."""
    learning_rate: Positive = 1e-4
    minibatch: Count = 256
    buffer: Count = 8192
    """Samples of past intervals that are kept."""
    reward: Annotated[Reward, Field(strict=False)] = Reward.PROGRESS
    discount: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.9
    """For each interval of one slot."""
    advantage: Annotated[Advantage, Field(strict=False)] = Advantage.RETURN
    gae_lambda: Share = 0.95
    critic: bool = True
    """Whether a value network is the baseline; else a moving average of returns."""
    baseline_decay: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.99
    """Decay of that average at each action."""
    exploration: Share = 0.4
    """Probability that an action follows a rule instead of the network."""
    entropy: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    """Factor beta of the entropy in the loss."""
    importance: Annotated[Importance, Field(strict=False)] = Importance.CLIPPED

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.most_new > self.most_jobs:
            raise ValueError(f"most_new: must be at most most_jobs = {self.most_jobs}")
        if not self.critic and self.advantage is not Advantage.RETURN:
            raise ValueError(f"advantage: {self.advantage} needs a critic; set critic: true")
        return self

    @property
    def hidden_widths(self) -> tuple[int, ...]:
        """Widths of the hidden layers."""
        return HIDDEN[self.form] if self.hidden is None else self.hidden

    @property
    def trace_decay(self) -> float:
        """Lambda of the returns: 1 for whole returns, 0 for one action."""
        return {Advantage.RETURN: 1.0, Advantage.TD: 0.0, Advantage.GAE: self.gae_lambda}[self.advantage]
