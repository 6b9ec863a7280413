"""Files and folders of a user's own, named like packages that stand beside ray_sim."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.model.errors import InvalidInputError
from ray_sim.policies.registry import policy_class

REPOSITORY = Path(__file__).parents[1]
THEIRS = "def double(x):\n    return 2 * x\n"
POLICY = """
from ray_sim.policies.fifo import Fifo

class Mine(Fifo):
    name = "mine"
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with namesakes of all three packages: a file, a package and a folder of data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "workloads.py").write_text(THEIRS)
    (tmp_path / "cluster_specs").mkdir()
    (tmp_path / "cluster_specs" / "__init__.py").write_text(THEIRS)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "results.csv").write_text("x\n")
    return tmp_path


def python(
    *arguments: str, cwd: Path | None = None, path: str = str(REPOSITORY)
) -> subprocess.CompletedProcess[str]:
    """Python in a directory, the working one by default, which is first on the path, before the project."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )


@pytest.mark.slow
def test_a_script_beside_namesakes_simulates_with_our_packages(desk: Path) -> None:
    jobs = "submit_s,duration_s,num_gpus\n0,10,1\n0,20,1\n"
    (desk / "jobs.csv").write_text(jobs)
    (desk / "mine.py").write_text(POLICY)
    (desk / "main.py").write_text(
        "from ray_sim import cli, simulate\n"
        "assert cli.main('convert csv jobs.csv -o jobs.parquet'.split()) == 0\n"
        "print(simulate('jobs.parquet', 'toy', policy='mine:Mine').summary.completed)\n"
    )
    ended = python("main.py")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "2"
    options = ("--workload", "jobs.parquet", "--cluster", "toy", "--policy", "mine:Mine")
    run = python("-m", "ray_sim.cli", "run", *options)
    assert run.returncode == 0, run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("place", [".", "elsewhere"])
def test_our_packages_have_names_under_ray_sim_that_no_file_hides(place: str, desk: Path) -> None:
    (desk / "elsewhere").mkdir()
    script = desk / place / "main.py"
    script.write_text(
        "from ray_sim.workloads.formats.tables import mapping\n"
        "import ray_sim.workloads, ray_sim.cluster_specs, workloads.formats.tables.mapping\n"
        "assert workloads.formats.tables.mapping is mapping and not hasattr(mapping, '__path__')\n"
        "assert ray_sim.workloads is workloads and workloads.__spec__.name == 'workloads'\n"
        "for each in ray_sim.workloads, ray_sim.cluster_specs: print(each.__path__[0])\n"
    )
    ended = python(str(script), path=f"{desk}{os.pathsep}{REPOSITORY}")
    assert ended.stderr == ""
    assert ended.stdout.splitlines() == [str(REPOSITORY / name) for name in ("workloads", "cluster_specs")]


@pytest.mark.parametrize("name", ["workloads", "cluster_specs"])
def test_our_packages_win_over_a_folder_without_code(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "jobs.csv").write_text("x\n")
    ended = python("-c", f"import {name}, ray_sim.{name} as ours; assert {name} is ours", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_a_module_that_ours_lack_is_named(desk: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'workloads\.nothing'"):
        importlib.import_module("ray_sim.workloads.nothing")


@pytest.mark.parametrize("name", ["workloads", "cluster_specs"])
def test_a_namesake_that_was_imported_before_is_named(name: str, desk: Path) -> None:
    file = {"workloads": "workloads.py", "cluster_specs": "cluster_specs"}[name]
    ended = python("-c", f"import {name}, ray_sim.{name}")
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {desk / file} was imported as '{name}'")
    assert "rename it" in last


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("from workloads import double", "workloads.py"),
        ("import workloads; workloads.double(1)", "workloads.py"),
        ("import cluster_specs.mine", "cluster_specs"),
    ],
)
def test_a_policy_that_means_a_namesake_is_told_which_file_is_hidden(
    line: str, file: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (desk / "helped.py").write_text(f"{line}\n{POLICY}")
    assert main(["run", "--workload", "none.parquet", "--cluster", "toy", "--policy", "helped:Mine"]) == 2
    printed = capsys.readouterr().err
    assert f"{desk / file} is hidden by a package of ray_sim with that name: rename it" in printed
    assert printed.count("\n") == 1


def test_a_policy_in_a_namesake_is_refused_with_its_file(desk: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"imported; .*/workloads\.py is hidden by a package"):
        policy_class("workloads:Mine")


def test_an_error_in_a_policy_says_nothing_of_namesakes_that_it_does_not_use(desk: Path) -> None:
    (desk / "unlucky.py").write_text("import workloads_of_mine\n")
    with pytest.raises(InvalidInputError) as refused:
        policy_class("unlucky:Mine")
    assert "hidden" not in str(refused.value)


def test_the_working_directory_comes_first_for_a_policy_and_last_after_it(desk: Path) -> None:
    # A file named like a module that a library has yet to import must not be imported instead of it.
    (desk / "first_on_path.py").write_text(f"import sys\nfirst = sys.path[0]\n{POLICY}")
    policy = policy_class("first_on_path:Mine")
    assert sys.modules[policy.__module__].first == str(desk)
    assert sys.path[-1] == str(desk)
    assert sys.path.count(str(desk)) == 1


@pytest.mark.slow
def test_the_benchmarks_of_the_checkout_are_found_from_any_folder(desk: Path) -> None:
    (desk / "benchmarks" / "__init__.py").write_text(THEIRS)
    ended = python("-m", "ray_sim.cli", "bench", "--list", "--json")
    assert "replay" in {each["name"] for each in json.loads(ended.stdout)}
