"""The container file, as far as a file can be checked that no engine has built."""

from __future__ import annotations

import re
import subprocess
import tomllib

from tests.conftest import REPOSITORY


def _instructions() -> list[tuple[str, str]]:
    """Instructions of the container file, in order, with continued lines joined."""
    text = re.sub(r"^#.*\n", "", (REPOSITORY / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", "", text).splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line]


def test_it_starts_from_debian_12_and_names_no_other_host() -> None:
    instructions = _instructions()
    assert instructions[0] == ("FROM", "debian:12")
    known = {"FROM", "RUN", "ENV", "COPY", "USER", "WORKDIR", "ENTRYPOINT"}
    assert {name for name, _ in instructions} <= known
    assert "://" not in (REPOSITORY / "Containerfile").read_text()


def test_its_shell_commands_parse() -> None:
    for name, command in _instructions():
        if name == "RUN":
            subprocess.run(["sh", "-n"], input=command, text=True, check=True)


def test_it_installs_the_locked_packages_by_hash_and_all_packaged_folders() -> None:
    instructions = _instructions()
    copied = [words.split()[:-1] for name, words in instructions if name == "COPY"]
    sources = {source for each in copied for source in each}
    assert [source for source in sources if not (REPOSITORY / source).exists()] == []
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    packaged = {name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packaged | {"requirements.lock", "pyproject.toml"} <= sources
    installs = [command for name, command in instructions if name == "RUN" and "pip install" in command]
    assert "--require-hashes -r /tmp/build/requirements.lock" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]
    assert re.search(r"^setuptools==", (REPOSITORY / "requirements.lock").read_text(), re.MULTILINE)


def test_it_runs_as_a_user_without_rights() -> None:
    names = [name for name, _ in _instructions()]
    [user] = [rest for name, rest in _instructions() if name == "USER"]
    assert user == "ray_sim"
    assert "RUN" not in names[names.index("USER") :]
    assert any(f"--uid 1000 --create-home {user}" in rest for name, rest in _instructions() if name == "RUN")
