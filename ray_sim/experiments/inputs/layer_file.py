"""Reader of profiles for enrichment of any kind: training, announcements, speeds, or several as layers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

import workloads
from ray_sim.experiments.inputs.profile_files import Label, ProfileFiles, is_profile_file
from ray_sim.experiments.inputs.training_file import (
    TRAINING_PROFILES,
    load_training_draws,
    names_training_profile,
)
from ray_sim.experiments.scenario import WorkloadSpec
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, UnknownNameError
from workloads.announcements.profile import AnnouncementDraws, Announcements, OutlookDraws, ValueDraws
from workloads.documents import Entry
from workloads.layers.fill import Draws, EnrichmentLayer, check_layers
from workloads.sources import Source
from workloads.training.enrich import Feasibility
from workloads.training.profile import TrainingDraws
from workloads.training.speed_tables import bundled_speeds, load_speeds, names_speed_table

ANNOUNCEMENT_PROFILES = ProfileFiles("announcement profile", workloads.__path__, "announcements/profiles")


class _ProfileFile(Entry):
    name: Label
    title: str = ""
    announcements: Announcements


def load_announcement_draws(ref: Source) -> AnnouncementDraws:
    """Read an announcement profile from a YAML file or the bundled ones."""
    parts = (Announcements, ValueDraws, OutlookDraws)
    _, text, file = ANNOUNCEMENT_PROFILES.read_as(ref, _ProfileFile, parts)
    given, digest = file.announcements, hashlib.sha256(text.encode()).hexdigest()
    return AnnouncementDraws(file.name, file.title, digest, given.lead_s, given.value, given.outlook)


def names_announcement_profile(ref: Source) -> bool:
    """Whether this names a bundled announcement profile, or a YAML file with a section `announcements`."""
    if not is_profile_file(ref):
        return str(ref) in ANNOUNCEMENT_PROFILES.bundled()
    _, _, content = ANNOUNCEMENT_PROFILES.read(ref)
    return isinstance(content, dict) and "announcements" in content


LAYERED_PROFILES = ProfileFiles("layered profile", workloads.__path__, "layers/profiles")

_ANY = Feasibility()
"""Keeps every job."""


class _LayeredFile(Entry):
    """A YAML file that names profiles of training and announcements, to be layered in this order."""

    name: Label
    title: str = ""
    layers: Annotated[list[Label], Field(min_length=1)]


def load_profiles(refs: Sequence[Source], feasibility: Feasibility = _ANY) -> tuple[EnrichmentLayer, ...]:
    """Read profiles as layers, in order; a layered profile stands for those that it names."""
    draws = [_load(each) for ref in refs for each in _profiles_of(ref)]
    layers = tuple(
        EnrichmentLayer(each) if isinstance(each, AnnouncementDraws) else EnrichmentLayer(each, feasibility)
        for each in draws
    )
    named = ", ".join(map(str, refs))
    if feasibility != _ANY and all(isinstance(each, AnnouncementDraws) for each in draws):
        raise InvalidScenarioError(
            f"profile {named} announces every job; leave out `feasible_only`, "
            "`horizon_s` and `truth` (--feasible-only, --cluster, --horizon, --truth)"
        )
    judged = feasibility not in (_ANY, Feasibility(only=True))
    if judged and not any(isinstance(each, TrainingDraws) for each in draws):
        raise InvalidScenarioError(
            f"profile {named} tells jobs apart by their GPUs only; leave out `horizon_s` and `truth` "
            "(--cluster, --horizon, --truth)"
        )
    check_layers(layers)
    return layers


def layered_title(name: str) -> str:
    """Title of a bundled layered profile."""
    return LAYERED_PROFILES.read_as(name, _LayeredFile)[2].title


def load_workload_layers(spec: WorkloadSpec) -> tuple[EnrichmentLayer, ...]:
    """Read the profiles that columns of a workload are drawn from, in order; empty without any."""
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


def _profiles_of(ref: Source) -> list[str]:
    """The profiles that a layered profile names; any other profile alone."""
    if is_profile_file(ref):
        _, _, content = LAYERED_PROFILES.read(ref)
        if not (isinstance(content, dict) and "layers" in content):
            return [str(ref)]
    elif str(ref) not in LAYERED_PROFILES.bundled():
        return [str(ref)]
    return LAYERED_PROFILES.read_as(ref, _LayeredFile)[2].layers


def _load(ref: str) -> Draws:
    if names_speed_table(ref):
        return replace(load_speeds(ref), pairs=())  # nothing is drawn from them, so the digest is without
    if names_announcement_profile(ref):
        return load_announcement_draws(ref)
    if not names_training_profile(ref):
        known = [
            *TRAINING_PROFILES.bundled(),
            *ANNOUNCEMENT_PROFILES.bundled(),
            *LAYERED_PROFILES.bundled(),
            *bundled_speeds(),
        ]
        raise UnknownNameError("profile", ref, known)
    return load_training_draws(ref)
