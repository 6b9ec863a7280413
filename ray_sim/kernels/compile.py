"""Decorators that compile a function, with a cache on disk that is keyed by the content compiled."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import inspect
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

import llvmlite
import llvmlite.binding
import numba
from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

from ray_sim.kernels.content_digest import content_digest, types_digest
from ray_sim.kernels.private_files import kernel_directory, read_private, warn_once

P = ParamSpec("P")
R = TypeVar("R")

COMPILING = "compiling kernels: once on each machine and version, takes a minute or two"
"""Message to show before the first compilation, which takes long."""

KEPT_S = 30 * 24 * 3600
"""Age in seconds from which on files of the cache that no process has opened are removed."""

_DAY_S = 24 * 3600
_SEAL_BYTES = hashlib.sha256().digest_size
_SOURCES = Path(__file__).parent


@cache
def _folder() -> Path | None:
    """Folder of the code of this Python, numba, LLVM and CPU; others use folders of their own."""
    cpu = (llvmlite.binding.get_host_cpu_name(), llvmlite.binding.get_host_cpu_features().flatten())
    digest = hashlib.sha256(repr((llvmlite.__version__, cpu)).encode()).hexdigest()[:8]
    return kernel_directory(f"{sys.implementation.cache_tag}-numba-{numba.__version__}-{digest}")


@cache
def _version_file(folder: Path) -> Path:
    """An empty file that tells that kernels of these sources, a digest of this package, were opened here.

    It serves `compiled_before` only. The content digest of a kernel decides whether stored code is used.
    """
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*.py")):
        digest.update(path.relative_to(_SOURCES).as_posix().encode())
        digest.update(path.read_bytes())
    return folder / f"{digest.hexdigest()[:16]}.version"


def compiled_before() -> bool:
    """Whether kernels of these sources have been compiled on this machine, though perhaps not all."""
    folder = _folder()
    return bool(numba.config.DISABLE_JIT) or (folder is not None and _version_file(folder).exists())


@cache
def _open_version(folder: Path) -> None:
    """Note that kernels of these sources are in use; the first process of a version removes unused files."""
    version = _version_file(folder)
    with suppress(OSError):  # no room
        if not version.exists():
            version.touch()
            _remove_unused(folder.parent)
    _note_use(version)


def _note_use(path: Path) -> None:
    """Set the time of access of a file, at most once a day; not every file system does it itself."""
    with suppress(OSError):  # not compiled yet, or removed by another process
        state, now = path.stat(), time.time()
        if now - state.st_atime > _DAY_S:
            os.utime(path, (now, state.st_mtime))


def _remove_unused(cache: Path) -> None:
    """Remove kernels and versions that no process has opened for `KEPT_S`, in all folders of the cache.

    The files of a kernel have names with the same beginning: its code, its lock and, in folders of older
    versions, an index (.nbi).
    """
    oldest = time.time() - KEPT_S
    for first in [each for kind in ("kernel", "nbi", "version") for each in cache.rglob(f"*.{kind}")]:
        with suppress(OSError):  # removed by another process
            if first.stat().st_atime < oldest:
                for path in first.parent.glob(f"{glob.escape(first.stem)}.*"):
                    path.unlink(missing_ok=True)
                first.parent.rmdir()  # fails unless it is empty


class _StoredCode(caching.CompileResultCacheImpl, caching.NullCache):  # type: ignore[misc]  # no types
    """Numba's cache of one kernel for the types of a call: a file that is named by the content of both.

    Numba's own caches name files by the folder of the source and check the time of one source file. A
    working directory unpacked anew by Ray would compile again, and an edited callee would not. They also
    run whatever a file holds. This file begins with a digest of its name and of the rest.
    """

    def __init__(self, compiled: Dispatcher, types: tuple[Any, ...], folder: Path) -> None:
        function = compiled.py_func
        self._lineno = function.__code__.co_firstlineno  # for numba's warnings
        self._locator = SimpleNamespace(_py_file=inspect.getfile(function))
        name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        digest = f"{content_digest(compiled)}-{types_digest(types)}"
        self.path = folder / f"{name}-{digest}.kernel"
        _note_use(self.path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Stored code for these types; None where there is none that is whole and can be loaded here."""
        try:
            found = read_private(self.path)
            seal, content = found[:_SEAL_BYTES], found[_SEAL_BYTES:]
            if seal != self.seal(content):
                raise ValueError("damaged")
            stored, code = pickle.loads(content)  # noqa: S301  # sealed, and no other user can write it
            return self.rebuild(target_context, code) if stored == sig else None
        except Exception:  # absent, damaged, another user's, or with types that have moved
            self._drop()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store code; where it cannot be written this is said once, and it stays in memory."""
        if not self.check_cachable(data):
            return
        content = dumps((sig, self.reduce(data)))
        try:
            descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=f"{self.path.stem}.")
            fresh = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(self.seal(content) + content)
                fresh.replace(self.path)
            finally:
                fresh.unlink(missing_ok=True)
        except OSError as error:
            warn_once(f"compiled kernels are not kept in {self.path.parent}: {error.strerror}")

    def seal(self, content: bytes) -> bytes:
        """Digest of the name and the content of the file."""
        return hashlib.sha256(self.path.name.encode() + b"\0" + content).digest()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process compiles this kernel.

        A kernel waits for those that it calls, and no call leads back, so processes do not wait in a circle.
        The lock ends with its process. Where no lock is to be had, several processes may compile the same
        kernel.
        """
        with ExitStack() as held:
            with suppress(OSError):
                flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
                file = os.open(self.path.with_suffix(".lock"), flags, mode=0o600)
                held.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _drop(self) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def _with_cache(compiled: Any) -> Callable[[Any], Any]:
    """The method ``compile`` of a kernel, with the cache of its content, and in one process at a time.

    The cache is opened at the first call of the kernel: only then is every name that it uses bound. A
    function without a module, as of `runpy` or `exec`, is compiled in each process: stored code imports its
    module when it is loaded.
    """
    compile_types = compiled.compile

    def compile_or_load(types: Any) -> Any:
        types = tuple(map(numba.types.unliteral, types))  # no code of its own for a constant argument
        folder = _folder()
        if types in compiled.overloads or folder is None or inspect.getmodule(compiled.py_func) is None:
            return compile_types(types)
        with global_compiler_lock:
            _open_version(folder)
            outer, cache = compiled._cache, _StoredCode(compiled, types, folder)
            compiled._cache = cache
            try:
                with cache.alone():
                    return compile_types(types)
            finally:
                compiled._cache = outer  # of a kernel that calls itself with other types

    return compile_or_load


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
        Code that Python calls is kept below ``$NUMBA_CACHE_DIR``, else ``$XDG_CACHE_HOME``, else
        ``~/.cache``, if no other user can write there, under a digest of the function, of the
        kernels that it calls, of the globals that it names and of the types of the arguments. A
        change in one of them, in any module, compiles the function anew and no other; a change of
        comments or docstrings compiles nothing. Code that no process has loaded for 30 days is
        removed, and so is a file that is damaged.
    Plain Python
        With ``NUMBA_DISABLE_JIT=1`` the decorator returns ``function`` itself, for a debugger or for a
        test that compares both, and indices are checked.

    Kernels are inlined into their callers: a call that passes a `NamedTuple` copies every array header in
    it. Machine code of its own is made of a kernel only where Python calls it. They are compiled without
    reference counts, which took nine tenths of a replay's time.
    """
    return _compile(function, inline=True)


def outlined(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that is not inlined: for large ones with many callers, to keep compilation short."""
    return _compile(function, inline=False)


def _compile(function: Callable[P, R], *, inline: bool) -> Callable[P, R]:
    options = {"_nrt": False, "error_model": "numpy", "forceinline": inline}
    compiled = numba.njit(function, **options)
    if not numba.config.DISABLE_JIT:
        compiled.compile = _with_cache(compiled)
        if inline:
            inner = _inlined(numba.njit(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options))
            compiled.get_call_template, compiled.get_overload = inner.get_call_template, inner.get_overload
    return cast("Callable[P, R]", compiled)


def _inlined(compiled: Any) -> Any:
    """A kernel for calls by other kernels: linked into them, without machine code of its own."""

    def only_typed(flags: Any) -> Any:
        flags.no_compile = True
        return flags

    def add_overload(result: Any) -> None:
        key = object()  # stands for the address of the code
        compiled.targetctx.insert_user_function(key, result.fndesc, [result.library])
        compiled.overloads[tuple(result.signature.args)] = result._replace(entry_point=key)

    compiled._compiler._customize_flags = only_typed
    compiled.add_overload = add_overload
    return compiled
