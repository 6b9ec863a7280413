"""Columns of a workload's jobs, drawn with the run's seed layer by layer; `prepare` calls this module."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ray_sim.experiments.inputs.layer_file import load_profiles
from ray_sim.experiments.scenario import WorkloadSpec
from ray_sim.model.errors import InvalidInputError
from workloads.layers.fill import EnrichmentLayer, check_layers, fill
from workloads.training.profile import TrainingDraws


def load_workload_layers(spec: WorkloadSpec) -> tuple[EnrichmentLayer, ...]:
    """Read the profiles that columns of a workload are drawn from, in order; empty without any.

    Raises
    ------
    InvalidInputError : a profile cannot be read or breaks its rules, two layers fill one column, `enrich`
        asks for statements of feasible jobs only, or jobs that are drawn from a training profile are given
        another
    UnknownNameError : neither a file nor a bundled profile
    """
    layers = tuple(layer for each in spec.layers for layer in load_profiles([each.profile], each.feasibility))
    check_layers(layers)
    if spec.synth is not None and spec.synth.training is not None:
        for layer in layers:
            if isinstance(layer.draws, TrainingDraws):
                raise InvalidInputError(
                    f"`enrich`: jobs drawn from the training profile {spec.synth.training} train already; "
                    f"leave {layer.draws.name} out, or take a profile of statements"
                )
    return layers


def enriched(frame: pl.DataFrame, layers: Sequence[EnrichmentLayer], seed: int) -> tuple[pl.DataFrame, int]:
    """Draw the columns of every job of a workload.

    Returns
    -------
    The jobs that are kept, and the number of infeasible jobs that are left out

    Raises
    ------
    InvalidWorkloadError : there are no jobs, or some have such columns already
    """
    jobs = frame.height
    for layer in layers:
        frame, _ = fill(frame, layer, seed)
    return frame, jobs - frame.height
