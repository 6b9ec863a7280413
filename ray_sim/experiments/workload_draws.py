"""Draws of a workload's jobs with the run's seed: how they train, or their statements of work."""

from __future__ import annotations

from typing import TypeAlias

import polars as pl

from ray_sim.experiments.announcement_file import (
    bundled_announcement_profiles,
    load_announcement_draws,
    names_announcement_profile,
)
from ray_sim.experiments.scenario import EnrichSpec, WorkloadSpec
from ray_sim.experiments.training_file import (
    bundled_training_profiles,
    load_training_draws,
    names_training_profile,
)
from ray_sim.model.errors import InvalidScenarioError, UnknownNameError
from workloads.announcements.announce import announce
from workloads.announcements.profile import AnnouncementDraws
from workloads.training.enrich import enrich
from workloads.training.profile import TrainingDraws

Draws: TypeAlias = TrainingDraws | AnnouncementDraws
"""A profile that has been read: of training, or of statements."""


def load_workload_draws(spec: WorkloadSpec) -> Draws | None:
    """Read the profile that jobs or columns of a workload are drawn from; None without one.

    Raises
    ------
    InvalidInputError : the profile cannot be read or breaks its rules
    InvalidScenarioError : `enrich` asks for statements of feasible jobs only
    UnknownNameError : neither a file nor a bundled profile
    """
    if spec.enrich is not None:
        return _enrichment_draws(spec.enrich)
    training = None if spec.synth is None else spec.synth.training
    return None if training is None else load_training_draws(training)


def enriched(frame: pl.DataFrame, spec: EnrichSpec, draws: Draws, seed: int) -> tuple[pl.DataFrame, int]:
    """Draw the columns of every job of a workload.

    Returns
    -------
    The jobs that are kept, and the number of infeasible jobs that are left out

    Raises
    ------
    InvalidWorkloadError : there are no jobs, or some have such columns already
    """
    if isinstance(draws, AnnouncementDraws):
        return announce(frame, draws, seed)[0], 0
    kept, report = enrich(frame, draws, seed, spec.feasibility)
    return kept, report.read - report.kept


def _enrichment_draws(spec: EnrichSpec) -> Draws:
    if names_announcement_profile(spec.profile):
        if spec != EnrichSpec(profile=spec.profile):
            raise InvalidScenarioError(
                f"enrich: profile {spec.profile} announces every job; leave out `feasible_only`, "
                "`horizon_s` and `truth`"
            )
        return load_announcement_draws(spec.profile)
    if not names_training_profile(spec.profile):
        known = [*bundled_training_profiles(), *bundled_announcement_profiles()]
        raise UnknownNameError("training or announcement profile", spec.profile, known)
    return load_training_draws(spec.profile)
