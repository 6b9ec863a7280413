"""Draw small faults in random files of the product, and count those that the nearest quick tests find.

    python -m tests.mutants --seed 1 --count 10

The nearest tests of ray_sim/a/b.py are tests/a/test_b.py and the tests below tests/a that import it; else
those of the modules through which it is reached, and then those of tests/a, or of the folder above it.
Each fault is one change of `CHANGES` at a place drawn from all files, in a copy of the tree. It is killed if
a test fails or hangs within `LIMIT_CPU_S`. Bounds in annotations are places too: pydantic and typer apply
them. Not in CI: a run takes minutes.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.size import ROOT, imported_by, tracked

FOLDERS = ("ray_sim", "workloads")
CHANGES: dict[type[ast.AST], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.And: "or",
    ast.Or: "and",
}
"""Text in place of an operator; a `not` goes, and a whole number grows by one."""

LIMIT_CPU_S = 30
"""Of processor time, since wall time depends on what else the machine does."""
HANGS = "hang"
NO_TESTS = 5
QUICK = "not slow and not long and not ray and not docs"


class Mutant(NamedTuple):
    """One changed text: bytes ``begin`` to ``end`` of the file become ``new``."""

    file: str
    line: int
    begin: int
    end: int
    old: str
    new: str


def mutants_of(file: str) -> Iterator[Mutant]:
    """Every mutant of a file, in the order of its syntax tree."""
    source = (ROOT / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, begin: int, end: int, new: str) -> Mutant:
        return Mutant(file, line, begin, end, source[begin:end].decode(), new)

    def between(left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[Mutant]:
        begin = starts[(left.end_lineno or 1) - 1] + (left.end_col_offset or 0)
        end = starts[right.lineno - 1] + right.col_offset
        gap, new = source[begin:end].decode(), CHANGES.get(type(operator))
        word = gap.replace("(", " ").replace(")", " ").split()
        if new is not None and len(word) == 1:
            place = begin + len(gap[: gap.index(word[0])].encode())
            yield at(left.end_lineno or 1, place, place + len(word[0]), new)

    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=operators, comparators=right):
                for a, operator, b in zip([left, *right], operators, right, strict=False):
                    yield from between(a, b, operator)
            case ast.BinOp(left=left_side, op=operator_, right=right_side):
                yield from between(left_side, right_side, operator_)
            case ast.BoolOp(op=joined, values=values):
                yield from between(values[0], values[1], joined)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                begin = starts[node.lineno - 1] + node.col_offset
                yield at(node.lineno, begin, starts[operand.lineno - 1] + operand.col_offset, "")
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                begin = starts[node.lineno - 1] + node.col_offset
                yield at(
                    node.lineno, begin, starts[node.lineno - 1] + (node.end_col_offset or 0), str(value + 1)
                )


def mirrored(file: str) -> str:
    """Where the tests of a file of the product stand, if it has any of its own."""
    inside = Path(file.removeprefix("ray_sim/"))
    return str(Path("tests", inside.parent, f"test_{inside.stem}.py"))


@cache
def importers(folder: str) -> dict[str, set[str]]:
    """For each module that files of the folder import: these files."""
    found: dict[str, set[str]] = {}
    for name in tracked(f"{folder}/*.py"):
        for module in imported_by(ast.parse((ROOT / name).read_text())):
            found.setdefault(module, set()).add(name)
    return found


def importing(file: str, *folders: str) -> set[str]:
    """Files of these folders that import a file."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return {name for folder in folders for name in importers(folder).get(module, ())}


def nearest_tests(file: str) -> list[str]:
    """Test files of the same name or that import the file; else of what imports it, then of its folder."""
    home = Path(mirrored(file))
    using = importing(file, "tests")
    tests = {name for name in using if home.parent in Path(name).parents and "/test_" in name}
    ring, seen = {file}, {file}
    while ring and not (tests := tests | {name for name in map(mirrored, ring) if (ROOT / name).is_file()}):
        ring = {name for each in ring for name in importing(each, *FOLDERS)} - seen
        seen |= ring
    above = set(home.parents)
    shared = {name: len(above & set(Path(name).parents)) for name in tests}
    found = sorted(tests, key=lambda name: (Path(name) != home, -shared[name], name))
    if str(home) in tests:
        return found
    beside: list[str] = []
    for folder in list(home.parents)[: -2 if found else None]:  # tests/ itself only for want of others
        beside = beside or [name for name in tracked(f"{folder}/test_*.py") if Path(name).parent == folder]
    return [*found, *(name for name in beside if name not in found)]


@cache
def failing_test(file: str, tree: Path, change: Mutant | None) -> str | None:
    """The first of the quick tests near a file that fails, or ``HANGS``; `None` if all pass.

    What is compiled runs as plain Python, for which a mutant needs no minute of compilation.
    """
    pytest = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "-m", QUICK]
    environment = {**os.environ, "PYTHONPATH": str(tree), "RAY_SIM_PROOFS": "few"}
    environment.setdefault("RAY_SIM_SHARED", str(ROOT.parent / "shared"))
    target = tree / file
    source = target.read_bytes()
    environment |= {"NUMBA_DISABLE_JIT": "1"} if b"@kernel" in source else {}
    if change is not None:
        target.write_bytes(source[: change.begin] + change.new.encode() + source[change.end :])
    ended = subprocess.run(
        [*pytest, *nearest_tests(file)],
        cwd=tree, env=environment, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU_S, LIMIT_CPU_S + 5)),
    )  # fmt: skip
    target.write_bytes(source)
    if ended.returncode == -signal.SIGXCPU:
        return HANGS
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, re.MULTILINE)
    return None if ended.returncode in (0, NO_TESTS) else named[1] if named else f"exit {ended.returncode}"


def killer(mutant: Mutant, tree: Path) -> str | None:
    """The quick test near the file that fails with the mutant, or ``HANGS`` if it does not end only then."""
    failed = failing_test(mutant.file, tree, mutant)
    return None if failed == HANGS and failing_test(mutant.file, tree, None) == HANGS else failed


def main() -> None:
    """Print a line for each mutant, then how many are killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    every = [each for name in tracked(*(f"{folder}/*.py" for folder in FOLDERS)) for each in mutants_of(name)]
    drawn = random.Random(options.seed).sample(every, options.count)
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in tracked():
            copy = Path(folder, name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy)
        for each in drawn:
            found = killer(each, Path(folder))
            killed += found is not None
            verdict = f"killed by {found}" if found else "SURVIVED"
            sys.stdout.write(f"{each.file}:{each.line}  {each.old!r} -> {each.new!r}  {verdict}\n")
            sys.stdout.flush()
    sys.stdout.write(f"seed {options.seed}: {killed} of {options.count} killed, of {len(every):,} places\n")


if __name__ == "__main__":
    main()
