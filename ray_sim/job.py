"""Commands as jobs on a Ray cluster.

`ray job submit --working-dir .` unpacks the project on the cluster and starts the job inside. `ray submit`
copies a script alone into the home directory of the head, where jobs/cluster.yaml has put the project.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ray_sim import cli

PROJECT = "ray_sim_project"
"""Folder of the project in the home directory, as jobs/cluster.yaml has it."""


def main(script: str, arguments: Sequence[str]) -> int:
    """Run a command of `ray-sim`; paths count from the project, however the job was started.

    Parameters
    ----------
    script : the file that was started
    """
    project = Path.home() / PROJECT
    if Path(script).absolute().parent == Path.home() and project.is_dir():
        os.chdir(project)
    return cli.main(list(arguments))
