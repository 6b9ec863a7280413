"""Directories and files that no other user can have written: the only ones that code is loaded from."""

from __future__ import annotations

import atexit
import io
import os
import shutil
import stat
import sys
import tempfile
from functools import cache
from pathlib import Path


class UnsafeDirectoryError(OSError):
    """A directory in which another user can put files."""


def private_directory(root: Path, *names: str) -> Path:
    """Make the directory ``root/names``, check that no other user can write or replace it, and return it.

    Raises `UnsafeDirectoryError`, or another `OSError` where this process cannot write. Links in `root` are
    resolved, further ones refused.
    """
    path = root.resolve()
    administrators = {0, Path("/").stat().st_uid}  # in a user namespace root has another number
    for each in [*reversed(path.parents), path]:
        _make(each, administrators, stat.S_ISVTX)
    for name in names:
        path /= name
        _make(path, set(), 0)
    tempfile.TemporaryFile(dir=path).close()
    return path


def _make(path: Path, owners: set[int], protected: int) -> None:
    """Make a directory, unless it exists and is ours or of `owners`, and written by us or `protected`."""
    path.mkdir(mode=0o700, exist_ok=True)
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        raise UnsafeDirectoryError(f"{path} is a link")
    if state.st_uid not in {os.geteuid(), *owners}:
        raise UnsafeDirectoryError(f"{path} belongs to user {state.st_uid}")
    if state.st_mode & 0o022 and not state.st_mode & protected:
        raise UnsafeDirectoryError(f"other users can write into {path}")


def read_private(path: Path) -> bytes:
    """Read a regular file that this user owns and no other can write; any other raises `OSError`."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK  # neither follow a link nor wait for a pipe
    with io.FileIO(path, opener=lambda name, how: os.open(name, how | flags)) as file:
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o022:
            raise PermissionError(f"{path} is no file that only this user can write")
        return file.readall()


@cache
def kernel_directory(version: str) -> Path | None:
    """Directory of the compiled code of a version; None where there is none that only this user can write.

    It is below ``$NUMBA_CACHE_DIR``, ``$XDG_CACHE_HOME`` or ``~/.cache``, else in the system's directory for
    temporary files, else a new one, which is removed at the end and serves processes started from here too.
    """
    unsafe, found = [], None
    for place in (_home, _temporary, _fresh):
        try:
            root, *names = place()
            found = private_directory(Path(root), *names, "ray_sim-kernels", version)
            break
        except UnsafeDirectoryError as error:
            unsafe.append(str(error))
        except (OSError, RuntimeError):  # not writable, or the user has no home
            pass
    if unsafe or found is None:
        reason = "; ".join(unsafe) or "no directory is writable (set NUMBA_CACHE_DIR)"
        warn_once(f"{reason}: compiled kernels are kept in {found or 'memory only'}")
    return found


def _home() -> list[str]:
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    return [chosen or str(Path.home() / ".cache")]


def _temporary() -> list[str]:
    return [tempfile.gettempdir(), f"ray_sim-{os.geteuid()}"]


def _fresh() -> list[str]:
    fresh = tempfile.mkdtemp(prefix="ray_sim-")
    atexit.register(shutil.rmtree, fresh, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = fresh
    return [fresh]


@cache
def warn_once(text: str) -> None:
    """Write a line on standard error, at most once in a process."""
    sys.stderr.write(f"warning: {text}\n")
