"""Decorators that compile a function, with a cache on disk that is keyed by the content compiled."""

from __future__ import annotations

import hashlib
import inspect
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import caching

from ray_sim.kernels.content_digest import content_digest

P = ParamSpec("P")
R = TypeVar("R")

COMPILING = "compiling kernels: once on each machine and version, takes a minute or two"
"""Message to show before the first compilation, which takes long."""

_SOURCES = Path(__file__).parent


@cache
def source_digest() -> str:
    """Digest of the files of this package, its subfolders included; it names the folder of compiled code.

    One folder per version tells whether this version was compiled here. Whether one kernel is up to date
    is decided by its `content_digest`, which also covers kernels of other packages.
    """
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*.py")):
        digest.update(path.relative_to(_SOURCES).as_posix().encode())
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


def compiled_before() -> bool:
    """Whether kernels of these sources have been compiled on this machine, though perhaps not all."""
    return bool(numba.config.DISABLE_JIT) or any((_cache_root() / source_digest()).glob("**/*.nbc"))


class _Locator(caching._CacheLocator):  # type: ignore[misc]  # numba ships no types
    """Names the files of one kernel by its content, wherever its source is unpacked.

    Numba's own locators name them by the folder of the source and check the time of one source file. A
    working directory unpacked anew by Ray would compile again, and an edited callee would not.
    """

    def __init__(self, function: Any, source: str) -> None:
        self._digest = content_digest(function)
        self._py_file = source

    def get_cache_path(self) -> str:
        """Folder of this version of our kernels."""
        return str(_cache_root() / source_digest())

    def get_source_stamp(self) -> str:
        """The content digest: the freshness that numba checks."""
        return self._digest

    def get_disambiguator(self) -> str:
        """The content digest: kernels of one name and two contents have files of their own."""
        return self._digest

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        """Numba's constructor protocol."""
        locator = cls(py_func, py_file)
        locator.ensure_cache_path()
        return locator


class _UnopenedCache(caching.NullCache):  # type: ignore[misc]
    """Opens the cache of a kernel at its first call: only then is every name that it uses bound."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Replace this cache by numba's, with our names of files, and ask that one.

        A function without a module, as of `runpy` or `exec`, is compiled in each process: stored code
        imports its module when it is loaded.
        """
        if inspect.getmodule(self._compiled.py_func) is None:
            return None
        chosen = numba.config.CACHE_LOCATOR_CLASSES
        numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.{_Locator.__name__}"
        try:
            self._compiled.enable_caching()
        finally:
            numba.config.CACHE_LOCATOR_CLASSES = chosen
        return self._compiled._cache.load_overload(sig, target_context)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` to machine code on its first call; later processes load it from disk.

    For the inner loops of a policy::

        from ray_sim import kernel

        @kernel
        def first_fit(free: npt.NDArray[np.int64], need: int) -> int:
            for server in range(len(free)):
                if free[server] >= need:
                    return server
            return -1

    Arguments and results
        Numbers, booleans, numpy arrays, and tuples or `NamedTuple`s of these. No strings, lists, dicts
        or objects. Each new combination of types is compiled once; an int and an array of int32 are
        other types than a float and an array of int64. Integers have 64 bits and wrap around; division
        by zero gives inf or nan for floats and 0 for integers, not an error.
    Arrays
        A kernel makes no arrays (no ``np.zeros``, slices are allowed): pass arrays for results and for
        work space, and write into them. Arrays that a policy gets from the world and the view are to be
        read only; a kernel that writes into one marked as not writeable does not compile (TypingError).
        An index beyond the end is not checked and reads or writes other memory.
    Calls and constants
        A kernel may call other kernels. Values of globals are fixed when it is compiled.
    Cache
        Code is kept below ``$NUMBA_CACHE_DIR``, else ``$XDG_CACHE_HOME``, else ``~/.cache``, under a
        digest of the function, of the kernels that it calls and of the globals that it names. A change
        in one of them, in any module, compiles anew.
    Plain Python
        With ``NUMBA_DISABLE_JIT=1`` the decorator returns ``function`` itself, for a debugger or for a
        test that compares both, and indices are checked.

    Kernels are inlined into their callers: a call that passes a `NamedTuple` copies every array header in
    it. They are compiled without reference counts, which took nine tenths of a replay's time.
    """
    return _compile(function, inline=True)


def outlined(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that is not inlined: for large ones with many callers, to keep compilation short."""
    return _compile(function, inline=False)


def _compile(function: Callable[P, R], *, inline: bool) -> Callable[P, R]:
    compiled = numba.njit(function, _nrt=False, error_model="numpy", forceinline=inline)
    if not numba.config.DISABLE_JIT:
        compiled._cache = _UnopenedCache(compiled)
    return cast("Callable[P, R]", compiled)
