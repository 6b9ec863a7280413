"""The files of the studies that the documentation reports: sound, and named there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from ray_sim.cli import main
from ray_sim.experiments.cluster_file import load_cluster
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.experiments.training_file import load_training_draws

STUDIES = Path(__file__).parents[2] / "docs" / "studies"
FILES = sorted(path.relative_to(STUDIES) for path in STUDIES.glob("*/*.yaml"))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The studies, each with its jobs; synthetic ones stand in for traces."""
    desk = tmp_path_factory.mktemp("studies") / "studies"
    shutil.copytree(STUDIES, desk)
    for study in (path for path in desk.iterdir() if path.is_dir()):
        for jobs in study.glob("*.csv"):
            assert main(["convert", "csv", str(jobs), "-o", str(jobs.with_suffix(".parquet"))]) == 0
        for trace in ("google", "philly", "week"):
            assert main(["synth", "philly", "-n", "50", "-o", str(study / f"{trace}.parquet")]) == 0
    return desk


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_of_a_study_is_sound(file: Path, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir((desk / file).parent)
    content = yaml.safe_load(Path(file.name).read_text(encoding="utf-8"))
    if "policies" in content:
        assert read_sweep(Path(file.name)).name == content["name"]
        page = (STUDIES / f"{file.parent}.md").read_text(encoding="utf-8")
        assert f"| `{file.name}` |" in page
    elif "servers" in content:
        assert load_cluster(Path(file.name)).name == content["name"]
    else:
        assert load_training_draws(Path(file.name)).name == content["name"]
