"""Code compiled by one process is used by the next if nothing that it was compiled from has changed."""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pytest

import ray_sim
from ray_sim.kernels.compile import _StoredCode, kernel
from ray_sim.kernels.content_digest import content_digest, types_digest
from tests.command_line import python

OURS = [f"kernels/{name}.py" for name in ("__init__", "compile", "content_digest", "private_files")]
KERNEL = "from ray_sim.kernels.compile import kernel\n@kernel\n"
CALLEE = "ray_sim/kernels/sub/rate.py"
BEFORE = {
    CALLEE: KERNEL + "def rate(x):\n    return x * 2\n",
    "ray_sim/kernels/other/use.py": "from ray_sim.kernels.sub.rate import rate\n"
    + KERNEL
    + "def use(x):\n    return rate(x)\n",
    "ray_sim/policies/mine/rules.py": KERNEL + "def rule(x):\n    return x * 2\n",
    "ray_sim/policies/mine/score.py": "from ray_sim.policies.mine.rules import rule\n"
    + KERNEL
    + "def score(x):\n    return rule(x)\n",
    "own_tools/deep.py": KERNEL + "def deep(x):\n    return x * 2\n",
    "own_limit.py": "FACTOR = 2\n",
    "own.py": "import own_limit\nfrom own_limit import FACTOR\nfrom own_tools import deep\n"
    + KERNEL
    + "def called(x):\n    return deep.deep(x)\n"
    + "@kernel\ndef limited(x):\n    return x * FACTOR\n"
    + "@kernel\ndef limited_by_module(x):\n    return x * own_limit.FACTOR\n",
    "own_late.py": KERNEL + "def late(x):\n    return x * 2\n",
    "own_same.py": KERNEL + "def same(x):\n    return x * 2\n",
    "one/rules.py": KERNEL + "def rule(x):\n    return x * 5\n",
    "two/rules.py": KERNEL + "def rule(x):\n    return x * 7\n",
}
IN_KERNELS = {
    "callee in a subfolder of kernels": "ray_sim.kernels.sub.rate:rate",
    "caller in another subfolder": "ray_sim.kernels.other.use:use",
}
EDITED = {
    path: text.replace("2", "3")
    for path, text in BEFORE.items()
    if not path.startswith("ray_sim/kernels") and path != "own_same.py"
}
"""The same files, sizes and lines, with another number."""

REST = {
    "not edited": 2,
    "without a module": 2,
    "namesake at one line, in one": 5,
    "namesake at one line, in two": 7,
}
"""What the other kernels answer to 1."""

CALLS = IN_KERNELS | {
    "the folder of a policy": "ray_sim.policies.mine.score:score",
    "the folder of a user": "own:called",
    "a constant by name": "own:limited",
    "a constant of a module": "own:limited_by_module",
    "edited between import and call": "own_late:late",
    "not edited": "own_same:same",
    "namesake at one line, in one": "one.rules:rule",
    "namesake at one line, in two": "two.rules:rule",
}
PROCESS = f"""
import importlib, json, pathlib, runpy
from ray_sim.kernels.compile import compiled_before
kernels = {{}}
for name, place in {CALLS!r}.items():
    module, _, function = place.partition(":")
    kernels[name] = getattr(importlib.import_module(module), function)
kernels["without a module"] = runpy.run_path("own_same.py")["same"]
pathlib.Path("own_late.py").write_text({EDITED["own_late.py"]!r})
before = compiled_before()
answers = {{name: compiled(1) for name, compiled in kernels.items()}}
loaded = [name for name, compiled in kernels.items() if sum(compiled.stats.cache_hits.values())]
assert compiled_before()
print(json.dumps([before, answers, loaded]))
"""


