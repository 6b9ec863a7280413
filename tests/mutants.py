"""Draw small faults in random files of the product, and count those that the nearest quick tests find.

    python -m tests.mutants --seed 1 --count 10

The nearest tests of ray_sim/a/b.py are tests/a/test_b.py, else those of the folder tests/a, else of the
folder above it. Each fault is one change of `CHANGES` at a place drawn from all files, in a copy of the
tree; it is killed if a test fails or hangs. Not in CI: a run takes minutes.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.size import ROOT, tracked

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

HANGS_AFTER_S = 300
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


def nearest_tests(file: str) -> list[str]:
    """Test files of the same name, else those of the nearest folder that has any."""
    inside = Path(*Path(file).parts[1:]) if file.startswith("ray_sim/") else Path(file)
    tests = tracked("tests/*.py")
    named = f"test_{inside.stem}.py"
    same = [name for name in tests if Path(name) == Path("tests", inside.parent, named)]
    same = same or [name for name in tests if Path(name).name == named]
    folder = inside.parent
    while not same:
        same = [name for name in tests if Path(name).parent == Path("tests", folder) and "/test_" in name]
        folder = folder.parent
    return same


def is_killed(mutant: Mutant, tree: Path) -> bool:
    """Whether a quick test near the file fails or hangs with the mutant."""
    target = tree / mutant.file
    source = target.read_bytes()
    target.write_bytes(source[: mutant.begin] + mutant.new.encode() + source[mutant.end :])
    pytest = [sys.executable, "-P", "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "-m", QUICK]
    environment = {**os.environ, "PYTHONPATH": str(tree), "RAY_SIM_PROOFS": "few"}
    environment.setdefault("RAY_SIM_SHARED", str(ROOT.parent / "shared"))
    try:
        ended = subprocess.run(
            [*pytest, *nearest_tests(mutant.file)],
            cwd=tree, env=environment, capture_output=True, timeout=HANGS_AFTER_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    finally:
        target.write_bytes(source)
    return ended.returncode == 1 or ended.returncode == 2  # a test failed, or a module cannot be imported


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
            found = is_killed(each, Path(folder))
            killed += found
            verdict = "killed  " if found else "SURVIVED"
            sys.stdout.write(f"{verdict} {each.file}:{each.line}  {each.old!r} -> {each.new!r}\n")
            sys.stdout.flush()
    sys.stdout.write(f"seed {options.seed}: {killed} of {options.count} killed, of {len(every):,} places\n")


if __name__ == "__main__":
    main()
