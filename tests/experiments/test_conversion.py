"""A cluster that is written is the cluster that is read again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ray_sim.cli import main
from ray_sim.experiments.conversion import availability_path, write_cluster
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.model.cluster import Availability, Cluster, ServerKind
from ray_sim.model.errors import InvalidClusterError, InvalidInputError
from tests.command_line import complaint

MACHINES = Cluster(
    name="m: 1",
    server_names=("4155527081", '6, the "second"'),
    resources=("gpu", "cpu_norm", "memory_norm"),
    capacity=np.array([[0, 500_000, 249_300], [0, 1_000_000, 30_850]]),
    speed=np.ones(2),
    vc=(None, None),
    kind=(ServerKind.PLAIN,) * 2,
    gpu_type=(None, None),
)
CHANGES = Availability(
    time_us=np.array([700_000_001, 900_000_000]), server=np.array([1, 0]), up=np.array([False, True])
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    write_cluster(replace(MACHINES, availability=CHANGES), path)
    found = load_cluster(path)
    assert (found.name, found.server_names) == (MACHINES.name, MACHINES.server_names)
    assert found.resources == MACHINES.resources
    assert found.capacity.tolist() == MACHINES.capacity.tolist()
    assert found.availability is not None
    for name in ("time_us", "server", "up"):
        assert getattr(found.availability, name).tolist() == getattr(CHANGES, name).tolist()


def test_servers_that_are_always_there_need_no_table(tmp_path: Path) -> None:
    write_cluster(MACHINES, tmp_path / "c.yaml")
    assert load_cluster(tmp_path / "c.yaml").availability is None
    assert not availability_path(tmp_path / "c.yaml").exists()


def test_a_table_is_looked_up_beside_the_file_that_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    file = folder / "c.yaml"
    file.write_text("name: c\navailability: t.csv\nservers: [{name: a, gpus: 1}]\n")
    with pytest.raises(InvalidClusterError, match=r"sub/t\.csv: cannot be read"):
        load_cluster(file)
    (folder / "t.csv").write_text("time_s,server,event\n5,a,fail\n")
    found = load_cluster(file).availability
    assert found is not None
    assert found.time_us.tolist() == [5_000_000]


def test_a_cluster_is_written_as_yaml(tmp_path: Path) -> None:
    for path in (tmp_path / "c.csv", tmp_path / "none" / "c.yaml"):
        with pytest.raises(InvalidInputError, match=r"ends in \.yaml|does not exist"):
            write_cluster(MACHINES, path)


EVENTS = """0,,7,0,5,0,u,2,9,0.4,0.1,0,0
0,,7,0,5,1,u,2,9,0.4,0.1,0,0
601000000,,7,1,,0,u,2,9,0.4,0.1,0,0
602000000,,7,1,5,1,u,2,9,0.4,0.1,0,0
612000000,,7,1,5,4,u,2,9,0.4,0.1,0,0
700000000,,7,0,5,4,u,2,9,0.4,0.1,0,0
"""


@pytest.mark.slow
def test_a_trace_is_converted_described_and_replayed_on_its_own_machines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for table, text in (("task_events", EVENTS), ("machine_events", "0,5,0,p,0.5,0.5\n")):
        Path(table).mkdir()
        Path(table, "part-00000-of-00001.csv").write_text(text)

    def told(*words: str) -> Any:
        assert main([*words, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    converted = told("convert", "google-2011", ".", "-o", "w.parquet", "--cluster-out", "c.yaml")
    described = told("info", "w.parquet", "-c", "c.yaml")
    run = ("run", "--workload", "w.parquet", "--cluster", "c.yaml", "--policy", "fifo")
    plain, promised = (told(*run, "-w", f"overcommit={x}", "-o", f"run{x}") for x in ("1", "1.6"))
    assert converted["kept"] == 2
    # The first task does 0.4 x 601 s by the second submission, on 0.5 of a machine.
    load = described["load"]["whole"]["resources"]["cpu_norm"]["offered_load"]
    assert load == pytest.approx(0.4 / 0.5)
    # One task fits into 0.5: the second waits from 601 to 700. Into 0.8 two fit.
    assert plain["summary"]["jct_s"]["mean"] == (700 + 109) / 2
    assert promised["summary"]["jct_s"]["mean"] == (700 + 10) / 2
    # Their job is done when both are.
    assert plain["summary"]["group_jct_s"]["mean"] == 710
    assert json.loads(Path("run1.6", "manifest.json").read_text())["world"] == {"overcommit": "1.6"}


def test_a_cluster_is_not_asked_of_a_format_that_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.csv").write_text("submit_s,duration_s,num_gpus\n0,1,1\n")
    assert "does not take the option 'cluster'" in complaint(
        capsys, "convert", "philly-csv", "w.csv", "-o", "w.parquet", "--cluster-out", "c.yaml"
    )
    assert "Did you mean 'cut'?" in complaint(
        capsys, "convert", "csv", "w.csv", "-o", "w.parquet", "--censored", "ct"
    )
