"""Guess the mapping of unknown tables: a preset that they fit, else by names and values.

Called by `ray-sim convert --guess`. Nothing is guessed silently: each entry has its evidence, and what the
evidence does not decide is a doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import polars as pl

from workloads.formats.guessing.columns import Columns, zone_doubts
from workloads.formats.guessing.proposal import Proposal
from workloads.formats.guessing.reading import add_reading
from workloads.formats.guessing.values import instants
from workloads.formats.tables.files import Reading, open_table
from workloads.formats.tables.mapping import parse_mapping
from workloads.formats.tables.table import REQUIRED, fits
from workloads.formats.text import TableSource, collect_text

_PART = 2000
"""Records of the head, the middle and the tail of a file."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What tables are taken for."""

    preset: str | None
    """The preset that they fit; None where there is none."""
    taken_for: str
    """What they are taken for, and why."""
    proposal: Proposal
    left: list[str]
    """Their columns that are not read."""

    @property
    def missing(self) -> list[str]:
        """Required columns that are not found."""
        found = {ours for ours, *_ in self.proposal.rows()}
        return [] if self.preset else [name for name in REQUIRED if name not in found]


def guess_mapping(
    paths: Sequence[Path], folder: Path, zone: str | None, presets: Mapping[str, Path]
) -> Guess:
    """What tables of one kind are taken for.

    Parameters
    ----------
    folder : for copies of packed and recoded files
    zone : of dates without an offset from UTC; None if unknown, which is a doubt
    presets : mapping files by name, one of which the tables may fit

    Raises
    ------
    InvalidWorkloadError : a file is missing, unreadable, or of no form of records
    """
    folder, proposal = Path(mkdtemp(dir=folder)), Proposal()
    add_reading(proposal, paths[0], folder)
    read = proposal.mapping.read
    for name, path in presets.items():
        alike = _form(parse_mapping(path)[0].read) == _form(read)
        fitting = alike and fits(path, paths, folder / name)
        if fitting and (guess := _of_preset(name, path, paths, folder, zone)):
            return guess
    frame = _sample([open_table(path, read, folder) for path in paths])
    left = Columns(frame, proposal, zone).propose()
    return Guess(None, f"no preset fits, proposed from {frame.height:,} rows", proposal, left)


def _form(read: Reading) -> tuple[str, int, str | None]:
    """What must be alike for a preset: separator, columns that the file does not name, place of records."""
    return read.separator or ",", len(read.header or ()), read.records


def _of_preset(
    preset: str, path: Path, paths: Sequence[Path], folder: Path, zone: str | None
) -> Guess | None:
    """The mapping file of a preset, and the zone; None where a column has no word that the preset knows."""
    mapping = parse_mapping(path)[0]
    sources = [open_table(each, mapping.read, folder) for each in paths]
    mapping, frame = mapping.fitted(sources), _sample(sources)
    words = {name: [*cell.values] for name, cell in mapping.cells.items() if name in frame.columns}
    if not all(frame[name].is_in(known).any() for name, known in words.items() if known):
        return None
    proposal = Proposal(preset=path.read_text())
    theirs = mapping.columns.get("submit_s", [""])[0]
    dates = [instants(frame[theirs], "s", ".")] if theirs in frame.columns else []
    for doubt in zone_doubts(proposal, zone, dates):
        proposal.add("", "time_zone", "UTC", f"preset {preset}", doubt)
    left = [each for each in sources[0].header if each not in mapping.used(sources[0])]
    by = "which has as many columns, and such values" if mapping.read.header else "whose columns are there"
    return Guess(preset, f"preset {preset}, {by}", proposal, left)


def _sample(sources: Sequence[TableSource]) -> pl.DataFrame:
    """Texts of head, middle and tail of each file, in the columns that all have."""
    common = [name for name in sources[0].header if all(name in each.header for each in sources)]
    wanted = {f"text {place}": name for place, name in enumerate(common)}
    parts = []
    for source in sources:
        rows, first = source.rows(wanted), source.first_line
        last = collect_text(source.path, rows.select(pl.col("line").max()))["line"].item() or 0
        begins = (first, (first + last - _PART) // 2, last - _PART + 1)
        near = pl.any_horizontal(pl.col("line").is_between(begin, begin + _PART - 1) for begin in begins)
        chosen = collect_text(source.path, rows.filter(near & pl.col("fault").is_null()))
        parts.append(chosen.rename(wanted).select(common))
    return pl.concat(parts)
