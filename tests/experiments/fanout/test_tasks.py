"""What is said of a task that failed."""

from __future__ import annotations

import pytest

from ray_sim.experiments.fanout.tasks import in_a_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("no room", "no room"),
        ("\n  The task failed:\n\n  no room \n  node 3\n", "no room"),
        ("Traceback (most recent call last):\n  File 'a.py'\nValueError: no room\n", "ValueError: no room"),
        ("The task failed:", "ValueError"),
        ("", "ValueError"),
    ],
)
def test_the_reason_of_an_error_fits_a_line(text: str, line: str) -> None:
    assert in_a_line(ValueError(text)) == line
