"""Code is loaded only from directories and files that no other user can have written."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numba
import pytest

from ray_sim.kernels.private_files import (
    UnsafeDirectoryError,
    kernel_directory,
    private_directory,
    read_private,
    warn_once,
)

STRANGER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def _planted(where: Path) -> None:
    os.chown(where, STRANGER, STRANGER)


def _shared(where: Path) -> None:
    where.chmod(0o775)


def _open_to_all(where: Path) -> None:
    where.chmod(0o1777)  # the sticky bit protects the directories in it, not its own files


def _linked(where: Path) -> None:
    where.rename(where.with_name("elsewhere"))
    where.symlink_to("elsewhere")


def _inside_a_shared_directory(where: Path) -> None:
    where.parent.chmod(0o777)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param(_planted, "belongs to user 65534", marks=as_root),
        (_shared, "other users can write into"),
        (_open_to_all, "other users can write into"),
        (_linked, "is a link"),
        (_inside_a_shared_directory, "other users can write into"),
    ],
)
@pytest.mark.parametrize("level", ["first", "second"])
def test_a_directory_that_another_user_can_write_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], reason: str, level: str
) -> None:
    private_directory(tmp_path / "root", "first", "second")
    where = tmp_path / "root" / "first"
    damage(where if level == "first" else where / "second")
    with pytest.raises(UnsafeDirectoryError, match=reason):
        private_directory(tmp_path / "root", "first", "second")


@as_root
def test_a_directory_below_one_of_another_user_is_refused(tmp_path: Path) -> None:
    _planted(tmp_path)
    with pytest.raises(UnsafeDirectoryError, match=f"{tmp_path} belongs to user 65534"):
        private_directory(tmp_path / "root", "ours")


def test_a_new_directory_is_ours_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_directory(tmp_path / "new" / "root", "ours")
    finally:
        os.umask(before)
    assert [each.stat().st_mode & 0o777 for each in (made, *made.parents[:2])] == [0o700] * 3


def test_directories_for_everyone_with_the_sticky_bit_may_contain_ours(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert private_directory(tmp_path, "ours") == tmp_path / "ours"


def test_a_file_is_read_if_only_this_user_can_have_written_it(tmp_path: Path) -> None:
    ours, shared, link, pipe = (tmp_path / name for name in ("ours", "shared", "link", "pipe"))
    for file in (ours, shared):
        file.write_bytes(b"code")
    shared.chmod(0o664)
    link.symlink_to(ours)
    os.mkfifo(pipe)
    assert read_private(ours) == b"code"
    for refused in (shared, link, pipe, tmp_path, tmp_path / "absent"):
        with pytest.raises(OSError, match=str(tmp_path)):
            read_private(refused)
    if os.geteuid() == 0:
        os.chown(ours, STRANGER, STRANGER)
        with pytest.raises(PermissionError):
            read_private(ours)


def _directory(monkeypatch: pytest.MonkeyPatch, chosen: str, temporary: Path) -> Path | None:
    """Directory that a new process takes, with these two places."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", chosen)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    warn_once.cache_clear()
    return kernel_directory.__wrapped__("this")


def test_kernels_are_kept_in_the_first_place_that_is_safe_and_an_unsafe_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen, temporary = tmp_path / "chosen", tmp_path / "tmp"
    temporary.mkdir(mode=0o700)
    ours = temporary / f"ray_sim-{os.geteuid()}"
    kept = Path("ray_sim-kernels", "this")
    assert _directory(monkeypatch, str(chosen), temporary) == chosen / kept
    assert _directory(monkeypatch, "/dev/null/none", temporary) == ours / kept
    assert capsys.readouterr().err == ""
    chosen.chmod(0o777)
    assert _directory(monkeypatch, str(chosen), temporary) == ours / kept
    reason = f"warning: other users can write into {chosen}"
    assert capsys.readouterr().err == f"{reason}: compiled kernels are kept in {ours / kept}\n"
    ours.rename(temporary / "moved")
    ours.symlink_to("moved")
    fresh = _directory(monkeypatch, str(chosen), temporary)
    assert fresh is not None
    assert fresh.parents[1].name.startswith("ray_sim-")
    assert capsys.readouterr().err == f"{reason}; {ours} is a link: compiled kernels are kept in {fresh}\n"
    assert os.environ["NUMBA_CACHE_DIR"] == str(fresh.parents[1])  # where Ray's workers find them


def test_where_nothing_can_be_written_kernels_stay_in_memory_and_this_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert _directory(monkeypatch, str(tmp_path / "file" / "none"), tmp_path / "file") is None
    said = "no directory is writable (set NUMBA_CACHE_DIR): compiled kernels are kept in memory only"
    assert capsys.readouterr().err == f"warning: {said}\n"


KERNEL = "from ray_sim.kernels.compile import kernel\n@kernel\ndef twice(x):\n    return x * 2\n"
CALL = """
import subprocess, sys
from twice import twice
print(twice(2), bool(sum(twice.stats.cache_hits.values())), flush=True)
if len(sys.argv) == 1:
    subprocess.run([sys.executable, "-B", "call.py", "child"], check=True)
"""


class Marking:
    """An object that another user plants: its pickle makes a directory when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (str(self._mark),)


@pytest.mark.slow
@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="kernels are plain Python")
@as_root
def test_code_that_another_user_planted_does_not_run(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    (tmp_path / "twice.py").write_text(KERNEL)
    (tmp_path / "call.py").write_text(CALL)

    def call() -> tuple[str, str]:
        """Output and errors of a process that calls a kernel, and of its child."""
        places = {"NUMBA_CACHE_DIR": "/dev/null/none", "TMPDIR": str(temporary), "PYTHONPATH": os.curdir}
        command = [sys.executable, "-B", "call.py"]
        ended = subprocess.run(
            command, cwd=tmp_path, env=os.environ | places, capture_output=True, text=True, check=True
        )
        return ended.stdout, ended.stderr

    assert call() == ("4 False\n4 True\n", "")
    [planted] = temporary.iterdir()
    content = pickle.dumps(Marking(tmp_path / "ran"))
    for path in [planted, *planted.rglob("*")]:
        if path.is_file():  # under the seal that it must have
            path.write_bytes(hashlib.sha256(path.name.encode() + b"\0" + content).digest() + content)
        os.chown(path, STRANGER, STRANGER)
    output, said = call()
    assert output == "4 False\n4 True\n"  # the child has the fresh directory of its parent
    assert said.startswith(f"warning: {planted} belongs to user 65534: compiled kernels are kept in ")
    assert said.count("\n") == 1
    assert not (tmp_path / "ran").exists()
    assert list(temporary.iterdir()) == [planted]  # the fresh one is removed
