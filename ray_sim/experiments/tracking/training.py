"""Logging of trainings to MLflow, each once however often it is logged."""

from __future__ import annotations

from pathlib import Path

from ray_sim.experiments.results.training_files import CURVES, StoredTraining, read_training_directory
from ray_sim.experiments.tracking.experiment import DIRECTORY_TAG, Logged, MlflowExperiment
from ray_sim.experiments.tracking.records import curve_metrics, training_params

TRAININGS = "ray_sim trainings"
"""Experiment of trainings."""


def log_training(directory: Path) -> Logged:
    """Log a training: its curves by round, its parameters, and its files as artifacts.

    A training that is logged already is logged anew where it went on since.

    Raises
    ------
    InvalidInputError : the directory has no training, or a file has changed
    RunFailedError : the tracking store cannot be used
    """
    training = read_training_directory(directory)
    experiment = MlflowExperiment(TRAININGS, directory.absolute())
    with experiment.errors_named():
        _log(experiment, directory, training)
    return experiment.logged()


def _log(experiment: MlflowExperiment, directory: Path, training: StoredTraining) -> None:
    """Log a training, unless it is logged already as it is now."""
    facts = training.facts
    digests = facts["files"]
    assert isinstance(digests, dict)
    tags = {DIRECTORY_TAG: str(directory.absolute())}
    run_id = experiment.begin(str(digests[CURVES]), str(facts["name"]), "FINISHED", tags)
    if run_id is None:
        return
    experiment.log_metrics(run_id, curve_metrics(training.curves))
    experiment.client.log_batch(run_id, params=training_params(facts))
    for file in training.files:
        experiment.client.log_artifact(run_id, str(file))
    experiment.client.set_terminated(run_id, "FINISHED")
