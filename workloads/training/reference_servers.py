"""Training rate, feasibility and shortest training time of jobs.

The rate and the feasibility refer to the reference servers of the training profile, `shortest_s` to one job
alone. The readers and generators of workloads call this module. J is the number of jobs, R of resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from ray_sim.model.job import Exchange, TrainingProfile
from ray_sim.model.step_time import least_placement_sample_s, pd_ors_sample_s
from ray_sim.model.training_progress import Form
from ray_sim.model.units import BoolArray, FloatArray, IntArray, capacity_quanta
from workloads.job_profiles import job_profiles, role_demand
from workloads.training.bundles import (
    JobBundles,
    apart_rates,
    bundle_rates,
    fewest_servers,
    infeasible_bundles,
    spread_rates,
)
from workloads.training.profile import TrainingDraws


def bundles_of(frame: pl.DataFrame, resources: Sequence[str]) -> JobBundles:
    """Requested bundles of the J jobs of a frame: workers, parameter servers and the demand of each.

    Parameters
    ----------
    frame : with `num_workers`, `num_ps` and the demand of both roles
    resources : R names; they set the order of the demand's columns
    """
    return JobBundles(
        frame["num_workers"].to_numpy(),
        frame["num_ps"].to_numpy(),
        role_demand(frame, "worker", resources),
        role_demand(frame, "ps", resources),
    )


def reference_rates(frame: pl.DataFrame, draws: TrainingDraws) -> FloatArray:
    """(J,) samples per second of each bundle, placed on as few reference servers as possible.

    Run time = epochs x samples / rate. Enrichment knows the run time and computes `samples`; a draw of whole
    jobs knows `samples` and computes the run time.

    Parameters
    ----------
    frame : all columns that a step time needs; `samples` may be null
    """
    resources = tuple(draws.reference_server)
    training = _training(frame.with_columns(samples=0.0), resources)
    return bundle_rates(training, bundles_of(frame, resources), _capacity(draws))


@dataclass(frozen=True, slots=True)
class TracedRates:
    """Samples per second of the requested bundles of J jobs on reference servers, (J,) each."""

    traced: FloatArray
    """On the fewest servers, where the traced run is assumed."""
    near: FloatArray
    """With all tasks on one server, however large."""
    far: FloatArray
    """With each task on a server of its own."""
    on_one: BoolArray
    """Whether one reference server holds the bundle, or none do."""


def traced_rates(frame: pl.DataFrame, draws: TrainingDraws) -> TracedRates:
    """Rates of the J jobs of a frame with all columns that a step time needs; `samples` may be null."""
    resources = tuple(draws.reference_server)
    training = _training(frame.with_columns(samples=0.0), resources)
    bundles = bundles_of(frame, resources)
    servers = np.maximum(1, fewest_servers(bundles, _capacity(draws)))
    return TracedRates(
        traced=spread_rates(training, bundles, servers),
        near=spread_rates(training, bundles, np.ones_like(servers)),
        far=apart_rates(training, bundles),
        on_one=servers == 1,
    )


def infeasible_on_reference(frame: pl.DataFrame, draws: TrainingDraws) -> dict[str, BoolArray]:
    """(J,) masks by reason: jobs whose bundle does not fit on any number of reference servers.

    A job is in the mask of the first reason that applies. The dict is empty if the profile has no reference
    server, since jobs then demand nothing.
    """
    if not draws.reference_server:
        return {}
    bundles = bundles_of(frame, tuple(draws.reference_server))
    return infeasible_bundles(bundles, _capacity(draws)[None, :], endless=True)


def shortest_s(frame: pl.DataFrame, truth: Form, speed: float = 1.0) -> FloatArray:
    """(J,) shortest training time of each job in seconds, if it runs alone.

    A job has at most one worker per sample of its batch. With ``pd_ors`` the time is V theta^i / F in the
    symbols of the PD-ORS paper, on one server. For ``placement``, and for all-reduce jobs, which ``pd_ors``
    does not cover, see `least_placement_sample_s`.

    Parameters
    ----------
    truth : form of the true training progress
    speed : speed of the fastest server, > 0; divides the training time
    """
    training = _training(frame, ())
    training = replace(training, sample_s=training.sample_s / speed)
    jobs = np.arange(frame.height)
    sample_s = least_placement_sample_s(training, jobs)
    if truth == "pd_ors":
        pairs = job_profiles(frame, ()).pairs
        of_pairs = training if pairs is None else pairs.of_training(training)
        of_paper = pd_ors_sample_s(of_pairs, jobs, internal=True) / training.batch
        sample_s = np.where(training.exchange == Exchange.ALL_REDUCE, sample_s, of_paper)
    seconds: FloatArray = training.work * sample_s
    return seconds


def any_reason(reasons: dict[str, BoolArray], jobs: int) -> BoolArray:
    """(J,) mask of the jobs with at least one reason; `jobs` is J, needed if `reasons` is empty."""
    return np.asarray(np.logical_or.reduce([np.zeros(jobs, np.bool_), *reasons.values()]))


def _capacity(draws: TrainingDraws) -> IntArray:
    """(R,) capacity of one reference server in quanta, in the order of `draws.reference_server`."""
    amounts = draws.reference_server.items()
    return np.array([int(capacity_quanta(amount, name)) for name, amount in amounts], dtype=np.int64)


def _training(frame: pl.DataFrame, resources: Sequence[str]) -> TrainingProfile:
    training = job_profiles(frame, resources).training
    assert training is not None, "the frame lacks columns that a step time needs"
    return training
