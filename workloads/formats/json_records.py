"""Reader of JSON records in an array or in lines, plain or gzip; memory is bounded by the longest record.

The standard library's parser reads one value after another from a window of text, which gives each record's
raw text and number for the rejects. Numbers stay texts, so none is too long to read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from ray_sim.model.errors import InvalidWorkloadError
from workloads.files import open_unpacked, read_to_its_end
from workloads.formats.text import check_text

CHUNK = 2**20
"""Characters read at a time."""

MAX_RECORD = 2**26
"""The longest record in characters; a longer one is a file of another kind."""

_LONGEST_TOKEN = len("-Infinity")
"""A fault this close to the window's end may be a truncated token."""

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, strict=False)
_NOT_BLANK = re.compile(r"[^ \t\r\n]")


class JsonRecord(NamedTuple):
    """One element of the array, or one line."""

    number: int
    """Number of the record, from 1."""
    text: str
    """Text of the record in the file; bytes that are no UTF-8 become lone surrogates."""
    value: object


def is_array(path: Path) -> bool:
    """Whether a file's first character, after blanks and a byte order mark, opens a JSON array."""
    with read_to_its_end(path), open_unpacked(path) as stream:
        return _Window(stream).peek() == "["


def read_records(
    path: Path, *, key: str | None = None, lines: bool = False, name: Path | None = None
) -> Iterator[JsonRecord]:
    """The records of a JSON file.

    Parameters
    ----------
    key : the records are the elements of the array that the file's object has under this key; None: of the
        file's array
    lines : the records are values one after the other, with blanks or line ends between
    name : name of the file in errors

    Raises
    ------
    InvalidWorkloadError : unreadable, truncated, without such records, or unpacking to too much; tells the
        line
    """
    check_text(path, lines=False)
    with read_to_its_end(path), open_unpacked(path) as stream:
        window = _Window(stream)
        try:
            if key is not None:
                yield from _elements_under(window, key)
            else:
                yield from _values(window) if lines else _elements(window)
            if window.peek():
                raise _TextError("text after the end of the records; are these several files?", window.at)
        except _TextError as fault:
            raise InvalidWorkloadError(
                f"{name or path}: line {window.line_of(fault.at)}: {fault}; fetch or write the file again"
            ) from fault


def list_key(path: Path) -> str | None:
    """The first key under which a file's JSON object has a list of objects; None for none."""
    with read_to_its_end(path), open_unpacked(path) as stream:
        window = _Window(stream)
        try:
            for name in _keys(window):
                if window.at_objects():
                    return name
                window.decode()
        except _TextError:
            pass  # its reader tells the fault
    return None


def _elements_under(window: _Window, key: str) -> Iterator[JsonRecord]:
    """The elements of the array that an object has under a key."""
    others: list[str] = []
    there = False
    if window.peek() != "{":
        raise _TextError(f"no JSON object with the key '{key}'", window.at)
    for name in _keys(window):
        if name == key:
            there = True
            yield from _elements(window)
            continue
        others += [name] if window.peek() in ("[", "{") else []
        window.decode()
    if not there:
        has = f"; lists and objects are under: {', '.join(others)}" if others else ""
        raise _TextError(f"the object has no key '{key}'{has}", window.at)


def _keys(window: _Window) -> Iterator[str]:
    """The keys of an object; the window stands at the value of each, which the caller reads."""
    following = window.peek()
    while following in ("{", ","):
        window.at += 1
        name, _ = window.decode()
        if window.peek() != ":":
            raise _TextError(f"after the key {name!r} a colon should follow", window.at)
        window.at += 1
        yield str(name)
        following = window.peek()
    if following != "}":
        what = f"found {following!r}" if following else "the file ends"
        raise _TextError(f"a comma or a brace should follow, {what}", window.at)
    window.at += 1


def _values(window: _Window) -> Iterator[JsonRecord]:
    number = 0
    while window.peek():
        value, text = window.decode()
        number += 1
        yield JsonRecord(number, text, value)


class _TextError(Exception):
    """Fault of the text, and its character in the window."""

    def __init__(self, what: str, at: int) -> None:
        super().__init__(what)
        self.at = at


class _Window:
    """Part of a text in memory; the unread rest begins at `at`."""

    def __init__(self, stream: TextIO) -> None:
        self.text = ""
        self.at = 0
        self._stream = stream
        self._ended = False
        self._lines_before = 0

    def line_of(self, at: int) -> int:
        """Line of a character of the window, from 1."""
        return self._lines_before + self.text.count("\n", 0, at) + 1

    def peek(self) -> str:
        """The next character that is not blank, where `at` then stands; empty at the end."""
        while True:
            match = _NOT_BLANK.search(self.text, self.at)
            self.at = match.start() if match else len(self.text)
            if match or not self._more():
                return match[0] if match else ""

    def at_objects(self) -> bool:
        """Whether the next value is a list that begins with an object."""
        self.peek()
        while re.compile(r"\[\s*\Z").match(self.text, self.at) and self._more():
            pass
        return re.compile(r"\[\s*\{").match(self.text, self.at) is not None

    def decode(self) -> tuple[object, str]:
        """The next value and its text; `at` then stands behind it."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string")
                if not (cut or error.pos >= len(self.text) - _LONGEST_TOKEN) or not self._more():
                    raise _TextError(f"no valid JSON ({error.msg})", error.pos) from error
            except RecursionError as error:
                raise _TextError("a record is nested too deeply", self.at) from error
            else:
                if end < len(self.text) or not self._more():  # a number may go on behind the window
                    text, self.at = self.text[self.at : end], end
                    return value, text

    def _more(self) -> bool:
        """Read at least as much as is unread, so a record of n characters is parsed O(log n) times."""
        rest = self.text[self.at :]
        if len(rest) > MAX_RECORD:
            raise _TextError(f"a record is longer than {MAX_RECORD:,} characters", self.at)
        chunk = self._stream.read(max(CHUNK, len(rest)))
        if not chunk:
            return False
        self._lines_before += self.text.count("\n", 0, self.at)
        self.text, self.at = rest + chunk, 0
        return True


def _elements(window: _Window) -> Iterator[JsonRecord]:
    """The elements of an array."""
    if window.peek() != "[":
        raise _TextError("no JSON array of records", window.at)
    window.at += 1
    number = 0
    following = window.peek()
    while following != "]":
        value, text = window.decode()
        number += 1
        yield JsonRecord(number, text, value)
        following = window.peek()
        if following not in (",", "]"):
            what = f"found {following!r}" if following else "the file ends"
            raise _TextError(f"after record {number} a comma or a bracket should follow, {what}", window.at)
        if following == ",":
            window.at += 1
    window.at += 1
