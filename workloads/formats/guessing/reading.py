"""How a file of records is read: the section `read` of a guessed mapping. Called by `guess`."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidWorkloadError
from workloads.files import GZIP_MAGIC
from workloads.formats.guessing.proposal import Proposal
from workloads.formats.json_records import list_key
from workloads.formats.tables.files import as_utf8, form_of, head_of, unpacked
from workloads.formats.text import ZSTD_MAGIC, collect_text, split_lines

_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}

_LINES = 2000

_LEAST = 0.6
"""Share of the lines that a separator must divide into as many fields as the first."""

_COMMENT = re.compile(r"#|%|//|--(?=\D)|;(?=\s|$)")

_VALUE = re.compile(r"[-+.]?[0-9]")
"""Begin of a number or a date, which is no name of a column."""


def add_reading(proposal: Proposal, path: Path, folder: Path) -> None:
    """Propose how the file is read; copies of packed and recoded files are made in ``folder``.

    Raises
    ------
    InvalidWorkloadError : no form of records, or lines that no separator divides
    """
    file = as_utf8(path, unpacked(path, folder), None, folder)
    form = form_of(path, file)
    one = form == "json" or (form == "json-lines" and "\n" not in head_of(file).strip())
    if one and (key := list_key(file)) is not None:
        proposal.add("read", "format", "json", "the file is one JSON object")
        proposal.add("read", "records", key, "its first list of objects")
    if form != "csv":
        return
    if not _is_utf8(file):
        proposal.add("read", "encoding", "cp1252", "some bytes are no UTF-8", "another would change texts")
        file = as_utf8(path, file, "cp1252", folder)
    text = collect_text(path, pl.scan_lines(file, name="text", glob=False).head(_LINES))["text"]
    _add_text(proposal, path, [line for line in text.str.strip_prefix("\ufeff") if line.strip()])


def _add_text(proposal: Proposal, path: Path, lines: Sequence[str]) -> None:
    """Propose separator, quotes, comments and, where the file has none, a header."""
    begin = _COMMENT.match(lines[0]) if lines else None
    comments = [line for line in lines if begin is not None and line.startswith(begin[0])]
    lines = [line for line in lines if line not in comments]
    splits = [split for separator in _SEPARATORS if lines for split in _split(lines, separator)]
    if not splits:
        raise InvalidWorkloadError(
            f"{path}: neither {', '.join(_SEPARATORS.values())} divide its lines into the same number of "
            "fields; is it a table with a line for each job? Say how it is read in a mapping file (--map)"
        )
    separator, quotes, first, alike = max(splits, key=lambda each: (each[0] != " ", len(each[2])))
    many = f"{alike:.0%} of the first {len(lines):,} lines have {len(first)} fields"
    proposal.add("read", "separator", separator, f"{many} between {_SEPARATORS[separator]}")
    if not quotes:
        proposal.add("read", "quotes", value=False, why="quotes do not close within a line")
    if begin is not None:
        proposal.add("read", "comment", begin[0], f"{len(comments):,} such lines, the first: {comments[0]}")
    if any(map(_VALUE.match, first)):
        last = _COMMENT.sub("", comments[-1], count=1).strip() if comments else ""
        named = split_lines(pl.Series([last]), separator, quotes).to_list()[0] or []
        apt = len(named) == len(first) == len(set(named))
        names: list[JsonValue] = named if apt else [f"c{place}" for place in range(1, len(first) + 1)]
        why = "the last comment names as many columns" if apt else "the first line has numbers, and no names"
        proposal.add("read", "header", names, why)


def _split(lines: Sequence[str], separator: str) -> Iterator[tuple[str, bool, list[str], float]]:
    """Separator, whether there are quotes, first fields, and share of the lines with as many, if most."""
    fields = split_lines(pl.Series(lines), separator, quotes=True)
    quotes = fields.null_count() == 0
    fields = fields if quotes else split_lines(pl.Series(lines), separator, quotes=False)
    alike = int((fields.list.len() == len(fields[0])).sum()) / len(lines)
    if len(fields[0]) > 1 and alike >= _LEAST:
        yield separator, quotes, fields[0].to_list(), alike


def _is_utf8(file: Path) -> bool:
    """Whether a text is UTF-8; a packed one is taken as such."""
    try:
        with file.open(encoding="utf-8") as text:
            deque(text, maxlen=0)
    except UnicodeDecodeError:
        with file.open("rb") as raw:
            return raw.read(len(ZSTD_MAGIC)).startswith((GZIP_MAGIC, ZSTD_MAGIC))
    return True
