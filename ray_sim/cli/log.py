"""`ray-sim log`: log stored results to MLflow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ray_sim.cli.options import Json


def log(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of a run, a sweep or a training.")
    ],
    json_output: Json = False,
) -> None:
    """Log stored results to MLflow; results that are logged already are not logged again.

    Example: ray-sim log results/demo
    """
    from ray_sim.cli.console import print_json, print_rows
    from ray_sim.experiments.result_files import MANIFEST
    from ray_sim.experiments.tracking import log_run, log_store
    from ray_sim.experiments.training_files import TRAINING
    from ray_sim.experiments.training_tracking import log_training

    if (directory / TRAINING).exists():
        logged = log_training(directory)
    else:
        logged = log_run(directory) if (directory / MANIFEST).exists() else log_store(directory)
    if json_output:
        print_json(logged.to_dict())
    else:
        shown = {label: value for label, value in logged.to_dict().items() if label != "damaged"}
        print_rows((label, value) for label, value in shown.items() if value is not None)
    for problem in logged.damaged:
        sys.stderr.write(f"error: {problem}; run it again with ray-sim sweep --resume\n")
    if logged.damaged:
        raise typer.Exit(1)
