"""A finished run small enough to write down: what the engine would return for three jobs on one GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

import polars as pl

from ray_sim.model.distribution import Distribution
from ray_sim.model.figures import AnnouncedFigures, WelfareFigures
from ray_sim.model.result import EVENT_SCHEMA, JOB_SCHEMA, RunResult, Summary
from ray_sim.reports.tables import RunRow

PLACE = ("week", "edge", "")
"""Workload, cluster and variant of runs that are put side by side."""


def announced_figures(welfare: float, bound: float) -> AnnouncedFigures:
    """Figures of announced jobs that earn this much, a quarter of it paid."""
    earned = WelfareFigures(
        welfare=welfare,
        revenue=welfare / 4,
        surplus=welfare * 3 / 4,
        eviction_rate=0.5,
        fates={},
        jct_from_arrival_s=Distribution(None, None, None, None),
        misreporting=0,
        clipped=0,
        bound=bound,
        ratio=bound / welfare if welfare else None,
    )
    return AnnouncedFigures(restart_share=None, welfare=earned)


def _ended(start_s: float, finish_s: float, jct_s: float) -> dict[str, object]:
    """Times of a job that waited from 0 s on and ran once."""
    times = {"start_s": start_s, "finish_s": finish_s, "jct_s": jct_s}
    return {**times, "queue_s": start_s, "run_s": finish_s - start_s, "status": "completed"}


def three_jobs(last_jct_s: float = 40.0) -> RunResult:
    """FIFO on one GPU: a runs 0-10, b waits for it and runs 10-30, c has 2 GPUs and never fits.

    Columns and entries that are not given are null, so that a new one changes nothing here.
    """
    never = {"status": "rejected", "reason": "never_fits"}
    counts = {"preemptions": 0, "restarts": 0, "interruptions": 0, "lost_s": 0.0}
    given: list[dict[str, object]] = [
        {"job_id": "a", "num_gpus": 1.0, "duration_s": 10.0, "submit_s": 0.0, **_ended(0.0, 10.0, 10.0)},
        {
            "job_id": "b",
            "num_gpus": 1.0,
            "duration_s": 20.0,
            "submit_s": 0.0,
            **_ended(10.0, 30.0, last_jct_s),
        },
        {"job_id": "c", "num_gpus": 2.0, "duration_s": 5.0, "submit_s": 3.0, **never},
    ]
    jobs = pl.DataFrame([{**row, **counts} for row in given], schema=JOB_SCHEMA)
    started = {"server": "s0", "role": "worker", "count": 1}
    events = pl.DataFrame(
        [
            {"time_s": 0.0, "event": "submit", "job_id": "a"},
            {"time_s": 0.0, "event": "submit", "job_id": "b"},
            {"time_s": 0.0, "event": "start", "job_id": "a", **started},
            {"time_s": 3.0, "event": "submit", "job_id": "c"},
            {"time_s": 3.0, "event": "reject", "job_id": "c"},
            {"time_s": 10.0, "event": "finish", "job_id": "a"},
            {"time_s": 10.0, "event": "start", "job_id": "b", **started},
            {"time_s": 30.0, "event": "finish", "job_id": "b"},
        ],
        schema=EVENT_SCHEMA,
    )
    timeline = pl.DataFrame(
        {
            "time_s": [0.0, 3.0, 10.0, 30.0],
            "waiting": [1, 1, 0, 0],
            "running": [1, 1, 1, 0],
            "used_gpu": [1.0, 1.0, 1.0, 0.0],
        }
    )
    mean_s = (10.0 + last_jct_s) / 2
    figures: dict[str, Any] = {
        "jobs": 3,
        "completed": 2,
        "rejected": 1,
        "evicted": 0,
        "unfinished": 0,
        "reasons": {"never_fits": 1},
        "jct_s": Distribution(mean=mean_s, median=mean_s, p90=last_jct_s, p99=last_jct_s),
        "queue_s": Distribution(mean=5.0, median=5.0, p90=9.0, p99=9.9),
        "makespan_s": 30.0,
        "utilisation": {"gpu": 1.0},
        "jain_index": 0.9,
        "finish_time_fairness": Distribution(mean=0.5, median=0.5, p90=0.5, p99=0.5),
        "preemptions": 0,
        "restarts": 0,
        "interruptions": 0,
        "lost_s": 0.0,
        "utility": None,
    }
    absent = dict.fromkeys(each.name for each in fields(Summary) if each.default is MISSING)
    summary = Summary(**{**absent, **figures})
    return RunResult(jobs, events, timeline, summary, loop="compiled")


def run_rows(lasts: Mapping[str, Sequence[float]], place: tuple[str, str, str] = PLACE) -> list[RunRow]:
    """By policy a run of `three_jobs` per seed from 0 on; its mean JCT is (10 + last) / 2."""
    return [
        RunRow(*place, policy, seed, three_jobs(last).summary)
        for policy, each in lasts.items()
        for seed, last in enumerate(each)
    ]
