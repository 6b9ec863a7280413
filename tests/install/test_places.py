"""Python finds ray_sim wherever it is started, also beside a clone: a folder named ray_sim without code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPOSITORY
from workloads.store import write_workload
from workloads.synthetic.synth import synth

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
SCRIPT = str(Path(sys.executable).with_name("ray-sim"))


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """The folder that contains the clone, which has the name of the package."""
    (tmp_path / "ray_sim").symlink_to(REPOSITORY)
    return tmp_path


def _output(folder: Path, *command: str) -> str:
    ended = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("place", [".", "ray_sim", "ray_sim/docs", "elsewhere"])
def test_python_finds_the_package_and_not_the_folder_of_the_clone(place: str, parent: Path) -> None:
    (parent / "elsewhere").mkdir()
    code = "import ray_sim, workloads, cluster_specs\n"
    code += "for each in ray_sim, workloads, cluster_specs: print(each.__file__)"
    found = _output(parent / place, sys.executable, "-c", code).splitlines()
    packages = ("ray_sim", "workloads", "cluster_specs")
    assert found == [str(REPOSITORY / name / "__init__.py") for name in packages]


def test_the_command_and_the_module_start_beside_the_clone(parent: Path) -> None:
    script = _output(parent, SCRIPT, "--version")
    assert script == _output(parent, sys.executable, "-m", "ray_sim.cli", "--version")
    assert script.startswith("ray-sim ")


@pytest.mark.slow
def test_the_readmes_example_runs_when_it_is_saved_beside_the_clone(parent: Path) -> None:
    write_workload(*synth("philly", 30, seed=1, load_scale=0.05), parent / "philly.parquet")
    readme = (REPOSITORY / "README.md").read_text()
    example = re.search(r"```python\n(from ray_sim import simulate\n.*?)```", readme, re.DOTALL)
    assert example is not None
    (parent / "example.py").write_text(example[1])
    assert "job_id" in _output(parent, sys.executable, "example.py")


@pytest.mark.long
@pytest.mark.ray
def test_the_workers_of_a_sweep_that_is_started_beside_the_clone_find_the_package(parent: Path) -> None:
    workload = {"synth": {"profile": "philly", "jobs": 20}}
    content = {
        "name": "tiny",
        "workloads": [workload],
        "clusters": ["edge-cloud"],
        "policies": ["fifo"],
        "seeds": [1, 2],
    }
    (parent / "sweep.yaml").write_text(yaml.safe_dump(content))
    assert "2 of 2" in _output(
        parent, sys.executable, "-m", "ray_sim.cli", "sweep", "sweep.yaml", "-o", "results"
    )
