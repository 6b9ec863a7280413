"""Profiles in YAML files: bundled ones by name, others by path or URL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ray_sim.model.errors import InvalidInputError, UnknownNameError
from workloads.documents import parse_yaml, read_text
from workloads.sources import Source, is_url, name_of


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
        """The place of a profile, its text, and its content.

        Raises
        ------
        InvalidInputError : the file cannot be read, or is no YAML
        UnknownNameError : neither a file nor a bundled profile
        """
        path = self._find(ref)
        text = read_text(path, InvalidInputError)
        return path, text, parse_yaml(text, str(path), InvalidInputError)

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
