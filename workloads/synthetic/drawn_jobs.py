"""Draw whole jobs from a training profile within a horizon, without a trace.

The inverse of enrichment: samples and bundle (workers and parameter servers) are drawn, and the run time
follows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray, tolerant_ceils, us_to_seconds
from ray_sim.model.utility import arrival_slot
from workloads.checks import refuse_absurd
from workloads.progress import Progress, silent
from workloads.provenance import Counts, Provenance
from workloads.schema import with_all_columns
from workloads.synthetic.arrivals import ArrivalKind, alternating, poisson
from workloads.synthetic.horizon_request import HorizonRequest
from workloads.synthetic.synth import Drawn, DrawReport, check_seed
from workloads.training.bundles import any_reason, infeasible_on_reference, reference_rates, shortest_s
from workloads.training.draws import Uniform
from workloads.training.enrich_columns import FamilyColumns, columns_by_family, plain_columns
from workloads.training.profile import FOLLOWING, SOLVED, Family, TrainingDraws

VERSION = "1"
"""Changes when the same arguments draw other jobs."""

MAX_DRAWS = 2**14
"""Most draws of one job. With the published ranges of PD-ORS about 1 job in 50 can end within one slot."""

_DRAWS_AT_ONCE = 2**17
"""Jobs times draws in memory at a time in the search for feasible jobs."""


def check_whole(draws: TrainingDraws) -> None:
    """Raise InvalidInputError unless the profile has every column that a draw of whole jobs needs."""
    for name, example in ((SOLVED, "[20000, 500000]"), ("num_workers", "[1, 30]")):
        if name not in draws.columns:
            raise InvalidInputError(
                f"training profile {draws.name}: columns.{name}: is missing; without a trace it is drawn, "
                f"so give its range, such as {example}"
            )


def synth_jobs(
    draws: TrainingDraws, request: HorizonRequest, seed: int, progress: Progress = silent
) -> Drawn:
    """The jobs of `draw_jobs` with their provenance."""
    frame, report = draw_jobs(draws, request, seed, progress)
    by_curve = ["epochs"] if "loss_b0" in draws.columns else []
    following = [name for name in FOLLOWING if name not in draws.columns and frame[name].null_count() == 0]
    provenance = Provenance(
        converter="synth",
        converter_version=VERSION,
        options={"profile": draws.name, "profile_sha256": draws.sha256, **request.options()},
        seed=seed,
        counts=Counts(read=request.jobs, kept=request.jobs),
        notes={
            "drawn": ["submit_s", *draws.columns],
            "following": ["num_gpus", "duration_s", "num_tasks", *by_curve, *following],
            **report.to_dict(),
        },
    )
    return Drawn(frame, provenance, report)


def draw_jobs(
    draws: TrainingDraws, request: HorizonRequest, seed: int, progress: Progress = silent
) -> tuple[pl.DataFrame, DrawReport]:
    """Draw whole jobs, in order of submission.

    Each column is drawn as the profile says, but the number of workers is at most the batch. `num_gpus`
    counts the GPUs of all workers, which are the tasks of the gang; `duration_s` is the run time of the
    requested bundle on the fewest reference servers.

    Job 0 is submitted at 0; the others independently of each other. A job's draws are keyed by the seed, its
    number and the number of the draw, so a larger `jobs` keeps the jobs of a smaller one and adds to them.

    A job is infeasible if a worker or parameter server of it fits on no reference server, or if it could not
    end by the horizon alone on one server with a worker for each sample of its batch, by the form of PD-ORS
    and counted in slots. With `feasible_only` no job comes in the last slot, and all of an infeasible one but
    its submission is drawn again.

    Raises
    ------
    InvalidInputError : the profile lacks a range (`check_whole`), the seed is negative, or a job stayed
        infeasible in `MAX_DRAWS` draws
    InvalidWorkloadError : a job would be larger than a workload may hold
    """
    check_whole(draws)
    check_seed(seed)
    streams, job = Streams(seed), np.arange(request.jobs)
    submit_us = _submissions_us(request, job, streams)
    attempt = np.zeros_like(job)
    columns = _columns(draws, streams, job, attempt)
    against = _infeasible(columns, draws, submit_us, request)
    if request.feasible_only:
        infeasible = np.flatnonzero(any_reason(against, request.jobs))
        for part in np.array_split(infeasible, max(1, len(infeasible) // _DRAWS_AT_ONCE)):
            progress(int(part[0]) if len(part) else 0, request.jobs, "drawing again")
            attempt[part] = _feasible_attempts(part, draws, streams, submit_us, request)
        columns = _columns(draws, streams, job, attempt)
    counts = {reason: int(jobs.sum()) for reason, jobs in against.items() if jobs.any()}
    return _rows(columns, draws, submit_us), DrawReport(request.jobs, counts, int(attempt.sum()))


def _submissions_us(request: HorizonRequest, job: IntArray, streams: Streams) -> IntArray:
    """(J,) submissions by number of the job."""
    slotted = request.arrivals is ArrivalKind.ALTERNATING
    process = alternating(1.0, request.slot_s) if slotted else poisson(1.0)
    # A job starts with the first slot that begins at or after its submission; the last slot leaves none.
    last_slot_s = float(us_to_seconds(np.array((request.slots - 1) * request.slot_us)))
    until_s = last_slot_s if request.feasible_only else request.horizon_s
    instants_s = process.among(streams.uniforms("drawn-submit_s", job), until_s)
    submit_us: IntArray = np.floor(instants_s * US_PER_S).astype(np.int64)
    submit_us[0] = 0
    return submit_us


def _columns(draws: TrainingDraws, streams: Streams, job: IntArray, attempt: IntArray) -> pl.DataFrame:
    """Drawn and derived columns of the jobs in draw number ``attempt`` of each."""
    return with_all_columns(columns_by_family(draws, streams, "drawn", (job, attempt), _family_columns))


def _family_columns(family: Family, rows: IntArray, uniform: Mapping[str, FloatArray]) -> FamilyColumns:
    columns = plain_columns(family, family.columns, uniform)
    gpus = family.columns["worker_gpu"]
    if isinstance(gpus, Uniform):  # its ends are whole, and so are a worker's GPUs
        columns.numbers["worker_gpu"] = Uniform(gpus.low, gpus.high, whole=True).at(uniform["worker_gpu"])
    columns.numbers["num_workers"] = np.minimum(columns.numbers["num_workers"], columns.numbers["batch"])
    return columns


def _infeasible(
    columns: pl.DataFrame, draws: TrainingDraws, submit_us: IntArray, request: HorizonRequest
) -> dict[str, BoolArray]:
    """Infeasible jobs by the first reason that applies, boolean (J,) each."""
    reasons = infeasible_on_reference(columns, draws)
    slots = np.minimum(shortest_s(columns, "pd_ors") / (request.slot_us / US_PER_S), request.slots + 1.0)
    ends = arrival_slot(submit_us, request.slot_us) + np.maximum(1, tolerant_ceils(slots))
    late = (ends > request.slots) & ~any_reason(reasons, columns.height)
    return {**reasons, "it cannot end by the horizon": late}


def _feasible_attempts(
    job: IntArray,
    draws: TrainingDraws,
    streams: Streams,
    submit_us: IntArray,
    request: HorizonRequest,
    first: int = 1,
) -> IntArray:
    """The first draw, from number ``first`` on, in which each job is feasible.

    Draws ``first`` to 2 ``first`` - 1 are looked at together, and then those of the jobs that are left.
    """
    if first >= MAX_DRAWS:
        at_s = submit_us[job[0]] / US_PER_S
        raise InvalidInputError(
            f"feasible_only: job {job[0]}, submitted at {at_s:.15g} s, was infeasible in each of {first:,} "
            "draws; take a longer horizon or larger reference servers, or leave out feasible_only"
        )
    found = np.zeros_like(job)
    attempts = np.arange(first, 2 * first)
    at_once = max(1, _DRAWS_AT_ONCE // first)
    for start in range(0, len(job), at_once):
        part = job[start : start + at_once]
        jobs, tries = np.repeat(part, first), np.tile(attempts, len(part))
        against = _infeasible(_columns(draws, streams, jobs, tries), draws, submit_us[jobs], request)
        fine = ~any_reason(against, len(jobs)).reshape(len(part), first)
        at = attempts[fine.argmax(axis=1)]
        if len(left := np.flatnonzero(~fine.any(axis=1))):
            at[left] = _feasible_attempts(part[left], draws, streams, submit_us, request, 2 * first)
        found[start : start + at_once] = at
    return found


def _rows(columns: pl.DataFrame, draws: TrainingDraws, submit_us: IntArray) -> pl.DataFrame:
    """Jobs with the columns of `SCHEMA`, in order of submission."""
    work = columns["epochs"].to_numpy() * columns["samples"].to_numpy()
    number = pl.int_range(columns.height, dtype=pl.Int64, eager=True)
    frame = columns.with_columns(
        job_id=number.cast(pl.String),
        trace_order=number,
        submit_s=us_to_seconds(submit_us),
        num_gpus=pl.col("num_workers") * pl.col("worker_gpu"),
        num_tasks="num_workers",
        duration_s=work / reference_rates(columns, draws),
    )
    refuse_absurd(frame, ("num_gpus", "duration_s", "epochs"), f"check the ranges of {draws.name}")
    return with_all_columns(frame.sort("submit_s", "trace_order"))
