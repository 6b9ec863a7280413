"""Upload delays by pair in CSV files: what they say, and how their mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.experiments.inputs.server_files import read_delays
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.model.cluster import ChunkDelay
from ray_sim.model.errors import InvalidClusterError


def written(folder: Path, text: str) -> Path:
    path = folder / "delays.csv"
    path.write_text(text)
    return path


def test_an_empty_cell_is_the_shared_value_and_an_empty_name_no_name(tmp_path: Path) -> None:
    path = written(
        tmp_path, "model,server_class,upload_s,processing_factor\nvgg,far,7200,1.5\n,far,60,\nvgg,near,,2\n"
    )
    assert read_delays(path) == (
        ChunkDelay("", "far", 60.0, 1.0),
        ChunkDelay("vgg", "far", 7200.0, 1.5),
        ChunkDelay("vgg", "near", None, 2.0),
    )


def test_every_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "model,server_class,upload_s,processing_factor\na,x,-1,1\na,y,1,0\nb,x,1,1\nb,x,2,1\nc,x,one,1\nc,y,nan,1\n",
    )
    with pytest.raises(InvalidClusterError) as failure:
        read_delays(path)
    text = str(failure.value)
    for line, column in ((2, "upload_s"), (3, "processing_factor"), (6, "upload_s"), (7, "upload_s")):
        assert f"line {line}, {column}: must be" in text
    assert "line 5, the pair 'b', 'x' has a line already" in text
    assert "5 problems" in text


def test_a_column_that_is_missing_or_unknown_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidClusterError) as failure:
        read_delays(written(tmp_path, "model,delay_s\na,1\n"))
    assert "line 1: column 'server_class' is missing" in str(failure.value)
    assert "line 1: unknown column 'delay_s'; known: model, server_class, upload_s" in str(failure.value)


def test_the_table_and_the_classes_of_servers_are_part_of_the_identity(tmp_path: Path) -> None:
    table = written(tmp_path, "model,server_class,upload_s\n,,60\n")
    cluster = tmp_path / "one.csv"
    cluster.write_text("name,gpus\ns,1\n")
    plain, with_it = (
        HashedInputs().cluster_sha256(str(cluster), world) for world in ({}, {"delays": str(table)})
    )
    cluster.write_text("name,gpus,server_class\ns,1,far\n")
    assert HashedInputs().cluster_sha256(str(cluster), {}) == plain != with_it
    assert HashedInputs().cluster_sha256(str(cluster), {"delays": str(table)}) not in (plain, with_it)
    written(tmp_path, "model,server_class,upload_s\n,,61\n")
    cluster.write_text("name,gpus\ns,1\n")
    assert HashedInputs().cluster_sha256(str(cluster), {"delays": str(table)}) not in (plain, with_it)
