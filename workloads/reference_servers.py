"""Jobs on the reference servers of their training profile: how fast they train, and whether they fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ray_sim.model.job import TrainingProfile
from ray_sim.model.step_time import pd_ors_sample_s
from ray_sim.model.units import BoolArray, FloatArray, IntArray, capacity_quanta
from workloads.bundles import Bundles, bundle_rates, reasons_against
from workloads.job_profiles import job_profiles, role_demand
from workloads.training_draws import TrainingDraws


def bundles_of(frame: pl.DataFrame, resources: Sequence[str]) -> Bundles:
    """What the jobs of a frame ask for."""
    return Bundles(
        frame["num_workers"].to_numpy(),
        frame["num_ps"].to_numpy(),
        role_demand(frame, "worker", resources),
        role_demand(frame, "ps", resources),
    )


def reference_rates(frame: pl.DataFrame, draws: TrainingDraws) -> FloatArray:
    """(J,) samples per second of each bundle on the fewest reference servers.

    Run time = epochs x samples / rate: an enrichment solves it for the samples, who draws jobs for the time.

    Parameters
    ----------
    frame : all that a step time needs, and whatever is known of `samples`
    """
    resources = tuple(draws.reference_server)
    training = _training(frame.with_columns(samples=0.0), resources)
    return bundle_rates(training, bundles_of(frame, resources), _capacity(draws))


def reasons_against_reference(frame: pl.DataFrame, draws: TrainingDraws) -> dict[str, BoolArray]:
    """Jobs whose bundle fits on no number of reference servers, by the first reason that applies.

    None, if the profile has no reference server, as its jobs demand nothing then.
    """
    if not draws.reference_server:
        return {}
    bundles = bundles_of(frame, tuple(draws.reference_server))
    return reasons_against(bundles, _capacity(draws)[None, :], endless=True)


def shortest_s(frame: pl.DataFrame) -> FloatArray:
    """(J,) seconds that each job takes alone on one server with as many workers as its batch has samples.

    That is V theta^i / F in the terms of PD-ORS.
    """
    training = _training(frame, ())
    sample_s = pd_ors_sample_s(training, np.arange(frame.height), internal=True)
    seconds: FloatArray = training.work * sample_s / training.batch
    return seconds


def any_of(reasons: dict[str, BoolArray], jobs: int) -> BoolArray:
    """Jobs that some reason applies to."""
    return np.asarray(np.logical_or.reduce([np.zeros(jobs, np.bool_), *reasons.values()]))


def _capacity(draws: TrainingDraws) -> IntArray:
    """(R,) quanta of a reference server."""
    amounts = draws.reference_server.items()
    return np.array([int(capacity_quanta(amount, name)) for name, amount in amounts], dtype=np.int64)


def _training(frame: pl.DataFrame, resources: Sequence[str]) -> TrainingProfile:
    training = job_profiles(frame, resources).training
    assert training is not None, "a profile with samples has all that a step time needs"
    return training
