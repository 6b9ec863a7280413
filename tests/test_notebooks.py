"""Notebooks of the guide: valid, without outputs, with code that parses; and each runs from start to end."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import ray_sim as rs
from ray_sim import plots

REPOSITORY = Path(__file__).parents[1]
FOLDER = REPOSITORY / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))

LIMIT_S = 300
"""Limit on a cell on a busy machine; a whole notebook takes about a minute on an idle one."""

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


def _texts(notebook: Any) -> str:
    """Tables of all outputs as text, which tell for example why a sweep stopped."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(
        re.sub(r"<[^>]+>", " ", str(each.get("data", {}).get("text/html", ""))) for each in outputs
    )


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.docs
@each_notebook
def test_a_notebook_runs_from_start_to_end(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip(
        "nbformat", reason="nbformat is not installed: pip install 'ray_sim[notebook]'"
    )
    nbclient = pytest.importorskip(
        "nbclient", reason="nbclient is not installed: pip install 'ray_sim[notebook]'"
    )
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install 'ray_sim[notebook]'")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    work = tmp_path / "work"
    work.mkdir()
    client = nbclient.NotebookClient(
        notebook, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": str(work)}}
    )
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError as error:
        pytest.fail(f"{error}\noutputs before:\n{_texts(notebook)}")
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert any("image/png" in output.get("data", {}) for output in shown)
    assert [output for output in shown if output.output_type == "stream" and "Traceback" in output.text] == []
