"""A wheel built from a checkout works outside of it, in an environment that has the dependencies."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.docs, pytest.mark.slow]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project, place = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("place")
    for name in ("ray_sim", "workloads", "cluster_specs"):
        shutil.copytree(REPOSITORY / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, project)
    pip = [sys.executable, "-m", "pip"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(place), str(project)]
    subprocess.run(build, check=True)
    [wheel] = place.glob("ray_sim-*.whl")
    fresh = place / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True)
    [packages] = fresh.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [*pip, "--python", str(fresh / "bin/python"), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--ignore-installed", str(wheel)], check=True)
    return fresh


def _ray_sim(environment: Path, folder: Path, arguments: str) -> str:
    command = [str(environment / "bin/ray-sim"), *shlex.split(arguments)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_code_is_the_wheels_own(environment: Path, tmp_path: Path) -> None:
    code = "import ray_sim, workloads, cluster_specs\n"
    code += "for each in ray_sim, workloads, cluster_specs: print(each.__file__)"
    python = [str(environment / "bin/python"), "-c", code]
    files = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    assert [file for file in files if not Path(file).is_relative_to(environment)] == []


def test_it_runs_the_bundled_sample_and_a_synthetic_workload(environment: Path, tmp_path: Path) -> None:
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert _ray_sim(environment, tmp_path, "--version") == f"ray-sim {version}\n"
    assert "edge-cloud" in _ray_sim(environment, tmp_path, "clusters")
    [sample] = environment.glob("lib/python*/site-packages/workloads/samples/philly_sample.csv")
    _ray_sim(environment, tmp_path, f"convert philly-csv '{sample}' -o sample.parquet")
    _ray_sim(environment, tmp_path, "synth philly -n 200 --seed 1 -o drawn.parquet")
    for workload, jobs in (("sample", "1,503"), ("drawn", "200")):
        run = f"run --workload {workload}.parquet --cluster edge-cloud --policy las -o runs/{workload}"
        assert re.search(rf"^completed +{jobs}$", _ray_sim(environment, tmp_path, run), re.MULTILINE)
