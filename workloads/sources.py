"""Inputs by path or by URL: files of this machine, and objects in the stores that pyarrow opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, cast
from urllib.parse import urlsplit, urlunsplit

from ray_sim.model.errors import InvalidInputError

Source = str | Path
"""A path, or a text such as ``s3://bucket/philly.parquet``."""

SCHEMES = ("file", "gs", "hdfs", "s3")

_DENIED = ("ACCESS_DENIED", "UNAUTHORIZED", "PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ACCESS_KEY_ID")
_UNREACHABLE = ("NETWORK_CONNECTION", "UNAVAILABLE", "Could not resolve", "Could not connect")

_MAX_REASON = 300
"""Characters of what a store's library says."""


def is_url(source: Source) -> bool:
    """Whether it is a URL and no path."""
    return isinstance(source, str) and "://" in source


def name_of(source: Source) -> PurePath:
    """The path without store and query: what has a suffix."""
    return (
        PurePosixPath(urlsplit(source).path) if isinstance(source, str) and is_url(source) else Path(source)
    )


def beside(source: Source, name: str) -> Source:
    """What has this name, or relative path, in the same folder."""
    if not isinstance(source, str) or not is_url(source):
        return Path(source).parent / name
    parts = urlsplit(source)
    return urlunsplit(parts._replace(path=str(PurePosixPath(parts.path).parent / name)))


@contextmanager
def open_source(source: Source, error: type[InvalidInputError]) -> Iterator[IO[bytes]]:
    """A file or object to read bytes from, at any place.

    Raises
    ------
    error : it is not there, must not be read, or its store is unknown or out of reach
    OSError : a local file cannot be read
    """
    if not is_url(source):
        with Path(source).open("rb") as file:
            yield file
        return
    with _open_url(str(source), error) as stream:
        yield stream


def _open_url(url: str, error: type[InvalidInputError]) -> IO[bytes]:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise error(f"{url}: {parts.scheme}:// is not known; give a path or one of {known}")
    if ":" in parts.netloc.rpartition("@")[0]:
        raise error(
            f"{parts.scheme}://...@{parts.netloc.rpartition('@')[2]}{parts.path}: a URL is written into "
            "results, so it must hold no password; leave it to the store's own settings, e.g. AWS_PROFILE"
        )
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem

    try:
        system, path = FileSystem.from_uri(url)
        # A NativeFile is a file in all but its type.
        return cast("IO[bytes]", system.open_input_file(path))
    except (OSError, ArrowException) as failure:
        raise error(f"{url}: {_reason(failure)}") from failure


def _reason(failure: Exception) -> str:
    said = " ".join(str(failure).split())[:_MAX_REASON]
    if isinstance(failure, FileNotFoundError):
        return "there is no such object; check its name"
    if any(word in said for word in _DENIED):
        return (
            f"access denied; give credentials as the store's own tools take them, e.g. AWS_PROFILE ({said})"
        )
    if any(word in said for word in _UNREACHABLE):
        return f"the store cannot be reached; check its address and the network ({said})"
    return f"cannot be read: {said}"
