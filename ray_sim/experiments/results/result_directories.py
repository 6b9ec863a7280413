"""Directories of results: written as a whole, replaced without loss, cleared of leftovers.

The commands and sweeps that write results call this module. The names of temporary directories,
``.NAME.<32 hex digits>`` with the suffix .tmp, .old or .replaced, are a format: a later version must still
recognise them, since `remove_leftovers` deletes or restores such directories.
"""

from __future__ import annotations

import errno
import fcntl
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO

from ray_sim.experiments.results.result_files import PLAN, RESULT_FILES, check_result, read_manifest
from ray_sim.model.errors import InvalidInputError, RaySimError, RunFailedError
from workloads.files import refuse_url
from workloads.sources import in_job, require_regular

LOCK = ".lock"
"""File that whoever writes results in a directory has locked."""

_REPLACED = ".replaced"
"""Suffix of a complete older result while a new one takes its name."""
_UUID_DIGITS = 32
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk, a full quota and a file beyond the size limit."""


class StoreFullError(RunFailedError):
    """The disk or quota is full, so that no further result fits."""


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Check the directory with `prepare_target`, then write a result with `replace_files`.

    Parameters
    ----------
    files : content by file name, from `encode_result`; names without folders
    """
    prepare_target(directory)
    replace_files(directory, files)


def replace_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files as a directory, in place of an older result.

    If the process is killed, the older or the new result stays complete. An older result may then have a
    temporary name; the next `prepare_target` or `remove_leftovers` gives it its name back. A power failure
    is not covered: files are not flushed to the disk.

    Raises
    ------
    StoreFullError : the disk or the quota is full; the older result is unchanged
    InvalidInputError : the directory holds another file, or cannot be written for another reason
    """
    fresh = _sibling(directory, ".tmp")
    try:
        fresh.mkdir(parents=True)
        for name, content in files.items():
            (fresh / name).write_bytes(content)
        _swap(fresh, directory)
    except OSError as error:
        raise unwritable(directory, error) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _swap(fresh: Path, directory: Path) -> None:
    """Rename `fresh` to `directory`; an older result is moved aside first and removed last."""
    replaced: list[Path] = []
    try:
        while not _renamed(fresh, directory):
            require_result_files(directory)
            with suppress(FileNotFoundError):  # another process has moved the directory
                replaced.append(directory.replace(_sibling(directory, _REPLACED)))
    finally:
        for older in replaced:
            _settle(older, directory)


def _renamed(fresh: Path, directory: Path) -> bool:
    """Rename a directory if the new name is free or an empty directory; return whether it was renamed."""
    try:
        fresh.replace(directory)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _settle(replaced: Path, directory: Path) -> None:
    """Give an older result its name back, or remove it if another result has the name."""
    with suppress(OSError):  # another process has done it
        if not _renamed(replaced, directory):
            remove_directory(replaced)


@contextmanager
def locked(root: Path, in_use: str) -> Iterator[IO[str]]:
    """Create a directory and lock it for this process until the end of the block; yields the lock file.

    Raises
    ------
    InvalidInputError : another process has the lock, as ``in_use`` says, or the directory cannot be written
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        require_regular(root / LOCK, InvalidInputError)
        lock = (root / LOCK).open("a")
    except OSError as error:
        raise unwritable(root, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # kill -9 also releases the lock
        except OSError as error:
            raise InvalidInputError(f"{root}: {in_use}") from error
        yield lock


def require_result_files(directory: Path) -> None:
    """Raise `InvalidInputError` if the directory holds a file that is not part of a result."""
    for path in sorted(directory.glob("*")):
        if path.name not in RESULT_FILES or not path.is_file():
            raise InvalidInputError(
                f"{path}: is no file of a result, so {directory} is not replaced; move it elsewhere or "
                "choose another -o"
            )


def remove_directory(directory: Path) -> None:
    """Remove the directory of a result: its name disappears at once, then its files."""
    require_result_files(directory)
    old = _sibling(directory, ".old")
    with suppress(FileNotFoundError):  # another process has removed the directory
        directory.replace(old)
    shutil.rmtree(old, ignore_errors=True)


def _sibling(directory: Path, suffix: str) -> Path:
    return directory.parent / f".{directory.name}.{uuid.uuid4().hex}{suffix}"


def remove_leftovers(parent: Path) -> None:
    """Remove the temporary directories that a killed process left in `parent`.

    An older result that a killed process moved aside and did not replace gets its name back. No other
    process may write results into `parent` meanwhile: its temporary directories would be removed too.
    """
    for leftover in sorted(parent.glob(".*")):
        name, _, token = leftover.stem.rpartition(".")
        if len(token) != _UUID_DIGITS:
            continue
        if leftover.suffix == _REPLACED:
            _settle(leftover, parent / name.removeprefix("."))
        elif leftover.suffix in (".tmp", ".old"):
            shutil.rmtree(leftover, ignore_errors=True)


def prepare_target(directory: Path) -> None:
    """Create the parents of a result's directory; refuse a path where no result may be written.

    An older result that a killed process moved aside gets its name back.

    Raises
    ------
    InvalidInputError : the path is a file or a symbolic link, or Ray will delete it after the job; or the
        directory has files but no result, a result that was changed, or other files beside a result; or
        its parent cannot be written
    StoreFullError : the disk or the quota is full
    """
    require_lasting_directory(directory)
    for replaced in directory.parent.glob(f".{escape(directory.name)}.{'?' * _UUID_DIGITS}{_REPLACED}"):
        _settle(replaced, directory)
    if directory.is_symlink():
        raise InvalidInputError(f"{directory}: is a symbolic link; name the directory itself for -o")
    if directory.exists() and not directory.is_dir():
        raise InvalidInputError(f"{directory}: is a file; -o must name a directory for the result")
    if (directory / PLAN).exists():
        raise InvalidInputError(
            f"{directory}: holds the results of a sweep, and one run does not replace them; choose another -o"
        )
    if directory.is_dir() and any(directory.iterdir()):
        try:
            read_manifest(directory)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{directory}: exists and is not a result of ray-sim, so it is not overwritten; choose "
                f"another -o\n  {error}"
            ) from error
        require_result_files(directory)
        try:
            check_result(directory)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{directory}: is not as ray-sim wrote it, so it is not replaced; move it elsewhere or "
                f"choose another -o\n  {error}"
            ) from error
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=directory.parent).close()
    except OSError as error:
        raise unwritable(directory, error) from error


def require_lasting_directory(directory: Path) -> None:
    """Raise unless results stay in a directory of this machine."""
    refuse_url(directory)
    if in_job(directory):
        raise InvalidInputError(
            f"{directory}: is deleted with the working directory of this job; name a directory that stays, "
            "best on a disk that all machines share: -o /shared/results"
        )


def unwritable(path: Path, error: OSError) -> RaySimError:
    """Error to raise if the system cannot write the path."""
    if error.errno in _FULL:
        return StoreFullError(f"{path}: cannot be written: {error.strerror}; make room or choose another -o")
    return InvalidInputError(f"{path}: cannot be written: {error.strerror}; choose another -o")
