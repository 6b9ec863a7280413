"""A proposed mapping file, with the evidence of each entry and its doubts. Made by the guess of a mapping."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml
from pydantic import JsonValue

from ray_sim.model.text import shown
from workloads.formats.tables.mapping import ColumnMapping
from workloads.schema import BY_NAME

_SECTIONS = ("", "read", "columns", "derived", "constants", "units", "per_job", "per_task", "cells", "where")
"""In the order of the file; first the entries without a section."""

_LISTS = ("per_job", "per_task", "where")

_TEXTS = ("encoding", "user", "vc", "status")
"""Entries that change no number."""


@dataclass(frozen=True, slots=True)
class ProposedEntry:
    """An entry of a mapping file."""

    value: JsonValue
    why: str
    doubts: list[str]
    dated: bool
    """Whether it is a column of dates."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Entries by section and key."""

    entries: dict[tuple[str, str], ProposedEntry] = field(default_factory=dict)

    def add(
        self, section: str, key: str, value: JsonValue, why: str, *doubts: str, dated: bool = False
    ) -> None:
        """Add an entry, unless there is one."""
        self.entries.setdefault((section, key), ProposedEntry(value, why, list(doubts), dated))

    @property
    def mapping(self) -> ColumnMapping:
        """The mapping that the file is read as."""
        return ColumnMapping.model_validate(yaml.safe_load(self.text("")) or {})

    def doubts(self, *, of_numbers: bool = False) -> list[str]:
        """What is in doubt, each with its entry; ``of_numbers``: only what would change numbers."""
        return [
            f"{key}: {doubt}"
            for (_, key), entry in self.entries.items()
            for doubt in entry.doubts
            if not of_numbers or key not in _TEXTS
        ]

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Our column, theirs, unit and evidence of each of our columns."""
        units = {
            key: str(entry.value) for (section, key), entry in self.entries.items() if section == "units"
        }
        return [
            (
                ours,
                _flow(entry.value),
                "date" if entry.dated else units.get(ours, BY_NAME[ours].unit),
                entry.why,
            )
            for (section, ours), entry in self.entries.items()
            if section in ("columns", "derived", "constants")
        ]

    def text(self, head: str) -> str:
        """The mapping file; the lines of ``head`` become comments before it."""
        return "\n".join([*(f"# {shown(line)}" for line in head.splitlines()), *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        for section in _SECTIONS:
            inside = {key: entry for (of, key), entry in self.entries.items() if of == section}
            if section and inside:
                yield f"{section}:"
            indent = "  " if section else ""
            for key, entry in inside.items():
                yield from (f"{indent}# DOUBT: {shown(doubt)}" for doubt in entry.doubts)
                named = "- " if section in _LISTS else f"{_flow(key)}: "
                yield f"{indent}{named}{_flow(entry.value)}  # {shown(entry.why)}"


def _flow(value: JsonValue) -> str:
    """A value in one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    plain = isinstance(value, str) and re.fullmatch(r"[^\W\d][\w .*/+-]*", value)
    if plain and yaml.safe_load(str(value)) == value:
        return str(value)
    return json.dumps(value, ensure_ascii=not str(value).isprintable())
