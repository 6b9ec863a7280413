"""The one way to compile a kernel, with a cache that follows the source and nothing else."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import numba
from numba.core import caching

P = ParamSpec("P")
R = TypeVar("R")

_SOURCES = Path(__file__).parent


@cache
def source_digest() -> str:
    """Digest of every kernel's source: a change in any of them makes all compiled code stale.

    Numba watches only the file a function stands in, but a kernel contains what it calls.
    """
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _cache_root() -> Path:
    chosen = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    home = Path(chosen) if chosen else Path.home() / ".cache"
    for root in (home, Path(tempfile.gettempdir()) / f"ray_sim-{os.getuid()}"):
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            tempfile.TemporaryFile(dir=root).close()
        except OSError:
            continue
        return root / "ray_sim-kernels"
    raise OSError("no writable directory for compiled code; set NUMBA_CACHE_DIR")


class SourceLocator(caching._CacheLocator):  # type: ignore[misc]  # numba ships no types
    """Keeps compiled code under the digest of the sources, wherever they are unpacked.

    Numba's own locators key the cache by the source file's directory, so a working directory
    unpacked anew by Ray would compile everything again.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        """Directory of this source state."""
        return str(_cache_root() / source_digest())

    def get_source_stamp(self) -> str:
        """Freshness is the digest itself."""
        return source_digest()

    def get_disambiguator(self) -> str:
        """Tells apart functions of one name."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., object], py_file: str) -> SourceLocator:
        """Numba's constructor protocol."""
        del py_file
        locator = cls(py_func)
        locator.ensure_cache_path()
        return locator


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` in nopython mode on its first call; later processes load it.

    Kernels allocate nothing, so they are compiled without reference counts: counting every array of
    every group at every call took nine tenths of a replay's time. They are inlined into each other,
    because a call that passes a group copies all of its arrays' fields.
    """
    return _compile(function, inline=True)


def outlined(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that is not inlined: for large ones with many callers, to keep compilation short."""
    return _compile(function, inline=False)


def _compile(function: Callable[P, R], *, inline: bool) -> Callable[P, R]:
    compiled = numba.njit(function, _nrt=False, error_model="numpy", forceinline=inline)
    if not numba.config.DISABLE_JIT:
        chosen = numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{SourceLocator.__name__}"
        try:
            compiled.enable_caching()
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = chosen
    return cast("Callable[P, R]", compiled)
