"""File checks, hashes, and atomic writes: an output file appears complete or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from workloads.sources import Source, is_url, open_source, require_regular, unsent

_PART_BYTES = 2**22
"""Bytes read at a time."""


def require_file(source: Source) -> None:
    """Raise InvalidWorkloadError unless a path or URL leads to a readable file that is not empty."""
    try:
        if not is_url(source):
            path = Path(source)
            if not path.exists():
                raise InvalidWorkloadError(f"{path}: no such file{unsent(path)}; check the path")
            require_regular(path, InvalidWorkloadError)
            _require_text(path, InvalidWorkloadError)
        with open_source(source, InvalidWorkloadError) as stream:
            if not stream.read(1):
                raise InvalidWorkloadError(f"{source}: the file is empty; fetch or write it again")
    except OSError as error:
        raise InvalidWorkloadError(f"{source}: cannot be read: {error.strerror or error}") from error


def _require_text(path: Path, error: type[InvalidInputError]) -> None:
    """Raise for a name of other bytes than UTF-8, which readers and writers of Parquet do not take."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise error(f"{path}: the name is no UTF-8 text; rename it") from None


def refuse_url(path: Path) -> None:
    """Raise InvalidInputError for the path of an output that was given as a URL."""
    if len(path.parts) > 1 and _SCHEME.fullmatch(path.parts[0]):
        raise InvalidInputError(
            f"{path}: is a URL; outputs are written to this machine, copy them there afterwards"
        )


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""First part of a URL that is read as a path; a drive has one letter."""


def require_folder_of(path: Path) -> None:
    """Raise InvalidInputError unless ``path`` can be a file: in a folder, no folder, no link to nothing."""
    refuse_url(path)
    if not path.parent.is_dir():
        raise InvalidInputError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise InvalidInputError(f"{path}: is a folder; name a file")
    _require_text(path, InvalidInputError)
    if path.is_symlink() and not path.exists():
        raise InvalidInputError(
            f"{path}: is a symbolic link to nothing, which a file would replace; name a file"
        )
    if path.exists() and not path.is_file():
        raise InvalidInputError(f"{path}: is a device or a pipe, which a file would replace; name a file")


def sha256(source: Source) -> str:
    """SHA-256 of a file's bytes in hexadecimal; the file may be local or in a store."""
    digest = hashlib.sha256()
    with open_source(source, InvalidWorkloadError) as stream:
        while part := stream.read(_PART_BYTES):
            digest.update(part)
    return digest.hexdigest()


GZIP_MAGIC = b"\x1f\x8b"

PACKED = 12
"""Approximate compression factor of a gzipped trace."""


def text_bytes(paths: Iterable[Path]) -> int:
    """Approximate bytes of text in files, plain or gzip."""
    return sum(path.stat().st_size * (PACKED if path.suffix == ".gz" else 1) for path in paths)


@contextmanager
def read_to_its_end(path: Path) -> Iterator[None]:
    """Convert exceptions of reading a file to an error that names the file."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidWorkloadError(
            f"{path}: cannot be read to its end ({error}); fetch the file again"
        ) from error


@contextmanager
def open_unpacked(path: Path) -> Iterator[TextIO]:
    """Open a plain or gzip text file, recognised by content, without a byte order mark.

    Line ends stay as they are; bytes that are no UTF-8 become lone surrogates.
    """
    with path.open("rb") as raw:
        packed = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        raw.seek(0)
        with gzip.open(raw) if packed else raw as stream:
            yield io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")


def require_replaceable(path: Path, is_ours: Callable[[Path], bool]) -> None:
    """Raise InvalidInputError unless ``path`` can be written; an existing file must be one that we wrote."""
    require_folder_of(path)
    if path.exists() and not is_ours(path):
        raise InvalidInputError(
            f"{path}: is there already and not as ray-sim wrote it, so it is not overwritten; move it, or "
            "name another file"
        )


def require_other_file(source: Source, out: Path) -> None:
    """Raise `InvalidInputError` if an input, by path, would be overwritten by an output."""
    if not is_url(source) and os.path.realpath(source) == os.path.realpath(out):
        raise InvalidInputError(f"{out}: is a source, and would be overwritten; choose another name")


_SIGNATURE = b"written by ray-sim, SHA-256 "


def signed(lines: bytes, opening: bytes = b"# ", closing: bytes = b"") -> bytes:
    """Append a comment line with a hash, by which `is_signed` recognises the file as ours and unchanged."""
    digest = hashlib.sha256(lines).hexdigest().encode()
    return lines + opening + _SIGNATURE + digest + closing + b"\n"


def is_signed(path: Path, opening: bytes = b"# ", closing: bytes = b"") -> bool:
    """Whether a file is unchanged since `signed` made it, with comments of this form."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    lines, found, _ = content.rpartition(opening + _SIGNATURE)
    return bool(found) and content == signed(lines, opening, closing)


@contextmanager
def replacing(path: Path, is_ours: Callable[[Path], bool] = lambda path: True) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    Parameters
    ----------
    is_ours : whether a file that is there may be replaced

    Raises
    ------
    InvalidInputError : the file that is there is not ours, the folder is missing or cannot be written to,
        or the disk is full
    """
    require_replaceable(path, is_ours)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield temporary
        require_replaceable(path, is_ours)
        temporary.replace(path)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
