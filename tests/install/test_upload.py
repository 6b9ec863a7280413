"""Secrets that lie in the project's folder are not sent to a cluster with it."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml
from ray._private.runtime_env.packaging import create_package

from tests.conftest import REPOSITORY

SECRETS = (
    *(
        ".env",
        ".env.local",
        ".envrc",
        "prod/.env",
        ".netrc",
        ".pgpass",
        ".pypirc",
        ".npmrc",
        ".git-credentials",
    ),
    *(
        ".ssh/config",
        "home/.ssh/known",
        ".aws/credentials",
        ".azure/token",
        ".kube/config",
        ".docker/config.json",
    ),
    *("id_rsa", "keys/id_ed25519", "id_ed25519.pub", "id_ecdsa", "server.key", "certificates/server.pem"),
    *(
        "kubeconfig",
        "kubeconfig.yaml",
        "team.kubeconfig",
        "store.p12",
        "win.ppk",
        ".ray/auth_token",
        ".s3cfg",
    ),
    *("credentials.json", "service-account-1.json", ".gnupg/secring", ".config/gcloud/credentials.db"),
)
SENT = ("study.yaml", "mine.py", "jobs/sweep.py", "ray_sim/model/key.py", "environment.yaml")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project's folder with secrets."""
    folder = tmp_path / "project"
    for name in (*SECRETS, *SENT):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("content")
    for name in (".gitignore", ".rayignore"):
        shutil.copyfile(REPOSITORY / name, folder / name)
    return folder


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_submitted_job_sends_no_secrets(project: Path, tmp_path: Path) -> None:
    package = tmp_path / "package.zip"
    create_package(str(project), package, include_gitignore=True)
    names = zipfile.ZipFile(package).namelist()
    sent = {name for name in names if not name.endswith("/")}
    assert sent == {*SENT, ".gitignore", ".rayignore"}


def _excluded() -> list[str]:
    launcher = yaml.safe_load((REPOSITORY / "jobs" / "cluster.yaml").read_text())
    return [str(pattern) for pattern in launcher["rsync_exclude"]]


def test_the_launcher_sends_no_secrets(project: Path, tmp_path: Path) -> None:
    if shutil.which("rsync") is None:
        pytest.skip("no rsync (Debian: rsync)")
    options = [option for pattern in _excluded() for option in ("--exclude", pattern)]  # as Ray does
    subprocess.run(["rsync", "-a", *options, f"{project}/", str(tmp_path / "there")], check=True)
    assert _files(tmp_path / "there") == {*SENT, ".gitignore", ".rayignore"}


def test_the_launcher_and_jobs_leave_out_the_same_secrets() -> None:
    lines = (REPOSITORY / ".rayignore").read_text().splitlines()
    secrets = lines[
        lines.index("# Secrets stay at home too; rsync_exclude of jobs/cluster.yaml has the same names.") :
    ]
    assert [pattern for pattern in secrets if not pattern.startswith("#")] == _excluded()[-len(secrets) + 1 :]
