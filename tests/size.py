"""Print the size of the project beside its budgets, and fail where one is exceeded: `make size`, in CI.

Python of the product is that of `PRODUCT`, of tests that of tests/; words are those of README and docs
without decisions. The import chain is the longest path of modules of the product, each of which imports the
next when it is imported. A budget is raised only by the change that needs it, which says so in its message.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("ray_sim", "workloads", "cluster_specs", "jobs", "benchmarks")
SHORT = 40

BUDGETS = {
    "lines of Python": 98_000,
    "files of Python": 640,
    f"files under {SHORT} lines": 82,
    "modules in the longest import chain": 26,
    "lines of tests": 82_300,
    "words of docs outside decisions": 105_500,
}


def tracked(*patterns: str) -> list[str]:
    """Names of files under version control, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def lines(names: list[str]) -> list[int]:
    """Number of lines of each file."""
    return [(ROOT / name).read_bytes().count(b"\n") for name in names]


def words(names: list[str]) -> int:
    """Number of words of all files together."""
    return sum(len((ROOT / name).read_text().split()) for name in names)


def imported_by(tree: ast.Module) -> Iterator[str]:
    """Names of what a module may import when it is imported: not in functions, not for type checkers only."""
    stack: list[ast.stmt] = list(tree.body)
    while stack:
        match stack.pop():
            case ast.Import(names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{each.name}" for each in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=rest):
                stack += rest
            case ast.ClassDef(body=body) | ast.With(body=body):
                stack += body
            case ast.If(body=body, orelse=rest) | ast.Try(body=body, orelse=rest):
                stack += [*body, *rest]


def longest_chain(names: list[str]) -> list[str]:
    """The longest path of imports among these files, as module names."""
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in names}
    imports = {
        module: {each for each in imported_by(ast.parse((ROOT / name).read_text())) if each in modules}
        for module, name in modules.items()
    }

    @cache
    def chain(module: str) -> list[str]:
        return [module, *max((chain(each) for each in imports[module] - {module}), key=len, default=())]

    return max((chain(module) for module in modules), key=len)


def sizes() -> dict[str, int]:
    """Each size under the name of its budget."""
    product = tracked(*(f"{folder}/*.py" for folder in PRODUCT))
    counted = lines(product)
    docs = [name for name in tracked("docs/*.md", "README.md") if not name.startswith("docs/decisions/")]
    found = (
        sum(counted),
        len(product),
        sum(count < SHORT for count in counted),
        len(longest_chain(product)),
        sum(lines(tracked("tests/*.py"))),
        words(docs),
    )
    return dict(zip(BUDGETS, found, strict=True))


def main() -> int:
    """Print a line for each size; 1 if one exceeds its budget."""
    found = sizes()
    for name, size in found.items():
        verdict = "  too many" if size > BUDGETS[name] else ""
        sys.stdout.write(f"{name:36} {size:8,} of {BUDGETS[name]:8,}{verdict}\n")
    return int(any(size > BUDGETS[name] for name, size in found.items()))


if __name__ == "__main__":
    sys.exit(main())
