"""Reader of interference profiles: a YAML file, or the name of a bundled one."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

import cluster_specs
from ray_sim.experiments.inputs.profile_files import Label, ProfileFiles
from ray_sim.model.errors import InvalidInputError, UnknownNameError, problems_text
from ray_sim.model.interference import MOST_TASKS, PARTS, InterferenceProfile
from workloads.documents import Entry
from workloads.sources import Source

_FILES = ProfileFiles("interference profile", cluster_specs.__path__, "interference")

MOST_LOAD = 1000.0
"""Largest load and sensitivity."""

MOST_STRENGTH = 1000.0

MOST_TYPES = 1000
MOST_CHANNELS = 100

Share = Annotated[float, Field(ge=0, le=MOST_LOAD, allow_inf_nan=False)]
Strength = Annotated[float, Field(ge=0, le=MOST_STRENGTH, allow_inf_nan=False)]
Loads = Annotated[dict[Label, Share], Field(default_factory=dict)]


class _Channel(Entry):
    between_sockets: bool = False


class _Type(Entry):
    worker: Loads
    ps: Loads
    sensitivity: Loads


class _ProfileFile(Entry):
    name: Label
    title: str = ""
    base: Label | None = None
    strength: Strength = 1.0
    own_load: Literal["excluded", "counted"] = "excluded"
    channels: dict[Label, _Channel] = Field(default_factory=dict, max_length=MOST_CHANNELS)
    types: dict[Label, _Type] = Field(default_factory=dict, max_length=MOST_TYPES)

    @model_validator(mode="after")
    def _own_or_of_the_base(self) -> Self:
        own = bool(self.channels or self.types)
        if self.base is not None and own:
            raise ValueError("a profile with a `base` has the channels and types of the base")
        if self.base is None and not (self.channels and self.types):
            raise ValueError("expected `channels` and `types`, or a `base`")
        return self


def load_interference(ref: Source) -> InterferenceProfile:
    """Read an interference profile from a YAML file or the bundled ones.

    A file with a `base` is the bundled profile of that name with all sensitivities times `strength`.
    """
    path, _, file = _FILES.read_as(ref, _ProfileFile, (_Channel, _Type))
    if problems := _problems(file):
        raise InvalidInputError(problems_text(str(path), problems))
    profile = _profile(file) if file.base is None else load_interference(file.base)
    own_tasks = MOST_TASKS if file.own_load == "excluded" else 1
    sensitivity = profile.sensitivity * file.strength
    return replace(profile, name=file.name, sensitivity=sensitivity, own_tasks=own_tasks)


def _problems(file: _ProfileFile) -> list[str]:
    """A base that is not bundled, and channels that the profile does not have."""
    if file.base is not None and file.base not in _FILES.bundled():
        return [f"base: {UnknownNameError('bundled interference profile', file.base, _FILES.bundled())}"]
    problems = []
    for name, given in file.types.items():
        for part in ("worker", "ps", "sensitivity"):
            unknown = [channel for channel in getattr(given, part) if channel not in file.channels]
            problems += [
                f"types.{name}.{part}: {UnknownNameError('channel', channel, file.channels)}"
                for channel in unknown
            ]
    return problems


def _profile(file: _ProfileFile) -> InterferenceProfile:
    """The profile of a file with channels and types; what a type does not name is 0."""

    def table(part: str) -> np.ndarray:
        given = [getattr(each, part) for each in file.types.values()]
        return np.array([[row.get(channel, 0.0) for channel in file.channels] for row in given])

    def parts(part: str) -> np.ndarray:
        whole: np.ndarray = np.rint(table(part) * PARTS).astype(np.int64)
        return whole

    return InterferenceProfile(
        name=file.name,
        channels=tuple(file.channels),
        between_sockets=np.array([channel.between_sockets for channel in file.channels.values()]),
        types=tuple(file.types),
        worker_load=parts("worker"),
        ps_load=parts("ps"),
        sensitivity=table("sensitivity"),
    )
