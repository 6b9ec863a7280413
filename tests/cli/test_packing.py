"""`ray-sim packing`: a stream through convert, run and packing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ray_sim.cli import main

PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli
a,1000,1024,1,600
b,1000,1024,1,600
c,1000,1024,1,600
d,1000,1024,1,400
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four pods on two GPUs, in the order a, b, c, d; c finds no GPU with 0.6 free."""
    monkeypatch.chdir(tmp_path)
    Path("pods.csv").write_text(PODS)
    Path("c.yaml").write_text("name: two\nservers: [{name: s, gpus: 2, cpus: 64, memory_gib: 64}]\n")
    Path("orders.csv").write_text("pod_list,seed,what,order\nl,1,pods,0 1 2 3\nl,1,servers,0\n")
    Path("s.yaml").write_text(
        "workload: {path: w.parquet, stream: {order: orders.csv, seed: 1}}\ncluster: c.yaml\n"
        "params: {placement: best_fit, no_room: reject}\n"
    )
    assert main(["convert", "gpu-pods", "pods.csv", "-o", "w.parquet", "--keep-pending"]) == 0
    assert main(["run", "s.yaml", "-o", "run"]) == 0
    return Path("run")


def test_packing_prints_and_draws_the_curve_of_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["packing", str(run), "--json", "-o", "page.html"]) == 0
    curve = json.loads(capsys.readouterr().out)[str(run)]
    # 0.6, 1.2, 1.8 and 2.2 of 2 GPUs have come; 0.6, 1.2, 1.2 and 1.6 are in use.
    assert curve["load"] == list(range(111))
    assert curve["alloc"][45] is None
    assert [curve["alloc"][load] for load in (30, 60, 90, 110)] == [30, 60, 60, 80]
    # 0.6 GPU is asked for by 75 % and 0.4 by 25 %: of 0.4 and 0.4 free GPU 75 % are fragments, and of
    # 0.4 and 0 too; of 1 GPU and 0.4 all but 0.4 x 75 % serve.
    assert [round(curve["frag_of_idle"][load], 2) for load in (30, 60, 90, 110)] == [21.43, 75, 75, 75]
    assert "<svg" in Path("page.html").read_text()
    assert main(["packing", str(run)]) == 0
    assert "fragments, % of idle GPUs" in capsys.readouterr().out


def test_runs_without_fragments_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "s.yaml", "-p", "placement=first_fit", "-o", "plain"]) == 0
    assert main(["packing", "plain"]) == 2
    assert (
        "its timeline has no arrived_gpu; run it with a placement rule that scores" in capsys.readouterr().err
    )
