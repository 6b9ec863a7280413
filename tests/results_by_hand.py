"""A finished run small enough to write down: what the engine would return for three jobs on one GPU."""

from __future__ import annotations

import polars as pl

from ray_sim.model.distribution import Distribution
from ray_sim.model.figures import AnnouncedFigures, WelfareFigures
from ray_sim.model.result import (
    EVENT_SCHEMA,
    JOB_SCHEMA,
    RunResult,
    Summary,
)


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


def three_jobs(last_jct_s: float = 40.0) -> RunResult:
    """FIFO on one GPU: a runs 0-10, b waits for it and runs 10-30, c has 2 GPUs and never fits."""
    owner = (None, None)  # vc, user
    jobs = pl.DataFrame(
        [
            ("a", *owner, 1.0, 10.0, 0.0, 0.0, 10.0, 10.0, 0.0, 10.0, 0, 0, 0, 0.0, "completed", None, None),
            (
                "b",
                *owner,
                1.0,
                20.0,
                0.0,
                10.0,
                30.0,
                last_jct_s,
                10.0,
                20.0,
                0,
                0,
                0,
                0.0,
                "completed",
                None,
                None,
            ),
            (
                "c",
                *owner,
                2.0,
                5.0,
                3.0,
                None,
                None,
                None,
                None,
                None,
                0,
                0,
                0,
                0.0,
                "rejected",
                "never_fits",
                None,
            ),
        ],
        schema=JOB_SCHEMA,
        orient="row",
    )
    events = pl.DataFrame(
        [
            (0.0, "submit", "a", None, None, None),
            (0.0, "submit", "b", None, None, None),
            (0.0, "start", "a", "s0", "worker", 1),
            (3.0, "submit", "c", None, None, None),
            (3.0, "reject", "c", None, None, None),
            (10.0, "finish", "a", None, None, None),
            (10.0, "start", "b", "s0", "worker", 1),
            (30.0, "finish", "b", None, None, None),
        ],
        schema=EVENT_SCHEMA,
        orient="row",
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
    summary = Summary(
        jobs=3,
        completed=2,
        rejected=1,
        evicted=0,
        unfinished=0,
        reasons={"never_fits": 1},
        jct_s=Distribution(mean=mean_s, median=mean_s, p90=last_jct_s, p99=last_jct_s),
        queue_s=Distribution(mean=5.0, median=5.0, p90=9.0, p99=9.9),
        makespan_s=30.0,
        utilisation={"gpu": 1.0},
        jain_index=0.9,
        finish_time_fairness=Distribution(mean=0.5, median=0.5, p90=0.5, p99=0.5),
        preemptions=0,
        restarts=0,
        interruptions=0,
        lost_s=0.0,
        utility=None,
    )
    return RunResult(jobs, events, timeline, summary, loop="compiled")
