"""The command line, `ray-sim`: one module for each command, with the command's name.

Commands import heavy packages inside their functions, so that --help is fast.
"""

from __future__ import annotations

from ray_sim.cli.app import main, process

__all__ = ["main", "process"]
