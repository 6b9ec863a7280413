from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_folder_of_code_is_packaged() -> None:
    # The list is explicit, as there are several top-level folders; this keeps it complete.
    top_level = ("ray_sim", "workloads", "cluster_specs", "benchmarks")
    folders = {path.parent for folder in top_level for path in (ROOT / folder).rglob("*.py")}
    names = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert names | {"ray_sim"} == set(PYPROJECT["tool"]["setuptools"]["packages"])


def test_the_lock_files_pin_by_hash_and_name_no_host() -> None:
    for name in ("requirements.lock", "requirements-bootstrap.lock"):
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


def test_the_command_and_the_plug_in_group_are_declared() -> None:
    entries = distribution("ray_sim").entry_points
    assert [entry.value for entry in entries if entry.name == "ray-sim"] == ["ray_sim.cli:main"]
    assert "ray_sim.policies" in PYPROJECT["project"]["entry-points"]