def _write(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def _start(folder: Path) -> None:
    """Write our modules and those of `BEFORE`, in a package `ray_sim` without the rest."""
    ours = Path(ray_sim.__file__).parent
    copies = {f"ray_sim/{path}": (ours / path).read_text() for path in OURS}
    _write(folder, {"ray_sim/__init__.py": ""} | copies | BEFORE)


def _in_a_process(folder: Path, cache: Path | None = None) -> tuple[bool, dict[str, int], list[str]]:
    """Whether kernels were compiled before, what each answers to 1, and which were loaded from disk."""
    places = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(cache or folder / "cache")}
    before, answers, loaded = json.loads(python("-B", "-c", PROCESS, cwd=folder, **places))
    return before, answers, loaded


compiled_only = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="kernels are plain Python")


@pytest.mark.slow
@compiled_only
def test_a_process_after_an_edit_computes_with_the_edited_code_and_loads_the_rest(tmp_path: Path) -> None:
    _start(tmp_path)
    before, answers, loaded = _in_a_process(tmp_path)
    assert (before, answers, loaded) == (False, dict.fromkeys(CALLS, 2) | REST, [])
    _write(tmp_path, EDITED)
    before, answers, loaded = _in_a_process(tmp_path)
    assert (before, answers) == (True, dict.fromkeys(CALLS, 3) | dict.fromkeys(IN_KERNELS, 2) | REST)
    assert loaded == [name for name in CALLS if name in IN_KERNELS or name in REST]
    _write(tmp_path, {CALLEE: BEFORE[CALLEE].replace("2", "3")})
    before, answers, loaded = _in_a_process(tmp_path)
    assert (before, answers) == (False, dict.fromkeys(CALLS, 3) | REST)
    assert loaded == [name for name in CALLS if name not in IN_KERNELS]


@pytest.mark.slow
@compiled_only
def test_processes_that_start_at_once_compile_each_kernel_once(tmp_path: Path) -> None:
    """Each has its own copy of the sources, as workers of Ray have."""
    copies = [tmp_path / name for name in "abc"]
    for copy in copies:
        _start(copy)
    with ThreadPoolExecutor(len(copies)) as pool:
        runs = list(pool.map(partial(_in_a_process, cache=tmp_path / "cache"), copies))
    for name in CALLS:
        assert sum(name in loaded for _, _, loaded in runs) == 2, name


@pytest.mark.slow
@compiled_only
def test_an_edit_of_comments_docstrings_and_blank_lines_compiles_nothing(tmp_path: Path) -> None:
    _start(tmp_path)
    _in_a_process(tmp_path)
    commented = {
        path: text.replace("@kernel", "# Twice.\n\n@kernel").replace("):\n", '):\n    """Double."""\n')
        for path, text in BEFORE.items()
    }
    _write(tmp_path, commented)
    before, answers, loaded = _in_a_process(tmp_path)
    assert not before  # the version is another
    assert answers == dict.fromkeys(CALLS, 2) | REST
    assert loaded == list(CALLS)


@pytest.mark.long
@compiled_only
def test_a_new_version_removes_what_was_not_opened_for_a_month(tmp_path: Path) -> None:
    _start(tmp_path)
    _in_a_process(tmp_path)
    (folder,) = (tmp_path / "cache" / "ray_sim-kernels").iterdir()
    other = folder.with_name("another Python")  # with another age, it would stay
    _write(other, {"heap.push-0123.py310.nbi": "", "heap.push-0123.py310.1.nbc": ""})
    month = 31 * 24 * 3600
    for path in [*folder.glob("own_same*"), *other.iterdir()]:
        state = path.stat()
        os.utime(path, (state.st_atime - month, state.st_mtime))
    _write(tmp_path, BEFORE | {CALLEE: "# Another version.\n" + BEFORE[CALLEE]})
    _, _, loaded = _in_a_process(tmp_path)
    assert loaded == [name for name in CALLS if name != "not edited"]
    assert not other.exists()


@pytest.fixture
def compiled() -> Any:
    """A kernel of one integer, compiled in this process."""

    def twice(x: int) -> int:
        return x * 2

    compiled = numba.njit(twice)
    compiled.compile((numba.int64,))
    return compiled


