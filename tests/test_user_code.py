"""Code of users: what it prints is no output of ours, and the process is afterwards as before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ray_sim.user_code import contained


def test_what_a_users_code_prints_is_no_output_of_ours(capfd: pytest.CaptureFixture[str]) -> None:
    with contained("policy mine"):
        os.write(1, b"by a library\n")
        print("by Python")  # noqa: T201  # what is tested
    os.write(1, b"a result\n")
    printed = capfd.readouterr()
    assert (printed.out, sorted(printed.err.splitlines())) == ("a result\n", ["by Python", "by a library"])


@pytest.mark.filterwarnings("ignore:policy mine. changed the working directory")
def test_a_users_code_changes_neither_directory_nor_umask_and_ends_no_process(tmp_path: Path) -> None:
    before, mask = Path.cwd(), os.umask(0o022)
    with contained("policy mine"):
        os.chdir(tmp_path)
        os.umask(0o777)
        with pytest.raises(SystemExit, match=r"os\._exit\(3\) would end the process"):
            os._exit(3)
    assert (Path.cwd(), os.umask(mask)) == (before, 0o022)
