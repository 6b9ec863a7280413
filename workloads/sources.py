"""Open inputs by path or URL: local files, and objects in the stores that pyarrow supports.

The clients of object stores may wait without end, so each answer has a time limit.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, TYPE_CHECKING, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.text import has_secret, shown, without_secrets

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

Source = str | Path
"""A path, or a text such as ``s3://bucket/philly.parquet``."""

SCHEMES = ("file", "gs", "hdfs", "s3")

_DENIED = ("ACCESS_DENIED", "UNAUTHORIZED", "PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ACCESS_KEY_ID")
_UNREACHABLE = ("NETWORK_CONNECTION", "UNAVAILABLE", "Could not resolve", "Could not connect")

_MAX_REASON = 300
"""Characters of a store library's message that are shown."""


_UNPACKED = {"runtime_resources", "working_dir_files"}
"""Folders in the path where Ray unpacks a job's working directory; Ray deletes it after the job."""

TIMEOUT_VARIABLE = "RAY_SIM_STORE_TIMEOUT_S"
"""Environment variable: seconds that a store may take for an answer."""

TIMEOUT_S = 60.0
"""Default in seconds, without the variable."""

MAX_TIMEOUT_S = 86_400.0

_Value = TypeVar("_Value")


def in_job(path: Path) -> bool:
    """Whether the path is in the working directory of a job that was submitted to Ray."""
    return set(path.absolute().parts) >= _UNPACKED


def unsent(path: Source) -> str:
    """Reason why a file may be missing in a job, for the end of an error; elsewhere empty."""
    if is_url(path) or Path(path).exists() or not in_job(Path(path)):
        return ""
    return " in the uploaded --working-dir, which lacks what .gitignore and .rayignore name"


def is_url(source: Source) -> bool:
    """Whether ``source`` is a URL and not a path."""
    return isinstance(source, str) and "://" in source


def name_of(source: Source) -> PurePath:
    """Path part of a path or URL, without store and query."""
    return (
        PurePosixPath(urlsplit(source).path) if isinstance(source, str) and is_url(source) else Path(source)
    )


def beside(source: Source, name: str) -> Source:
    """Path or URL of the given name (or relative path) in the same folder."""
    if not isinstance(source, str) or not is_url(source):
        return Path(source).parent / name
    parts = urlsplit(source)
    return urlunsplit(parts._replace(path=str(PurePosixPath(parts.path).parent / name)))


@contextmanager
def open_source(source: Source, error: type[InvalidInputError]) -> Iterator[IO[bytes]]:
    """Open a regular local file or a stored object for reading bytes.

    Raises
    ------
    error : it is not there, is a folder or a device, must not be read, or its store is unknown or out of
        reach, or does not answer in time
    OSError : a local file cannot be read
    """
    if not is_url(source):
        require_regular(Path(source), error)
        with Path(source).open("rb") as file:
            yield file
        return
    with _open_url(str(source), error) as stream:
        yield stream


def require_regular(path: Path, error: type[InvalidInputError]) -> None:
    """Raise ``error`` unless ``path`` is absent or a regular file: a device or a pipe may never end."""
    if path.exists() and not path.is_file():
        raise error(f"{path}: not a file; give the file itself, no folder, device or pipe")


def check_url(url: str, error: type[InvalidInputError]) -> None:
    """Raise ``error`` for a URL of an unknown scheme, with a password or a key in it, or with a fragment."""
    place, hash_sign, _ = url.partition("#")
    if hash_sign:
        raise error(
            f"{without_secrets(place)}#...: the URL of a file has no fragment; write a # in a name as %23"
        )
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        raise error(f"{without_secrets(url)}: {scheme}:// is not known; give a path or one of {known}")
    if has_secret(url):
        raise error(
            f"{without_secrets(url)}: a URL is written into results, so it must hold no password and no key; "
            "leave them to the store's own settings, e.g. AWS_PROFILE"
        )


def local_path(source: str) -> Path:
    """The path of a file of this machine; raises InvalidInputError for a URL."""
    if is_url(source):
        place = without_secrets(source.partition("#")[0])
        raise InvalidInputError(f"{place}: only a file of this machine can be read here; fetch it first")
    return Path(source)


def _open_url(url: str, error: type[InvalidInputError]) -> IO[bytes]:
    check_url(url, error)
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem, LocalFileSystem, S3FileSystem

    limit = TimeLimit.of_environment(url, error)

    def opened() -> IO[bytes]:
        system, path = FileSystem.from_uri(url)
        if isinstance(system, LocalFileSystem):
            require_regular(Path(path), error)
        if isinstance(system, S3FileSystem):
            system = _answering_within(limit.seconds, system)
        # A NativeFile behaves as a file, but its type does not say so.
        return cast("IO[bytes]", system.open_input_file(path))

    try:
        # A local file needs no time limit.
        file = opened() if urlsplit(url).scheme == "file" else limit.file(opened)
    except (OSError, ArrowException) as failure:
        raise error(f"{url}: {_reason(failure)}") from failure
    return file


def _answering_within(seconds: float, system: S3FileSystem) -> S3FileSystem:
    """The same store, whose client gives up by itself: the process waits for it when it ends."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    _, (options,) = system.__reduce__()
    limits = {"connect_timeout": seconds, "request_timeout": seconds}
    return S3FileSystem(**options | limits, retry_strategy=AwsStandardS3RetryStrategy(max_attempts=2))


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


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Limit on the time that a store may take to answer."""

    url: str
    """URL that is read, without credentials."""
    seconds: float
    error: type[InvalidInputError]
    """Raised when the time is over."""

    @classmethod
    def of_environment(cls, url: str, error: type[InvalidInputError]) -> TimeLimit:
        """The limit that the user has set in `TIMEOUT_VARIABLE`; raises ``error`` if it is out of range."""
        text = os.environ.get(TIMEOUT_VARIABLE, str(TIMEOUT_S))
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= MAX_TIMEOUT_S:
            raise error(
                f"{TIMEOUT_VARIABLE}: must be above 0, at most {MAX_TIMEOUT_S:,.0f} s, got '{shown(text)}'"
            )
        return cls(url, seconds, error)

    def answer(self, ask: Callable[[], _Value]) -> _Value:
        """Result of ``ask`` within the limit; its exceptions are raised here.

        Raises
        ------
        error : no answer in time; the thread that waits for it does not keep the process
        """
        answers: SimpleQueue[tuple[_Value | None, BaseException | None]] = SimpleQueue()

        def wait() -> None:
            try:
                answers.put((ask(), None))
            except BaseException as failure:  # raised again in the thread that asked
                answers.put((None, failure))

        Thread(target=wait, daemon=True).start()
        try:
            value, failure = answers.get(timeout=self.seconds)
        except Empty:
            raise self.error(
                f"{self.url}: the store did not answer within {self.seconds:g} s; check its address and the "
                f"network, or allow more seconds in {TIMEOUT_VARIABLE}"
            ) from None
        if failure is not None:
            raise failure
        return cast("_Value", value)

    def file(self, opened: Callable[[], IO[bytes]]) -> IO[bytes]:
        """Open a file and read each part of it within the limit."""
        return cast("IO[bytes]", _TimedFile(self, self.answer(opened)))


class _TimedFile(io.RawIOBase):
    """Reads a file of a store within the limit."""

    def __init__(self, limit: TimeLimit, file: IO[bytes]) -> None:
        self._limit = limit
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        wanted = -1 if size is None else size
        return self._limit.answer(lambda: self._file.read(wanted))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
