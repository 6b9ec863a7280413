"""Profiles in YAML files: bundled ones by name, others by path or URL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, Field, ValidationError

from ray_sim.model.errors import InvalidInputError, UnknownNameError, problems_text
from workloads.documents import dotted_problems, parse_yaml, read_text
from workloads.sources import Source, is_url, name_of

ModelT = TypeVar("ModelT", bound=BaseModel)
Label = Annotated[str, Field(min_length=1, max_length=200)]


@dataclass(frozen=True, slots=True)
class ProfileFiles:
    """Profiles of one kind, and the package whose folder has the bundled ones."""

    kind: str
    """Name for messages, e.g. ``training profile``."""
    package: Iterable[str]
    """``__path__`` of the package."""
    folder: str

    def bundled(self) -> dict[str, Path]:
        """Paths of the bundled profiles by name."""
        folder = Path(next(iter(self.package))) / self.folder
        return {path.stem: path for path in sorted(folder.glob("*.yaml"))}

    def read(self, ref: Source) -> tuple[Source, str, object]:
        """The place of a profile, its text, and its content."""
        path = self._find(ref)
        text = read_text(path, InvalidInputError)
        return path, text, parse_yaml(text, str(path), InvalidInputError)

    def read_as(
        self, ref: Source, model: type[ModelT], parts: Iterable[type[BaseModel]] = ()
    ) -> tuple[Source, str, ModelT]:
        """The place of a profile, its text, and its content as a model.

        Parameters
        ----------
        parts : models within it, whose keys are suggested where one is unknown

        Raises
        ------
        InvalidInputError : as `read`, or the content breaks the model's rules; every problem is listed
        UnknownNameError : neither a file nor a bundled profile
        """
        path, text, content = self.read(ref)
        try:
            return path, text, model.model_validate(content)
        except ValidationError as failure:
            models: list[type[BaseModel]] = [model, *parts]
            keys = [name for each in models for name in each.model_fields]
            raise InvalidInputError(problems_text(str(path), dotted_problems(failure, keys))) from failure

    def _find(self, ref: Source) -> Source:
        if is_profile_file(ref):
            return ref
        bundled = self.bundled()
        if str(ref) not in bundled:
            raise UnknownNameError(self.kind, str(ref), bundled)
        return bundled[str(ref)]


def is_profile_file(ref: Source) -> bool:
    """Whether this is the path or URL of a YAML file; reads nothing."""
    return is_url(ref) or name_of(ref).suffix in (".yaml", ".yml")
