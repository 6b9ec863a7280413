"""Digests of the source code that can change a result: ray_sim's, and that of a user's policy."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import ray_sim
import workloads
from ray_sim.engine.contract import Policy
from ray_sim.model.errors import InvalidInputError, failure_text
from workloads.sources import require_regular

OUR_PACKAGES = {package.__name__: Path(str(package.__file__)).parent for package in (ray_sim, workloads)}

OUTSIDE = (
    *(f"ray_sim.{name}" for name in (
        "cli", "contract", "environments", "interface", "job", "learning", "plots", "progress", "reports",
    )),
    *(f"ray_sim.experiments.{name}" for name in (
        "arena", "axis", "capacity", "cluster_summary", "compare", "conversion", "explain", "fanout",
        "figures", "interference_samples", "offered_load",
        "policy_check", "real_delays", "rehearsal", "report", "results.result_directories",
        "results.snapshot_file", "results.store", "results.store_union",
        "results.stored_runs", "results.training_files", "run", "sweep", "sweep_entries", "sweep_file",
        "sweep_info", "sweep_results", "tracking", "utility_optimum", "view_summary", "workload_info",
    )),
    *(f"workloads.{name}" for name in (
        "convert", "describe", "formats", "sanity", "trace_format",
    )),
)  # fmt: skip
"""Packages and modules that runs cannot import: they read traces, start runs, or show and compare results.

