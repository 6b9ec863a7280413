"""Whole jobs drawn from a training profile, within a horizon of so many slots; no trace plays a part.

It is the inverse of an enrichment: samples and bundle are drawn, and the run time follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.streams import Streams
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray, tolerant_ceils, us_to_seconds
from ray_sim.model.utility import arrival_slot
from workloads.arrivals import ArrivalKind, alternating, poisson
from workloads.checks import refuse_absurd
from workloads.draws import Uniform
from workloads.family_columns import Columns, columns_by_family, plain_columns
from workloads.horizon_request import HorizonRequest
from workloads.provenance import Counts, Provenance
from workloads.reference_servers import any_of, reasons_against_reference, reference_rates, shortest_s
from workloads.schema import with_all_columns
from workloads.synth import Drawn, check_seed
from workloads.training_draws import FOLLOWING, SOLVED, Family, TrainingDraws

VERSION = "1"
"""Changes when the same arguments draw other jobs."""

MAX_DRAWS = 2**14
"""Of one job. Of the published ranges of PD-ORS, one job in some fifty is done in a slot."""

_DRAWS_AT_ONCE = 2**17
"""Bounds the memory that a search for feasible jobs takes."""


@dataclass(frozen=True, slots=True)
class DrawReport:
    """How feasible the jobs of a profile are, each as it was drawn first."""

    jobs: int
    infeasible: Mapping[str, int]
    """By reason."""
    redraws: int
    """Draws of infeasible jobs after the first; 0 where they are kept."""

    @property
    def feasible_share(self) -> float:
        """In [0, 1]."""
        return (self.jobs - sum(self.infeasible.values())) / self.jobs

    def to_dict(self) -> dict[str, JsonValue]:
        """Plain nested values, for JSON."""
        return {
            "feasible_share": self.feasible_share,
            "infeasible": dict(self.infeasible),
            "redraws": self.redraws,
        }

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of a table for people."""
        return [
            ("feasible as first drawn", f"{self.feasible_share:.1%}"),
            *((f"infeasible as first drawn, {reason}", f"{n:,}") for reason, n in self.infeasible.items()),
            ("redraws", self.redraws),
        ]


def check_whole(draws: TrainingDraws) -> None:
    """Raise InvalidInputError unless the profile says all that whole jobs are drawn from."""
    for name, example in ((SOLVED, "[20000, 500000]"), ("num_workers", "[1, 30]")):
        if name not in draws.columns:
            raise InvalidInputError(
                f"training profile {draws.name}: columns.{name}: is missing; without a trace it is drawn, "
                f"so give its range, such as {example}"
            )


def synth_jobs(draws: TrainingDraws, request: HorizonRequest, seed: int) -> Drawn:
    """The jobs of `draw_jobs` with their provenance."""
    frame, report = draw_jobs(draws, request, seed)
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


def draw_jobs(draws: TrainingDraws, request: HorizonRequest, seed: int) -> tuple[pl.DataFrame, DrawReport]:
    """Draw whole jobs, in order of submission.

    Each column is drawn as the profile says, with a worker for each sample of the batch at most. `num_gpus`
    are those of all workers, who are the tasks of the gang, and `duration_s` is what the bundle asked for
    takes on the fewest reference servers.

    Job 0 comes at 0, where the clock of a run begins; the others independently of each other. A job's draws
    are keyed by the seed, its number and how often it was drawn: more jobs are the same and others beside.

    A job is infeasible if a worker or parameter server of it fits on no reference server, or if it could not
    end by the horizon alone on one server with a worker for each sample of its batch, counted in slots. With
    `feasible_only` no job comes in the last slot, and all of an infeasible one but its submission is drawn
    again.

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
    against = _against(columns, draws, submit_us, request)
    if request.feasible_only:
        infeasible = np.flatnonzero(any_of(against, request.jobs))
        attempt[infeasible] = _feasible_attempts(infeasible, draws, streams, submit_us, request)
        columns = _columns(draws, streams, job, attempt)
    counts = {reason: int(jobs.sum()) for reason, jobs in against.items() if jobs.any()}
    return _rows(columns, draws, submit_us), DrawReport(request.jobs, counts, int(attempt.sum()))


def _submissions_us(request: HorizonRequest, job: IntArray, streams: Streams) -> IntArray:
    """(J,) submissions by number of the job."""
    slotted = request.arrivals is ArrivalKind.ALTERNATING
    process = alternating(1.0, request.slot_s) if slotted else poisson(1.0)
    # A job that comes in the last slot finds none that it could use.
    last_slot_s = float(us_to_seconds(np.array((request.slots - 1) * request.slot_us)))
    until_s = last_slot_s if request.feasible_only else request.horizon_s
    instants_s = process.among(streams.uniforms("drawn-submit_s", job), until_s)
    submit_us: IntArray = np.floor(instants_s * US_PER_S).astype(np.int64)
    submit_us[0] = 0
    return submit_us


def _columns(draws: TrainingDraws, streams: Streams, job: IntArray, attempt: IntArray) -> pl.DataFrame:
    """All columns that the profile draws, and those that follow, of jobs in their draw number ``attempt``."""
    return with_all_columns(columns_by_family(draws, streams, "drawn", (job, attempt), _family_columns))


def _family_columns(family: Family, rows: IntArray, uniform: Mapping[str, FloatArray]) -> Columns:
    columns = plain_columns(family, family.columns, uniform)
    gpus = family.columns["worker_gpu"]
    if isinstance(gpus, Uniform):  # its ends are whole, and so are a worker's GPUs
        columns.numbers["worker_gpu"] = Uniform(gpus.low, gpus.high, whole=True).at(uniform["worker_gpu"])
    columns.numbers["num_workers"] = np.minimum(columns.numbers["num_workers"], columns.numbers["batch"])
    return columns


def _against(
    columns: pl.DataFrame, draws: TrainingDraws, submit_us: IntArray, request: HorizonRequest
) -> dict[str, BoolArray]:
    """Jobs that are infeasible, by the first reason that applies."""
    reasons = reasons_against_reference(columns, draws)
    slots = np.minimum(shortest_s(columns) / (request.slot_us / US_PER_S), request.slots + 1.0)
    ends = arrival_slot(submit_us, request.slot_us) + np.maximum(1, tolerant_ceils(slots))
    late = (ends > request.slots) & ~any_of(reasons, columns.height)
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
        against = _against(_columns(draws, streams, jobs, tries), draws, submit_us[jobs], request)
        fine = ~any_of(against, len(jobs)).reshape(len(part), first)
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
