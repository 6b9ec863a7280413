"""`ray-sim log`: log stored results to MLflow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from ray_sim.cli.console import print_json, print_rows, progress, say
from ray_sim.cli.options import Json

if TYPE_CHECKING:
    from ray_sim.experiments.tracking.experiment import Logged
    from ray_sim.progress import Report


def log(
    directories: Annotated[
        list[Path], Argument(metavar="DIR...", help="Directory of a run or a training, or those of sweeps.")
    ],
    experiment: Annotated[
        str | None,
        Option(metavar="NAME", help="Experiment of the sweeps; needed for several [name of the sweep]."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Log stored results to MLflow; results that are logged already are not logged again.

    Several sweeps stand side by side in one experiment.

    Example: ray-sim log results/monday results/tuesday --experiment week
    """
    with progress("log, runs", quiet=json_output) as report:
        logged = _log(directories, experiment, report)
    if json_output:
        print_json(logged.to_dict())
    else:
        hidden = {"damaged", "other_versions"}
        shown = {label: value for label, value in logged.to_dict().items() if label not in hidden}
        print_rows((label, value) for label, value in shown.items() if value is not None)
    for versions in logged.other_versions:
        say(f"warning: logged results are of other versions: {versions}")
    for problem in logged.damaged:
        sys.stderr.write(f"error: {problem}; run it again with ray-sim sweep --resume\n")
    if logged.damaged:
        raise Exit(1)


def _log(directories: list[Path], experiment: str | None, report: Report) -> Logged:
    """Log a run, a training or sweeps, by what the first directory has."""
    from ray_sim.experiments.results.result_files import MANIFEST
    from ray_sim.experiments.results.training_files import TRAINING
    from ray_sim.experiments.tracking.log import log_run, log_stores, log_training

    first = directories[0]
    if len(directories) == 1 and experiment is None:
        if (first / TRAINING).exists():
            return log_training(first)
        if (first / MANIFEST).exists():
            return log_run(first)
    return log_stores(directories, experiment, report)