A contract of import-linter in pyproject.toml has the same list, and fails for one that a run imports.
"""

_LONG = rb'"""(?:[^"\\]++|\\.|"(?!""))*+"""'
_TOKENS = re.compile(
    # Each alternative begins with one of four characters, so the search skips all others.
    rb"\n[ \t]*r?" + _LONG + rb"[ \t]*(?=\n)"  # a docstring
    rb"|\n[ \t]*(?:#[^\n]*)?(?=\n)"  # an empty line, or a comment alone in its line
    rb"|#[^\n]*"
    rb"|" + _LONG + rb"|'''(?:[^'\\]++|\\.|'(?!''))*+'''"
    rb'|"(?:[^"\\\n]++|\\.)*+"'
    rb"|'(?:[^'\\\n]++|\\.)*+'",
    re.DOTALL,
)

_TEXT = rb'f?"(?:[^"\\\n]++|\\.)*+"'
_TEXTS = _TEXT + rb"(?:\s++" + _TEXT + rb")*+"
_CLASS_TEXT = re.compile(
    rb"(\n    s(?:ummary|ection)(?:: ClassVar\[str\])? = )"
    rb"(?:" + _TEXT + rb"|\(\s*+" + _TEXTS + rb"\s*+\))(?=\n)"
)
"""`summary` or `section` of a policy or a kind of jobs."""

_PARAMETER_MEANING = re.compile(
    # Name, kind and default precede the meaning.
    rb'(Parameter\(\s*+"\w++",\s++"\w++",\s++(?:"[^"\n]*+"|[^"\n]+?),\s++)' + _TEXTS + rb"(?=\s*+[,)])"
)
_PARAMETER_SOURCE = re.compile(rb",\s++source=" + _TEXTS + rb"(?=\s*+[,)])")
"""`meaning` and `source` of a parameter."""


@cache
def code_sha256() -> str:
    """SHA-256 of ray_sim's modules that can change a result, without docstrings, comments and help texts."""
    return _sha256((f"{name}/{path}", without_prose(source)) for name, path, source in covered_sources())


def covered_sources() -> Iterator[tuple[str, str, bytes]]:
    """Yield package, path in it, and content of every module that a run can import, in order."""
    outside = tuple(f"{module}." for module in OUTSIDE)
    for name, folder in OUR_PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            inside = path.relative_to(folder)
            if not f"{'.'.join((name, *inside.with_suffix('').parts))}.".startswith(outside):
                yield name, inside.as_posix(), path.read_bytes()


def without_prose(source: bytes) -> bytes:
    """Python source in this project's format, without comments, empty lines, docstrings and help texts.

    A text in another format stays, so that a change of it counts. Fast and independent of Python's version,
    unlike a syntax tree.
    """
    code = _TOKENS.sub(_kept, b"\n" + source)
    described = _PARAMETER_MEANING.sub(rb'\1""', _CLASS_TEXT.sub(rb'\1""', code))
    return _PARAMETER_SOURCE.sub(b"", described)


def _kept(token: re.Match[bytes]) -> bytes:
    text = token[0]
    if text[:1] in (b'"', b"'"):
        return text
    start, docstring, _ = text.partition(b'"""')
    return start + b'""' if docstring and b"#" not in start else b""


def policy_sha256(policy: type) -> str | None:
    """SHA-256 of a user's policy: its module, and all that it imports from its folder, directly or not.

    None for a policy of ray_sim, which `code_sha256` covers.

    Raises
    ------
    InvalidInputError : the files have changed since this process imported them, so it would run other code
    """
    imported = imported_sha256(policy)
    if _policy_sha256(policy) != imported:
        raise InvalidInputError(
            f"policy {policy.__module__}:{policy.__qualname__}: its files have changed since this process "
            "imported them, and it would run the old code; restart the process (in a notebook: restart "
            "the kernel)"
        )
    return imported


@cache
def imported_sha256(policy: type) -> str | None:
    """The digest at its first computation in this process, right after the import."""
    return _policy_sha256(policy)


def _policy_sha256(policy: type) -> str | None:
    name = policy.__module__
    if name.partition(".")[0] in OUR_PACKAGES:
        return None
    file = getattr(sys.modules[name], "__file__", None)
    if file is None:
        return None
    path = Path(file)
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return _sha256(_own_sources(name, path).items())


def input_files(policy: Policy) -> dict[str, Path]:
    """Files of `Policy.input_files`, by their names there, in order.

    Raises
    ------
    InvalidInputError : the policy's method fails or returns something else
    """
    try:
        return {str(name): Path(path) for name, path in sorted(policy.input_files().items())}
    except Exception as error:  # of a user's class
        raise InvalidInputError(f"{_named(policy)}: input_files failed: {failure_text(error)}") from error


def input_files_sha256(policy: Policy) -> dict[str, str]:
    """SHA-256 of the contents of each of `input_files`.

    Raises
    ------
    InvalidInputError : a file cannot be read or is a device or a pipe, or as `input_files`
    """
    digests = {}
    for name, path in input_files(policy).items():
        require_regular(path, InvalidInputError)
        try:
            digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InvalidInputError(f"{_named(policy)}: {name}: {path}: cannot be read: {reason}") from error
    return digests


def _named(policy: Policy) -> str:
    return f"policy {policy.name or type(policy).__name__}"


def _own_sources(name: str, path: Path) -> Mapping[str, bytes]:
    """Source by module name: a module and all modules that it imports from its own folder."""
    depth = name.count(".") + (path.name == "__init__.py")
    folder = path.parents[depth]
    package = name.partition(".")[0] if folder in _INSTALLED else None
    sources: dict[str, bytes] = {}
    waiting = [name]
    while waiting:
        module = waiting.pop()
        top = module.partition(".")[0]
        if not module or module in sources or top in OUR_PACKAGES or package not in (None, top):
            continue
        found = _source_of(folder, module)
        if found is None:
            continue
        sources[module] = found.read_bytes()
        waiting.append(_parent(module))  # importing a module first runs its package
        waiting += _imported(sources[module], module if found.name == "__init__.py" else _parent(module))
    return sources


_INSTALLED = {Path(sysconfig.get_path(key)) for key in ("stdlib", "purelib", "platlib")}
"""Folders of installed packages, in which neighbouring modules belong to other projects."""


def _parent(module: str) -> str:
    return module.rpartition(".")[0]


def _source_of(folder: Path, module: str) -> Path | None:
    path = folder.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _imported(source: bytes, package: str) -> Iterator[str]:
    """Names in the import statements of a module of `package` that may be modules."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # syntax of another Python version; it cannot have been imported
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".") if package else []
            base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])
            base = base if node.level else node.module or ""
            yield base
            yield from (f"{base}.{alias.name}" if base else alias.name for alias in node.names)


def _sha256(sources: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 of names and contents, independent of their order."""
    digest = hashlib.sha256()
    for name, content in sorted(sources):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
