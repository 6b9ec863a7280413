"""How a file of records is read, by its content: the section `read` of a guessed mapping."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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


class _Fields(NamedTuple):
    """Fields of each line by one separator."""

    separator: str
    quotes: bool
    rows: list[list[str]]
    share: float
    """Lines with as many as the first."""


def add_reading(proposal: Proposal, path: Path, folder: Path) -> None:
    """Propose how the file is read.

    Raises
    ------
    InvalidWorkloadError : no form of records, or lines that no separator divides
    """
    file = unpacked(path, folder)
    encoding = None if _is_utf8(file) else "cp1252"
    if encoding is not None:
        proposal.add("read", "encoding", encoding, "some bytes are no UTF-8", "another would change texts")
    file = as_utf8(path, file, encoding, folder)
    form = form_of(path, file)
    one = form == "json" or (form == "json-lines" and "\n" not in head_of(file).strip())
    if one and (key := list_key(file)) is not None:
        proposal.add("read", "format", "json", "the file is one JSON object")
        proposal.add("read", "records", key, "its first list of objects")
    if form == "csv":
        text = collect_text(path, pl.scan_lines(file, name="text", glob=False).head(_LINES))["text"]
        _add_text(proposal, path, [line for line in text.str.strip_prefix("\ufeff") if line.strip()])


def _add_text(proposal: Proposal, path: Path, lines: Sequence[str]) -> None:
    begin = _COMMENT.match(lines[0]) if lines else None
    comments = [line for line in lines if begin is not None and line.startswith(begin[0])]
    lines = [line for line in lines if line not in comments]
    fields = max(_divided(lines), key=lambda each: (each.separator != " ", len(each.rows[0])), default=None)
    if fields is None:
        raise InvalidWorkloadError(
            f"{path}: neither {', '.join(_SEPARATORS.values())} divide its lines into the same number of "
            "fields; is it a table with a line for each job? Say how it is read in a mapping file (--map)"
        )
    count, plural = len(fields.rows[0]), _SEPARATORS[fields.separator]
    many = f"{fields.share:.0%} of the first {len(lines):,} lines have {count} fields between {plural}"
    proposal.add("read", "separator", fields.separator, many)
    if not fields.quotes:
        proposal.add("read", "quotes", value=False, why="quotes do not close within a line")
    if begin is not None:
        proposal.add("read", "comment", begin[0], f"{len(comments):,} such lines, the first: {comments[0]}")
    if any(_VALUE.match(field) for field in fields.rows[0]):
        last = _COMMENT.sub("", comments[-1], count=1).strip() if comments else ""
        named = split_lines(pl.Series([last]), fields.separator, fields.quotes).to_list()[0] or []
        apt = len(named) == count == len(set(named))
        names: list[JsonValue] = named if apt else [f"c{place}" for place in range(1, count + 1)]
        why = "the last comment names as many columns" if apt else "the first line has numbers, and no names"
        proposal.add("read", "header", names, why)


def _divided(lines: Sequence[str]) -> Iterator[_Fields]:
    """The fields by each separator that divides most lines as the first."""
    for separator in _SEPARATORS if lines else ():
        split = split_lines(pl.Series(lines), separator, quotes=True)
        quotes = split.null_count() == 0
        rows = (split if quotes else split_lines(pl.Series(lines), separator, quotes=False)).to_list()
        alike = Counter(map(len, rows))[len(rows[0])] / len(rows)
        if len(rows[0]) > 1 and alike >= _LEAST:
            yield _Fields(separator, quotes, rows, alike)


def _is_utf8(file: Path) -> bool:
    """Whether a text is UTF-8, or UTF-16 with its mark; packed files count as such."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with file.open("rb") as raw:
        part = raw.read(2**20)
        if part.startswith((GZIP_MAGIC, ZSTD_MAGIC, b"\xff\xfe", b"\xfe\xff", b"PAR1", b"ARROW1")):
            return True
        try:
            while part:
                decoder.decode(part)
                part = raw.read(2**20)
        except UnicodeDecodeError:
            return False
    return True
