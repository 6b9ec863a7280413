"""All systems on one workload file: only the world, the cluster's needs and the policy differ."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.experiments.run import simulate
from ray_sim.experiments.scenario import Value
from tests.proofs import quick_first
from workloads.store import write_workload
from workloads.synthetic.synth import synth

RIGID: Mapping[str, Value] = {"truth": "rigid"}
ELASTIC: Mapping[str, Value] = {"truth": "placement", "slot_s": 600.0}
SLOTTED: Mapping[str, Value] = {"truth": "pd_ors", "slot_s": 600.0, "horizon_s": 200_000.0}
CHUNKED: Mapping[str, Value] = {"truth": "a_online", "slot_s": 600.0}
ANNOUNCED: Mapping[str, Value] = {
    "truth": "announced",
    "slot_s": 600.0,
    "horizon_s": 1_000_000.0,
    "clip_statements": True,
}
DISTURBED: Mapping[str, Value] = {"truth": "placement", "slot_s": 1200.0, "interference": "harmony_types"}

WORLDS: dict[str, Mapping[str, Value]] = {
    **dict.fromkeys(("fifo", "sjf", "las"), RIGID),
    **dict.fromkeys(("optimus", "drf", "tetris", "dorm"), ELASTIC),
    **dict.fromkeys(("pd_ors", "oasis"), SLOTTED),
    **dict.fromkeys(("a_online", "chunk_fifo"), CHUNKED),
    **dict.fromkeys(("posted_price", "value_density"), ANNOUNCED),
    **dict.fromkeys(("harmony", "lif_quad"), DISTURBED),
}


@pytest.fixture(scope="module")
def workload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty jobs, enriched once."""
    return enriched("philly", tmp_path_factory.mktemp("common"))


def enriched(profile: str, folder: Path) -> Path:
    """A folder with twenty jobs and the servers to run them."""
    frame, made = synth(profile, 20, seed=2)
    write_workload(frame, made, folder / "jobs.parquet")
    line = [
        "enrich",
        str(folder / "jobs.parquet"),
        "-o",
        str(folder / "common.parquet"),
        "--profile",
        "common",
    ]
    assert main([*line, "--seed", "1"]) == 0
    servers = "{name: s, count: 8, gpus: 8, cpus: 72, memory_gib: 192, sockets: 2}"
    (folder / "servers.yaml").write_text(f"name: servers\nservers: [{servers}]\n")
    return folder


@pytest.mark.parametrize("policy", quick_first(WORLDS, 3))
def test_every_system_runs_the_same_file(workload: Path, policy: str) -> None:
    runs_all(workload, policy)


@pytest.mark.parametrize("policy", quick_first(["fifo", "optimus", "pd_ors"]))
def test_jobs_like_googles_run_the_same_way(policy: str, tmp_path: Path) -> None:
    runs_all(enriched("google", tmp_path), policy)


def runs_all(workload: Path, policy: str) -> None:
    """Run the folder's jobs; some complete."""
    result = simulate(
        str(workload / "common.parquet"), str(workload / "servers.yaml"), policy, world=dict(WORLDS[policy])
    )
    assert result.summary.jobs == 20
    assert result.summary.completed > 0
