"""Pages of the notebooks: executed when the site is built, with what each cell shows."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CELL_LIMIT_S = 300
"""Limit on a cell on a busy machine; a whole notebook takes about a minute on an idle one."""

_JUPYTER_FOLDERS = ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")


def notebook_files(path: Path) -> dict[str, str | bytes]:
    """Markdown page of a notebook with its outputs, and the pictures on it, by name.

    Raises
    ------
    nbclient.exceptions.CellExecutionError : a cell fails
    """
    pictures: dict[str, str | bytes] = {}
    title, *rest = (part for cell in executed(path).cells for part in _cell(cell, path.stem, pictures))
    heading, _, text = title.partition("\n")
    origin = f"Run from `docs/notebooks/{path.name}` when this site was built."
    return {f"{path.stem}.md": "\n\n".join([heading, origin, text.strip(), *rest, ""]), **pictures}


def executed(path: Path) -> Any:
    """The notebook with outputs, executed in a folder of its own."""
    import nbclient
    import nbformat

    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # ships no types
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "work")
        work.mkdir()
        own = {name: str(Path(folder, name)) for name in _JUPYTER_FOLDERS}
        kept = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        client = nbclient.NotebookClient(
            notebook,
            timeout=CELL_LIMIT_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(work)}},
        )
        client.execute(env={**kept, **own})
    return notebook


def _cell(cell: Any, page: str, pictures: dict[str, str | bytes]) -> Iterator[str]:
    """Parts of the page for one cell; its pictures are added to those of the page."""
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield f"```python\n{cell.source}\n```"
    for output in cell.outputs:
        data = output.get("data", {})
        if "text/html" in data:
            yield f'<div class="output">{data["text/html"]}</div>'
        elif "image/png" in data:
            name = f"{page}_{len(pictures)}.png"
            pictures[name] = base64.b64decode(data["image/png"])
            yield f"![Picture drawn by the cell above]({name})"
        else:
            yield f"```text\n{output.get('text', data.get('text/plain', '')).rstrip()}\n```"
