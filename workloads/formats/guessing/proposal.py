"""A proposed mapping file, with the evidence of each entry and its doubts. Filled by `guess`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml
from pydantic import JsonValue

from ray_sim.model.text import shown
from workloads.formats.tables.mapping import ColumnMapping

_LISTS = ("per_job", "per_task", "where")
"""Sections that are lists."""

_TEXTS = ("encoding", "user", "vc", "status")
"""Entries that change no number."""


class _Entry(NamedTuple):
    value: JsonValue
    why: str
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """Entries by section, which is empty for those without one, and key."""

    entries: dict[tuple[str, str], _Entry] = field(default_factory=dict)
    preset: str = ""
    """Text of a mapping file that has the other entries."""

    def add(self, section: str, key: str, value: JsonValue, why: str, *doubts: str) -> None:
        """Add an entry, unless there is one."""
        self.entries.setdefault((section, key), _Entry(value, why, doubts))

    @property
    def mapping(self) -> ColumnMapping:
        """The mapping that the file is read as."""
        return ColumnMapping.model_validate(yaml.safe_load(self.text("")) or {})

    def doubts(self, *, of_numbers: bool = False) -> list[str]:
        """What is in doubt, each with its entry; ``of_numbers``: only what would change numbers."""
        found = [(key, doubt) for (_, key), entry in self.entries.items() for doubt in entry.doubts]
        return [f"{key}: {doubt}" for key, doubt in found if not of_numbers or key not in _TEXTS]

    def rows(self) -> list[tuple[str, str, str]]:
        """Our column, theirs, and the evidence of each of our columns."""
        found = [(*key, entry) for key, entry in self.entries.items() if key[0] in ("columns", "derived")]
        return [(ours, _flow(entry.value), entry.why) for _, ours, entry in found]

    def text(self, head: str) -> str:
        """The mapping file; the lines of ``head`` become comments before it."""
        comments = [f"# {shown(line)}" for line in head.splitlines()]
        return "\n".join([*comments, *self._lines(), self.preset])

    def _lines(self) -> Iterator[str]:
        for section in dict.fromkeys(section for section, _ in self.entries):
            if section:
                yield f"{section}:"
            indent = "  " if section else ""
            for (of, key), entry in self.entries.items():
                if of == section:
                    yield from (f"{indent}# DOUBT: {shown(doubt)}" for doubt in entry.doubts)
                    named = "- " if section in _LISTS else f"{_flow(key)}: "
                    yield f"{indent}{named}{_flow(entry.value)}  # {shown(entry.why)}"


def _flow(value: JsonValue) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=math.inf, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()
