"""Load cluster files from text, and the messages that refuse them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidClusterError


def load_text(folder: Path, text: str | bytes, file_name: str = "c.yaml") -> Cluster:
    path = folder / file_name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_cluster(path)


def problems(folder: Path, text: str | bytes, file_name: str = "c.yaml") -> list[str]:
    """The lines after the first, which names the file and counts them."""
    with pytest.raises(InvalidClusterError) as caught:
        load_text(folder, text, file_name)
    first, *rest = str(caught.value).splitlines()
    assert first == f"{folder / file_name}: {len(rest)} problem{'s' if len(rest) != 1 else ''}"
    return [line.removeprefix("  ") for line in rest]


def refusal(folder: Path, text: str | bytes, file_name: str = "c.yaml") -> str:
    """What is wrong with a file as a whole, after its path."""
    with pytest.raises(InvalidClusterError) as caught:
        load_text(folder, text, file_name)
    return str(caught.value).removeprefix(f"{folder / file_name}: ")
