"""Lists of servers by the section `nodes` of a mapping file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.conversion import convert_files
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.model.errors import InvalidInputError

MAP = """
nodes:
  file: n*.csv
  read: {separator: ";"}
  columns: {name: host, gpus: gpu, cpus: cores, memory_gib: mem_gb, gpu_type: model, vc: pool, count: n}
  units: {memory_gib: gb}
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs.csv").write_text("submit_s,duration_s,num_gpus\n0,1,1\n")
    Path("nodes.csv").write_text(
        "host;gpu;cores;mem_gb;model;pool;n\na;8;96;1024;A100;vision;2\nb;;32;128;;speech;\n;1;1;1;;;\nb;1;1;1;;;\n"
    )


def convert(mapping: str, *files: str, cluster: str | None = "c.yaml") -> tuple[str, ...]:
    Path("map.yaml").write_text(mapping)
    target = None if cluster is None else Path(cluster)
    report = convert_files("csv", list(files), Path("w.parquet"), mapping="map.yaml", cluster_out=target)
    return report.warnings


def test_servers_are_those_of_the_list_in_its_order() -> None:
    (warning,) = convert(MAP, "jobs.csv", "nodes.csv")
    assert warning.startswith("node list: 2 rows without a name and amounts, or of a node again")
    cluster = load_cluster("c.yaml")
    assert cluster.server_names == ("a-0", "a-1", "b")
    assert cluster.gpu_type == ("A100", "A100", None)
    assert cluster.vc == ("vision", "vision", "speech")
    gpus, cores, memory = (
        cluster.capacity[:, cluster.resources.index(name)] for name in ("gpu", "cpu", "memory_gib")
    )
    assert (gpus / gpus[0]).tolist() == [1, 1, 0]
    assert (cores / cores[0]).tolist() == [1, 1, 1 / 3]
    assert memory[2] / memory[0] == pytest.approx(1 / 8, abs=1e-6)


def test_what_is_wrong_with_the_section_or_the_files_is_told() -> None:
    with pytest.raises(
        InvalidInputError, match=r"nodes\.columns\.gpu: unknown column of a list of servers 'gpu'"
    ):
        convert(MAP.replace("gpus: gpu", "gpu: gpu"), "jobs.csv", "nodes.csv")
    with pytest.raises(InvalidInputError, match=r"nodes\.csv has no column 'hots'; did you mean 'host'"):
        convert(MAP.replace("name: host", "name: hots"), "jobs.csv", "nodes.csv")
    with pytest.raises(InvalidInputError, match="there is no list of servers to write a cluster of"):
        convert("columns: {}", "jobs.csv")
    with pytest.raises(InvalidInputError, match="all files are lists of servers"):
        convert(MAP, "nodes.csv")
