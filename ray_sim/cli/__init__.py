"""The command line, `ray-sim`: one module for each command, named like it.

What is heavy is imported inside the commands, so that --help is quick.
"""

from __future__ import annotations

from ray_sim.cli.app import main

__all__ = ["main"]
