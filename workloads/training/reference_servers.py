"""Training rates and feasibility of jobs on the reference servers of their training profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.step_time import least_placement_sample_s, pd_ors_sample_s
from ray_sim.model.training_progress import Form
from ray_sim.model.units import BoolArray, FloatArray, IntArray, capacity_quanta
from workloads.job_profiles import job_profiles, role_demand
from workloads.training.bundles import JobBundles, bundle_rates, infeasible_bundles
from workloads.training.profile import TrainingDraws


def bundles_of(frame: pl.DataFrame, resources: Sequence[str]) -> JobBundles:
    """Requested bundles of the jobs of a frame."""
    return JobBundles(
        frame["num_workers"].to_numpy(),
        frame["num_ps"].to_numpy(),
        role_demand(frame, "worker", resources),
        role_demand(frame, "ps", resources),
    )


def reference_rates(frame: pl.DataFrame, draws: TrainingDraws) -> FloatArray:
    """(J,) samples per second of each bundle on the fewest reference servers.

    Run time = epochs x samples / rate. Enrichment solves this for the samples, a draw of whole jobs for the
    run time.

    Parameters
    ----------
    frame : all columns that a step time needs; `samples` may be null
    """
    resources = tuple(draws.reference_server)
    training = _training(frame.with_columns(samples=0.0), resources)
    return bundle_rates(training, bundles_of(frame, resources), _capacity(draws))


def infeasible_on_reference(frame: pl.DataFrame, draws: TrainingDraws) -> dict[str, BoolArray]:
    """Jobs whose bundle fits on no number of reference servers, by the first reason that applies.

    None, if the profile has no reference server, as its jobs demand nothing then.
    """
    if not draws.reference_server:
        return {}
    bundles = bundles_of(frame, tuple(draws.reference_server))
    return infeasible_bundles(bundles, _capacity(draws)[None, :], endless=True)


def shortest_s(frame: pl.DataFrame, truth: Form, speed: float = 1.0) -> FloatArray:
    """(J,) least seconds that each job takes alone, with as many workers as its batch has samples at most.

    With the truth ``pd_ors`` this is V theta^i / F in the symbols of the paper, on one server. For
    ``placement``, and for all_reduce jobs, which have no such form, see `least_placement_sample_s`.

    Parameters
    ----------
    speed : speed of the fastest server, > 0; divides the training time
    """
    training = _training(frame, ())
    training = replace(training, sample_s=training.sample_s / speed)
    jobs = np.arange(frame.height)
    sample_s = least_placement_sample_s(training, jobs)
    if truth == "pd_ors":
        of_paper = pd_ors_sample_s(training, jobs, internal=True) / training.batch
        sample_s = np.where(training.exchange == Exchange.ALL_REDUCE, sample_s, of_paper)
    seconds: FloatArray = training.work * sample_s
    return seconds


def any_reason(reasons: dict[str, BoolArray], jobs: int) -> BoolArray:
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
