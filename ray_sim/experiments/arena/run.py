"""Arena: run policies in all places of a file as one sweep, score the runs, and write who is best where.

Summaries of different worlds count differently: utilities by slots, completion times of announced jobs from
their announcement. Here every time counts from the submission, and worth is that of the job's record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np
import polars as pl

from ray_sim.experiments.arena.file import Arena, Place
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.report import write_page
from ray_sim.experiments.results.result_files import read_summary, read_table, read_timing
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep import SweepOptions, SweepReport, run_sweep
from ray_sim.model.job import JobTable
from ray_sim.model.metrics import jain_index, progress_rates
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray
from ray_sim.model.utility import utility
from ray_sim.policies.registry import create_policy
from ray_sim.reports.arena import QUESTIONS, conclusions, standings, worth_of_knowledge
from ray_sim.reports.arena_page import arena_page
from workloads.progress import Progress, silent

SCORES_SCHEMA = {
    "place": pl.String(),
    "policy": pl.String(),
    "seed": pl.Int64(),
    "jobs": pl.Int64(),
    "completed": pl.Int64(),
    **{question.key: pl.Float64() for question in QUESTIONS},
    **{question.bound: pl.Float64() for question in QUESTIONS if question.bound is not None},
}
"""Columns of the scores, see `ray_sim.reports.arena`."""


def arena_scores(arena: Arena, store: ResultStore, progress: Progress = silent) -> pl.DataFrame:
    """Scores of the runs of an arena that are in the store; `SCORES_SCHEMA`."""
    rows: list[dict[str, object]] = []
    for done, place in enumerate(arena.places, start=1):
        rows += _of_place(place, arena, store)
        progress(done, len(arena.places), "places")
    return pl.DataFrame(rows, schema=SCORES_SCHEMA)


def _of_place(place: Place, arena: Arena, store: ResultStore) -> list[dict[str, object]]:
    """Scores of the runs at one place; the jobs of each seed are drawn once."""
    jobs_of: dict[int, JobTable] = {}
    rows: list[dict[str, object]] = []
    for run in place.runs:
        entry, scenario = run.configuration.entry, run.configuration.identity.scenario
        if not store.has(entry.content_hash):
            continue
        if run.seed not in jobs_of:
            jobs_of[run.seed] = prepare(scenario, arena.sweep.inputs).jobs.table
        directory = store.run_directory(entry.content_hash)
        jobs, flat = read_table(directory, "jobs"), read_summary(directory).flat()
        decision_s = read_timing(directory).get("decision_s")
        total_s = decision_s.get("total") if isinstance(decision_s, Mapping) else None
        scores = job_scores(jobs_of[run.seed], jobs)
        rows.append(
            {
                "place": place.name,
                "policy": run.policy,
                "seed": entry.seed,
                **scores,
                "decision_ms": None if not isinstance(total_s, float) else 1e3 * total_s / len(jobs),
                **{score: flat.get(key) for score, key in _SUMMARY_KEYS.items()},
            }
        )
    return rows


_SUMMARY_KEYS = {
    "cross_server_gb": "cross_server_gb",
    "jct_bound_s": "certificate.bound_s",
    "utility_bound": "utility_certificate.bound",
    "welfare_bound": "welfare.bound",
}
"""Scores that are figures of the summary, and their keys there."""


def job_scores(table: JobTable, jobs: pl.DataFrame) -> dict[str, float | int | None]:
    """Scores of one run from its jobs.

    Parameters
    ----------
    table : the jobs as they were submitted, with utilities and statements where the workload has them
    jobs : jobs.parquet of the run, in any order
    """
    ends = pl.DataFrame({"job_id": table.job_id}).join(jobs, on="job_id", how="left", maintain_order="left")
    done = (ends["status"] == "completed").fill_null(value=False).to_numpy()
    submit_s = (table.submit_us + table.origin_us) / US_PER_S
    finish_s = np.where(done, ends["finish_s"].fill_null(np.nan).to_numpy(), np.nan)
    delay_s = finish_s - submit_s
    jct_s = delay_s[done]
    starts = np.maximum(ends["restarts"].to_numpy(), ends["preemptions"].to_numpy())
    return {
        "jobs": len(table),
        "completed": int(done.sum()),
        "jct_mean_s": float(jct_s.mean()) if len(jct_s) else None,
        "jct_p99_s": float(np.percentile(jct_s, 99)) if len(jct_s) else None,
        "makespan_s": float(np.nanmax(finish_s) - submit_s.min()) if len(jct_s) else None,
        **_worth(table, done, delay_s),
        "fairness": jain_index(np.where(done, progress_rates(table.work_us / US_PER_S, delay_s), 0.0)),
        "restarts": float(starts.mean()),
    }


def _worth(table: JobTable, done: BoolArray, delay_s: FloatArray) -> dict[str, float | None]:
    """Utility, welfare and jobs done by their due time; None where the workload has no such columns."""
    jobs, profile, statements = np.flatnonzero(done), table.utility, table.statements
    worth: dict[str, float | None] = {"utility": None, "due_share": None, "welfare": None}
    if profile is not None:
        worth["utility"] = float(utility(profile, jobs, delay_s[jobs]).sum())
        worth["due_share"] = float((delay_s[jobs] <= profile.utility_due_s[jobs]).sum() / len(table))
    if statements is not None:
        from_birth_s = delay_s + (table.submit_us - statements.birth_us) / US_PER_S
        values = [statements.values[statements.value_row[job]] for job in jobs]
        worth["welfare"] = float(
            sum(value.at(from_birth_s[job : job + 1])[0] for job, value in zip(jobs, values, strict=True))
        )
    return worth


PAGE = "arena.html"
"""Page in the directory of the results."""


@dataclass(frozen=True, slots=True)
class ArenaReport:
    """Result of an arena; frames as in `ray_sim.reports.arena`."""

    sweep: SweepReport
    page: Path
    scores: pl.DataFrame
    standings: pl.DataFrame
    knowledge: pl.DataFrame
    conclusions: pl.DataFrame

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict for JSON."""
        return {
            "sweep": {**self.sweep.to_dict(), "table": []},
            "page": str(self.page),
            "scores": self.scores.to_dicts(),
            "standings": self.standings.to_dicts(),
            "knowledge": self.knowledge.to_dicts(),
            "conclusions": self.conclusions.to_dicts(),
        }


