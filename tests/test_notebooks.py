"""Notebooks of the guide: valid, without outputs, with code that parses. tests/test_site.py has them run."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

import ray_sim as rs
from ray_sim import plots

REPOSITORY = Path(__file__).parents[1]
FOLDER = REPOSITORY / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text())
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = content["cells"]
    return found


def sources(path: Path) -> list[str]:
    """Code of each cell, without those that write a file."""
    code = ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code"]
    return [source for source in code if not source.startswith("%%writefile ")]


@each_notebook
def test_a_notebook_is_committed_without_outputs_and_its_code_parses(path: Path) -> None:
    names = [cell["id"] for cell in cells(path)]
    assert len(set(names)) == len(names)
    for cell in cells(path):
        assert cell["cell_type"] in ("code", "markdown")
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    for source in sources(path):
        ast.parse(source)
    for cell in cells(path):
        text = "".join(cell["source"])
        if text.startswith("%%writefile ") and text.split()[1].endswith(".py"):
            ast.parse(text.partition("\n")[2])


@each_notebook
def test_every_name_of_the_interface_in_a_notebook_exists(path: Path) -> None:
    code = "\n".join(sources(path))
    assert [name for name in re.findall(r"\brs\.(\w+)", code) if name not in rs.__all__] == []
    assert [name for name in re.findall(r"\brs\.plots\.(\w+)", code) if name not in plots.__all__] == []


@each_notebook
def test_a_notebook_is_on_the_page_of_notebooks(path: Path) -> None:
    assert f"(notebooks/{path.name})" in (REPOSITORY / "docs" / "notebooks.md").read_text()