@pytest.fixture
def stored(compiled: Any, tmp_path: Path) -> Iterator[_StoredCode]:
    """Its stored code, which a process that finds none can store again at the end."""
    [(types, code)] = compiled.overloads.items()
    entry = _StoredCode(compiled, types, tmp_path)
    entry.save_overload(types, code)
    yield entry
    entry.save_overload(types, code)
    assert entry.load_overload(types, compiled.targetctx).entry_point(1) == 2


def _dropped(entry: _StoredCode, compiled: Any) -> bool:
    """Whether the file is removed and not loaded."""
    return entry.load_overload((numba.int64,), compiled.targetctx) is None and not entry.path.exists()


def _damages(content: bytes) -> Iterator[bytes]:
    """200 damaged copies: a bit, a part, the length, all of it."""
    random = Random(1)
    for _ in range(100):
        where = random.randrange(len(content))
        yield content[:where] + bytes([content[where] ^ 1 << random.randrange(8)]) + content[where + 1 :]
    for _ in range(40):
        where = random.randrange(len(content))
        yield content[:where]
        yield content[:where] + bytes(64) + content[where + 64 :]
    yield from (random.randbytes(random.randrange(len(content))) for _ in range(15))
    yield from (b"", content[32:], content + b"\0", pickle.dumps((1, 2)), bytes(32) + content[32:])


@pytest.mark.slow
@compiled_only
def test_damaged_code_is_dropped_unread(stored: _StoredCode, compiled: Any) -> None:
    content = stored.path.read_bytes()
    damaged = [each for each in _damages(content) if each != content]
    assert len(damaged) == 200
    for each in damaged:
        stored.path.write_bytes(each)
        assert _dropped(stored, compiled)


@compiled_only
def test_code_under_the_name_of_another_kernel_is_dropped(stored: _StoredCode, compiled: Any) -> None:
    stored.path = stored.path.replace(stored.path.with_name("another.kernel"))
    assert _dropped(stored, compiled)


@compiled_only
def test_code_with_types_that_are_not_here_is_dropped(stored: _StoredCode, compiled: Any) -> None:
    elsewhere = ModuleType("elsewhere")
    exec("class Group: pass", elsewhere.__dict__)  # noqa: S102  # a class of a version that this one has not
    sys.modules["elsewhere"] = elsewhere
    content = pickle.dumps((elsewhere.Group, None))
    del sys.modules["elsewhere"]
    stored.path.write_bytes(stored.seal(content) + content)
    assert _dropped(stored, compiled)


@compiled_only
def test_code_that_cannot_be_written_stays_in_memory_and_this_is_said_once(
    stored: _StoredCode, compiled: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a limit on the size of files, as on a full disk, and with a directory in the file's place."""
    [(types, code)] = compiled.overloads.items()
    folder, limits = stored.path.parent, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        for _ in range(2):
            stored.save_overload(types, code)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = f"warning: compiled kernels are not kept in {folder}: "
    assert capsys.readouterr().err == f"{said}File too large\n"
    assert list(folder.iterdir()) == [stored.path]  # no part of a file is left
    stored.path.unlink()
    stored.path.mkdir()
    assert stored.load_overload(types, compiled.targetctx) is None
    stored.save_overload(types, code)
    assert capsys.readouterr().err == f"{said}Is a directory\n"
    stored.path.rmdir()


CHECKOUT = """
from {module} import Pair
from own_head import head
first = head(Pair(1, 2))
print(first, bool(sum(head.stats.cache_hits.values())))
"""


def _checkout(folder: Path, module: str, fields: str) -> Path:
    """Sources with one kernel, and the class of its argument in a module of this name."""
    ours = Path(ray_sim.__file__).parent
    _write(folder, {f"ray_sim/{path}": (ours / path).read_text() for path in OURS})
    named = "".join(f"    {field}: int\n" for field in fields.split())
    _write(
        folder,
        {
            "own_head.py": KERNEL + "def head(x):\n    return x.first\n",
            f"{module}.py": f"from typing import NamedTuple\nclass Pair(NamedTuple):\n{named}",
            "call.py": CHECKOUT.format(module=module),
        },
    )
    return folder


def _called(folder: Path) -> str:
    """Call a checkout's kernel with (1, 2): its result, and whether it came from the common cache."""
    places = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder.parent / "cache")}
    return python("-B", "call.py", cwd=folder, **places).strip()


