"""Arena: run policies in all places of a file as one sweep, and write who is best where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ray_sim.experiments.arena.file import Arena
from ray_sim.experiments.arena.scores import arena_scores
from ray_sim.experiments.report import write_page
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.sweep import SweepProgress, SweepReport, run_sweep
from ray_sim.policies.registry import create_policy
from ray_sim.reports.arena import conclusions, standings, worth_of_knowledge
from ray_sim.reports.arena_page import arena_page

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


def run_arena(
    arena: Arena,
    directory: Path | None = None,
    *,
    address: str = "local",
    resume: bool = False,
    max_in_flight: int | None = None,
    progress: SweepProgress = lambda done, failed, total: None,
    stop: Callable[[], bool] = lambda: False,
    announce: Callable[[str], None] = lambda text: None,
) -> ArenaReport:
    """Run an arena, score the finished runs and write the page; arguments and errors as `run_sweep`."""
    ended = run_sweep(
        arena.sweep,
        directory,
        address=address,
        resume=resume,
        max_in_flight=max_in_flight,
        progress=progress,
        stop=stop,
        announce=announce,
    )
    announce("scoring")
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
