"""Code of users beside ours."""

from __future__ import annotations

import os

import pytest

from ray_sim.user_code import contained


def test_what_a_users_code_prints_is_no_output_of_ours(capfd: pytest.CaptureFixture[str]) -> None:
    with contained("policy mine"):
        os.write(1, b"by a library\n")
        print("by Python")  # noqa: T201  # what is tested
    os.write(1, b"a result\n")
    printed = capfd.readouterr()
    assert (printed.out, sorted(printed.err.splitlines())) == ("a result\n", ["by Python", "by a library"])
