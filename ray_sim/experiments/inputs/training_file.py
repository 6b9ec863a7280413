"""Reader of training profiles: a YAML file, or the name of a bundled one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, ValidationError

import workloads
from ray_sim.experiments.inputs.profile_files import Label, ProfileFiles, is_profile_file
from ray_sim.model.errors import InvalidInputError, UnknownNameError, problems_text
from workloads.documents import Entry, dotted_problems
from workloads.sources import Source
from workloads.training.draws import Draw
from workloads.training.profile import (
    DRAWABLE,
    Family,
    TrainingDraws,
    View,
    family_problems,
    parse_draws,
    reference_problems,
    view_problems,
)

TRAINING_PROFILES = ProfileFiles("training profile", workloads.__path__, "training/profiles")

Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class _Family(Entry):
    name: Label
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    columns: dict[str, object] = Field(default_factory=dict)


class _ProfileFile(Entry):
    """A YAML file. The reader checks its draws one by one, so that it finds every problem."""

    name: Label
    title: str = ""
    base: Label | None = None
    reference_server: dict[str, Amount] = Field(default_factory=dict)
    traced_time_in: list[View] = Field(default_factory=list)
    columns: dict[str, object] = Field(default_factory=dict)
    families: list[_Family] = Field(default_factory=list)


def load_training_draws(ref: Source) -> TrainingDraws:
    """Read a training profile from a YAML file or the bundled ones.

    A file with `base` is the base profile, whose draws the file's `columns` replace in all families.
    """
    path, text, content = TRAINING_PROFILES.read(ref)
    problems: list[str] = []
    head = None
    try:
        head = _ProfileFile.model_validate(content)
    except ValidationError as failure:
        problems += dotted_problems(failure, [*_ProfileFile.model_fields, *_Family.model_fields])
    raw = content if isinstance(content, dict) else {}
    common = parse_draws(raw.get("columns"), "columns", problems)
    own = [
        parse_draws(
            entry.get("columns") if isinstance(entry, dict) else None, f"families[{i}].columns", problems
        )
        for i, entry in enumerate(_list(raw.get("families")))
    ]
    if problems or head is None:
        raise InvalidInputError(problems_text(str(path), problems))
    digest = hashlib.sha256(text.encode())
    if head.base is None:
        families, reference = _families(head, common, own), head.reference_server
        views = tuple(head.traced_time_in)
    else:
        base = _base(head, path)
        digest.update(base.sha256.encode())
        families = tuple(replace(each, columns={**each.columns, **common}) for each in base.families)
        reference = {**base.reference_server, **head.reference_server}
        views = tuple(head.traced_time_in) or base.traced_time_in
    if problems := _joint_problems(families, reference, views):
        raise InvalidInputError(problems_text(str(path), problems))
    return TrainingDraws(head.name, head.title, digest.hexdigest(), families, reference, views)


def names_training_profile(ref: Source) -> bool:
    """Whether this names a bundled training profile, or a file that may be one; reads no file."""
    return is_profile_file(ref) or str(ref) in TRAINING_PROFILES.bundled()


def _base(head: _ProfileFile, path: Source) -> TrainingDraws:
    """The bundled profile that another profile changes."""
    bundled = TRAINING_PROFILES.bundled()
    problems = ["families: a profile with a base has the families of the base"] if head.families else []
    if head.base not in bundled:
        problems.append(f"base: {UnknownNameError('bundled training profile', str(head.base), bundled)}")
    if problems:
        raise InvalidInputError(problems_text(str(path), problems))
    return load_training_draws(str(head.base))


def _list(entries: object) -> list[object]:
    return entries if isinstance(entries, list) else []


def _families(head: _ProfileFile, common: dict[str, Draw], own: list[dict[str, Draw]]) -> tuple[Family, ...]:
    if not head.families:
        return (Family(columns=common),)
    return tuple(
        Family(family.name, family.weight, {**common, **columns})
        for family, columns in zip(head.families, own, strict=True)
    )


def _joint_problems(
    families: tuple[Family, ...], reference_server: Mapping[str, float], views: tuple[View, ...]
) -> list[str]:
    """Problems of combinations of draws that are valid by themselves."""
    problems: list[str] = []
    first = set(families[0].columns)
    names = [family.name for family in families]
    for i, family in enumerate(families):
        where = "columns" if family.name is None else f"families[{i}].columns"
        problems += family_problems(family.columns, where)
        if missing := [name for name in DRAWABLE if name in first.symmetric_difference(family.columns)]:
            problems.append(f"{where}: all families must draw the same columns; compare {', '.join(missing)}")
        if family.name is not None and names.index(family.name) < i:
            problems.append(f"families[{i}].name: '{family.name}' appears twice")
    drawn = [family.columns for family in families]
    of_views = dict.fromkeys(view_problems(views, drawn))
    return [*problems, *reference_problems(reference_server, drawn), *of_views]
