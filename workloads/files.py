"""Reading and writing whole files: hashes, and files that appear complete or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from workloads.sources import Source, is_url, open_source

_PART_BYTES = 2**22
"""Read at a time."""


def require_file(source: Source) -> None:
    """Raise unless a path or URL leads to a file with something in it.

    Raises
    ------
    InvalidWorkloadError : missing, a folder, empty, or not readable
    """
    try:
        if not is_url(source):
            _require_local(Path(source))
        with open_source(source, InvalidWorkloadError) as stream:
            if not stream.read(1):
                raise InvalidWorkloadError(f"{source}: the file is empty; fetch or write it again")
    except OSError as error:
        raise InvalidWorkloadError(f"{source}: cannot be read: {error.strerror or error}") from error


def _require_local(path: Path) -> None:
    if not path.exists():
        raise InvalidWorkloadError(f"{path}: no such file; check the path")
    if not path.is_file():
        raise InvalidWorkloadError(f"{path}: not a file; give the file itself")


def require_folder_of(path: Path) -> None:
    """Raise unless ``path`` can be a file: its folder exists, and it is no folder itself.

    Raises
    ------
    InvalidInputError
    """
    if not path.parent.is_dir():
        raise InvalidInputError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise InvalidInputError(f"{path}: is a folder; name a file")


def sha256(source: Source) -> str:
    """SHA-256 of a file's bytes, in hexadecimal, wherever it is."""
    digest = hashlib.sha256()
    with open_source(source, InvalidWorkloadError) as stream:
        while part := stream.read(_PART_BYTES):
            digest.update(part)
    return digest.hexdigest()


GZIP_MAGIC = b"\x1f\x8b"


PACKED = 12
"""How much smaller a gzip file of a trace is, about."""


def text_bytes(paths: Iterable[Path]) -> int:
    """About how much text files hold, plain or gzip."""
    return sum(path.stat().st_size * (PACKED if path.suffix == ".gz" else 1) for path in paths)


@contextmanager
def open_unpacked(path: Path) -> Iterator[TextIO]:
    """The text of a plain or gzip file, told apart by content, without a byte order mark.

    Line ends stay as they are; bytes that are no UTF-8 become lone surrogates.
    """
    with path.open("rb") as raw:
        packed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        raw.seek(0)
        with gzip.open(raw) if packed else raw as stream:
            yield io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    Raises
    ------
    InvalidInputError : the folder is missing or cannot be written to, or the disk is full
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    require_folder_of(path)
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
