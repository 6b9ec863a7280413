"""Assignment of parameter blocks to parameter servers by each rule, for `ray-sim info --blocks`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.parameter_blocks import BlockRule, assign, parse_blocks
from ray_sim.model.streams import Streams

MXNET_SEED = 0
"""Seed of the random parameter servers that are shown."""


@dataclass(frozen=True, slots=True)
class AssignedModel:
    """Blocks of a model on parameter servers, assigned by one rule."""

    skew: float
    """Parameters on the fullest server divided by the average."""
    size_difference: float
    """Parameters of the fullest server minus those of the emptiest."""
    requests: int
    """Requests of one worker in one step."""
    request_difference: int
    """Requests on the busiest server minus those on the idlest."""


@dataclass(frozen=True, slots=True)
class ModelBlocks:
    """A model of the workload."""

    model: str | None
    """Family of the model; null where the workload names none."""
    jobs: int
    blocks: int
    parameters: int
    rules: dict[str, AssignedModel]


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """Models of a workload on a given number of parameter servers."""

    servers: int
    models: list[ModelBlocks]

    def rows(self) -> Iterator[tuple[str, object]]:
        """Label and value of each line to show."""
        yield "parameter servers", self.servers
        for one in self.models:
            yield (
                f"blocks of {one.model or 'an unnamed model'}",
                f"{one.blocks:,}, {one.parameters:,} parameters, {one.jobs:,} jobs",
            )
            for rule, dealt in one.rules.items():
                yield (
                    f"  {rule}",
                    f"fullest {dealt.skew:.4g} x the average, sizes differ by {dealt.size_difference:,.10g}; "
                    f"{dealt.requests:,} requests, differ by {dealt.request_difference:,}",
                )


def describe_blocks(frame: pl.DataFrame, name: str, servers: int) -> BlockSummary:
    """Assign the blocks of each model to parameter servers by every rule; `frame` is a sound workload.

    Raises
    ------
    InvalidInputError : no job has parameter blocks
    """
    known = frame.filter(pl.col("blocks").is_not_null())
    if known.is_empty():
        raise InvalidInputError(
            f"--blocks {servers}: {name} has no column blocks; draw it by `ray-sim enrich` with a profile "
            "that has it, such as optimus_nine_models"
        )
    models = known.group_by("model", "blocks").len().sort("model", "blocks")
    return BlockSummary(
        servers, [_model(name, text, jobs, servers) for name, text, jobs in models.iter_rows()]
    )


def _model(model: str | None, text: str, jobs: int, servers: int) -> ModelBlocks:
    blocks = parse_blocks(text)
    rules = {}
    for rule in BlockRule:
        dealt = assign(rule, blocks, servers, Streams(MXNET_SEED))
        rules[rule.value] = AssignedModel(
            dealt.skew, dealt.size_difference, dealt.total_requests, dealt.request_difference
        )
    return ModelBlocks(model, jobs, len(blocks), sum(blocks), rules)
