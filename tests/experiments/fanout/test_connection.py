"""A Ray that a sweep starts is closed to the other users of the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.slow]

IN_RAY = """
from pathlib import Path
from ray_sim.experiments.fanout.connection import cluster
with cluster("local"):
    from ray._private.worker import _global_node
    session = Path(_global_node.get_session_dir_path())
    place = session.parents[1]
    mode, sockets = oct(place.stat().st_mode & 0o777), len(list((session / "sockets").iterdir()))
    [metrics] = [path.read_text() for path in session.glob("metrics_export_port_*")]
print(place.parent, mode, sockets, metrics, place.exists())
"""


def test_no_other_user_reaches_its_directories_nor_its_metrics_of_tasks(tmp_path: Path) -> None:
    """Ray makes its own directories writable for everyone, so they stand in one that is not."""
    place = os.environ.get("RAY_TMPDIR", tempfile.gettempdir())
    command = [sys.executable, "-c", IN_RAY]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [place, "0o700", "2", "-1", "False"]  # -1: no port for metrics