@pytest.mark.long
@compiled_only
def test_checkouts_that_differ_in_the_place_of_a_type_keep_each_others_code(tmp_path: Path) -> None:
    one = _checkout(tmp_path / "one", "old_place", "first second")
    two = _checkout(tmp_path / "two", "new_place", "first second")
    assert [_called(one), _called(two)] == ["1 False"] * 2
    assert [_called(one), _called(two), _called(one)] == ["1 True"] * 3


@pytest.mark.slow
@compiled_only
def test_a_class_with_other_fields_is_another_type(tmp_path: Path) -> None:
    one = _checkout(tmp_path / "one", "place", "first second")
    two = _checkout(tmp_path / "two", "place", "second first")
    assert [_called(one), _called(two)] == ["1 False", "2 False"]


@compiled_only
def test_the_digest_of_types_sees_classes_inside_tuples() -> None:
    values: list[tuple[Any, ...]] = [(Pair(1, 2),), (Turned(1, 2),), ((Pair(1, 2),),), ((Turned(1, 2),),)]
    values += [((Pair(1, 2), 1.0),), ((Turned(1, 2), 1.0),), (1, 2), (1, 2.0), (1,), (np.array([1]),)]
    digests = [types_digest(numba.typeof(value) for value in row) for row in values]
    assert len(set(digests)) == len(values)


def _digest(compiled: Any) -> str:
    return content_digest(compiled)


def _adding(limit: Any) -> Any:
    @kernel
    def f(x: int) -> Any:
        return x + limit

    return f


class Pair(NamedTuple):
    first: int
    second: int


class Turned(NamedTuple):
    second: int
    first: int


Turned.__qualname__ = "Pair"
UP, DOWN = (IntEnum("Level", names, module="levels") for names in ("LOW HIGH", "HIGH LOW"))


@compiled_only
def test_the_digest_sees_each_kind_of_constant_and_each_callee() -> None:
    constants = [
        *(1, 2, 1.0, True, None, "1"),
        *((1, 2), (1, (2,)), Pair(1, 2), Pair(2, 1), Pair, Turned, UP, DOWN),
        *(np.array([1, 2]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.int64, np.float64, np),
        *(_adding(1), _adding(2), _adding(_adding(1))),
    ]
    digests = [_digest(_adding(constant)) for constant in constants]
    assert len(set(digests)) == len(constants)
    assert digests == [_digest(_adding(constant)) for constant in constants]


@compiled_only
def test_the_digest_follows_kernels_that_call_each_other() -> None:
    def digest(step: int) -> str:
        @kernel
        def f(x: int) -> int:
            return g(x) if x else 0

        @kernel
        def g(x: int) -> int:
            return f(x - step)

        return _digest(f)

    assert digest(1) == digest(1) != digest(2)


@compiled_only
def test_the_digest_follows_modules_that_import_each_other() -> None:
    def digest(rate: int) -> str:
        one, two = ModuleType("one"), ModuleType("two")
        one.two, two.one, two.rate = two, one, rate  # type: ignore[attr-defined]

        @kernel
        def f(x: int) -> Any:
            return x * one.two.one.two.rate

        return _digest(f)

    assert digest(1) == digest(1) != digest(2)


@compiled_only
def test_a_kernel_that_writes_into_a_read_only_array_does_not_compile() -> None:
    @kernel
    def write(free: npt.NDArray[np.int64]) -> None:
        free[0] = 1

    free = np.zeros(1, dtype=np.int64)
    free.flags.writeable = False
    with pytest.raises(numba.TypingError, match="Cannot modify readonly array"):
        write(free)
