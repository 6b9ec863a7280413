"""A working directory for the commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from workloads.store import write_workload
from workloads.synthetic.synth import synth


@pytest.fixture(scope="session")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workload of 30 jobs."""
    path = tmp_path_factory.mktemp("week") / "week.parquet"
    write_workload(*synth("philly", 30, seed=1, load_scale=0.05), path)
    return path


@pytest.fixture
def desk(week: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a workload of 30 jobs and a cluster of 8 GPUs."""
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(week, tmp_path / "week.parquet")
    (tmp_path / "small.yaml").write_text("name: small\nservers:\n  - {name: gpu, count: 2, gpus: 4}\n")
    return tmp_path
