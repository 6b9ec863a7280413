"""Find the files of a Google trace, their tables, and the order in which they are read."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ray_sim.model.errors import InvalidWorkloadError
from workloads.files import open_unpacked, require_file
from workloads.formats.google.event_lines import EventTable
from workloads.formats.google.events import TraceLayout

_PART = re.compile(r"part-(\d+)-of-(\d+)")

_FIRST_LINE = 2**16
"""Characters of the first line that are read to tell the table."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """One file of a table."""

    path: Path
    table: EventTable

    @property
    def label(self) -> str:
        """Name in the provenance, with the table, since parts of two tables can have the same file name."""
        return self.path.name if self.table.name in self.path.name else f"{self.table.name}/{self.path.name}"


def find_parts(paths: Sequence[Path], layout: TraceLayout) -> list[TablePart]:
    """The parts that files and folders hold, table by table, in the order of their numbers.

    A folder is the trace's folder (with one folder per table) or the folder of one table. A file belongs to
    the table named in its file name or folder; failing that, to the table that its first line fits.

    Raises
    ------
    InvalidWorkloadError : a path is missing, a folder holds no part, a file is of no table, or the parts
        are not of one trace: a number twice, or of different totals
    """
    parts: list[TablePart] = []
    for path in paths:
        parts += _in_folder(path, layout) if path.is_dir() else [_of_file(path, layout)]
    if len({part.path.resolve() for part in parts}) < len(parts):
        raise InvalidWorkloadError("a part is named twice; its events would be counted twice")
    for table in layout.tables:
        _check_numbers([part for part in parts if part.table == table])
    return sorted(parts, key=lambda part: (layout.tables.index(part.table), _number(part) or 0))


def _in_folder(folder: Path, layout: TraceLayout) -> Iterator[TablePart]:
    names = [table.name for table in layout.tables]
    folders = [folder / name for name in names] if folder.name not in names else [folder]
    inside = [path for sub in folders if sub.is_dir() for path in sorted(sub.iterdir())]
    files = [path for path in inside if _is_part(path, layout)]
    if not files:
        forms = " or ".join(f"*{suffix}" for suffix in layout.suffixes)
        raise InvalidWorkloadError(
            f"{folder}: holds no part of the trace; expected folders {', '.join(names)} with files {forms}"
        )
    return (_of_file(path, layout) for path in files)


def _is_part(path: Path, layout: TraceLayout) -> bool:
    return path.is_file() and path.name.endswith(layout.suffixes) and not path.name.startswith(".")


def _of_file(path: Path, layout: TraceLayout) -> TablePart:
    require_file(path)
    for table in layout.tables:
        if table.name in path.name or table.name == path.absolute().parent.name:
            return TablePart(path, table)
    try:
        with open_unpacked(path) as stream:
            table_like = layout.guess(stream.readline(_FIRST_LINE))
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidWorkloadError(f"{path}: cannot be read ({error}); fetch the file again") from error
    if table_like is None:
        raise InvalidWorkloadError(
            f"{path}: cannot tell its table: {layout.guessed_by}; put it into a folder named after its table"
        )
    return TablePart(path, table_like)


def _number(part: TablePart) -> int | None:
    match = _PART.search(part.path.name)
    return int(match[1]) if match else None


def _check_numbers(parts: Sequence[TablePart]) -> None:
    totals: dict[str, TablePart] = {}
    numbers: dict[int, TablePart] = {}
    for part in parts:
        match = _PART.search(part.path.name)
        if match is None:
            continue
        other = numbers.setdefault(int(match[1]), part)
        if other is not part:
            raise InvalidWorkloadError(
                f"{other.path} and {part.path}: the same part of {part.table.name} twice"
            )
        totals.setdefault(match[2], part)
        if len(totals) > 1:
            raise InvalidWorkloadError(
                f"{' and '.join(str(part.path) for part in totals.values())}: parts of two different traces"
            )
