from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_folder_of_code_is_packaged() -> None:
    # setuptools finds packages by their __init__.py; a folder without one would be left out.
    folders = {
        path.parent
        for name in ("ray_sim", "workloads", "cluster_specs")
        for path in (ROOT / name).rglob("*.py")
    }
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_lock_files_pin_by_hash_and_name_no_host() -> None:
    for name in ("requirements.lock", "requirements-bootstrap.lock", "requirements-docs.lock"):
        text = (ROOT / name).read_text()
        assert "//" not in text
        assert "--index-url" not in text
        pins = re.findall(r"^\S+==\S+.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        assert pins
        assert [pin for pin in pins if "--hash=sha256:" not in pin] == []


def test_the_lock_holds_every_dependency() -> None:
    project = PYPROJECT["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    locked = set(
        re.findall(r"^([\w.-]+)(?:\[\w+\])?==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    assert [name for name in (re.split(r"[>=\[]", want)[0] for want in wanted) if name not in locked] == []


def _pins(name: str) -> set[tuple[str, str]]:
    """Packages of a lock file with their versions."""
    return set(re.findall(r"^([\w.-]+)(?:\[\w+\])?==(\S+)", (ROOT / name).read_text(), re.MULTILINE))


def test_the_lock_of_the_site_holds_its_extra_and_fits_beside_the_other() -> None:
    wanted = PYPROJECT["project"]["optional-dependencies"]["docs"]
    site, all_others = _pins("requirements-docs.lock"), _pins("requirements.lock")
    assert {re.split(r"[>=\[]", want)[0] for want in wanted} <= {name for name, _ in site}
    shared = {name for name, _ in site} & {name for name, _ in all_others}
    assert {pin for pin in site if pin[0] in shared} <= all_others


def test_the_command_and_the_plug_in_group_are_declared() -> None:
    entries = distribution("ray_sim").entry_points
    assert [entry.value for entry in entries if entry.name == "ray-sim"] == ["ray_sim.cli:process"]
    assert "ray_sim.policies" in PYPROJECT["project"]["entry-points"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel of this checkout installs, in a folder beside another package's `benchmarks`."""
    project, built = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("built")
    for name in ("ray_sim", "workloads", "cluster_specs", "benchmarks"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(built)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=project, check=True, capture_output=True)
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(site)
    return site


@pytest.mark.slow
def test_the_wheel_holds_the_packages_with_their_data_and_no_benchmarks(installed: Path) -> None:
    folders = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert folders == {"ray_sim", "workloads", "cluster_specs"}
    for folder in folders:
        committed = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
        wanted = {path for path in committed if "__pycache__" not in path.parts}
        found = {path.relative_to(installed) for path in (installed / folder).rglob("*") if path.is_file()}
        assert found == wanted


@pytest.mark.slow
def test_a_wheel_wins_over_a_folder_of_its_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "ray_sim").symlink_to(ROOT)
    code = "import ray_sim, ray_sim.workloads as ours; print(ray_sim.__file__, ours.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert found == [str(installed / name / "__init__.py") for name in ("ray_sim", "workloads")]


@pytest.mark.slow
def test_an_installed_package_says_where_benchmarks_are(installed: Path, tmp_path: Path) -> None:
    (installed / "benchmarks").mkdir()
    (installed / "benchmarks" / "__init__.py").write_text("raise RuntimeError('of another package')")
    ended = subprocess.run(
        [sys.executable, "-m", "ray_sim.cli", "bench", "--list"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr == (
        "error: benchmarks come with a checkout of the project, not with an installed package: clone its "
        "repository and run `make bench` there\n"
    )