def run_arena(arena: Arena, directory: Path | None = None, **options: Unpack[SweepOptions]) -> ArenaReport:
    """Run an arena, score the finished runs and write the page; arguments and errors as `run_sweep`."""
    ended = run_sweep(arena.sweep, directory, **options)
    if "announce" in options:
        options["announce"]("scoring")
    scores = arena_scores(arena, ResultStore(ended.directory))
    variants: dict[str, list[str]] = {}
    for place in arena.places:
        if place.changes is not None:
            variants.setdefault(place.changes, []).append(place.name)
    ranked = standings(scores)
    worth = worth_of_knowledge(scores, [(pair.blind, pair.told, pair.what) for pair in arena.knowledge])
    held = conclusions(scores, variants)
    planned = {place.name: len(place.runs) for place in arena.places}
    changed = [place.name for place in arena.places if place.changes is not None]
    page = arena_page(arena.sweep.name, scores, planned, changed, ranked, worth, held, _knows(arena))
    out = ended.directory / PAGE
    write_page(page, out)
    return ArenaReport(ended, out, scores, ranked, worth, held)


def _knows(arena: Arena) -> dict[str, str]:
    """Names of the columns and observations that each contestant may read, by contestant."""
    found: dict[str, str] = {}
    for place in arena.places:
        for run in place.runs:
            if run.policy in found:
                continue
            scenario = run.configuration.identity.scenario
            sees = sorted(create_policy(scenario.policy, scenario.params).sees)
            signal = scenario.world.get("signal")
            told = [] if signal is None else [f"signal={signal}"]
            found[run.policy] = ", ".join(["arrivals", "demands", *sees, *told])
    return found
