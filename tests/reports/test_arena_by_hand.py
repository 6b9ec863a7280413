"""Every cell of the tables of an arena against plain Python: random scores with ties and missing runs."""

from __future__ import annotations

import random

import polars as pl
import pytest

from ray_sim.experiments.arena.run import SCORES_SCHEMA
from tests.reports.arena_by_hand import assert_tables

POLICIES = ("a", "b", "c", "d", "e")
VARIANTS = {"base": ["costly", "few"], "costly": ["few"]}
PAIRS = [("a", "b", "one thing"), ("d", "c", "another")]


def _random_scores(draw: random.Random) -> dict[tuple[str, str, int], dict[str, float | None]]:
    """Three places with five policies and up to eight seeds; some runs are missing, some complete less."""
    scores: dict[tuple[str, str, int], dict[str, float | None]] = {}
    worth = {policy: draw.uniform(1, 2) for policy in POLICIES}
    for place, seeds in (("base", 8), ("costly", draw.choice((6, 8))), ("few", draw.choice((1, 2, 5, 8)))):
        here = {policy: value * draw.choice((1, 1, 1.5)) for policy, value in worth.items()}
        poor = draw.choice((*POLICIES, None, None))
        for policy in POLICIES:
            if place == "few" and draw.random() < 0.2:
                continue
            for seed in range(seeds):
                if draw.random() < 0.04:
                    continue
                scores[place, policy, seed] = _score(draw, here[policy], seed, poor=policy == poor)
    return scores


def _score(draw: random.Random, worth: float, seed: int, *, poor: bool) -> dict[str, float | None]:
    completed = 12 - (draw.choice((0, 0, 1, 12)) if poor else 0)
    time = worth * (5 + seed) * draw.uniform(0.9, 1.1)
    of_completed = dict.fromkeys(("jct_mean_s", "jct_p99_s", "makespan_s"), time if completed else None)
    return {
        "jobs": 12,
        "completed": completed,
        **of_completed,
        "utility": round(10 / time, 1),
        "welfare": None if worth < 1.3 else 10 / time,
        "due_share": draw.choice((9, 10, 11)) / 12,
        "fairness": draw.uniform(0.3, 0.4),
        "restarts": draw.choice((0.0, 0.0, 0.25)) if worth < 1.5 else 0.0,
        "cross_server_gb": None if worth > 1.8 else float(draw.randrange(3)),
        "decision_ms": draw.expovariate(1),
        "jct_bound_s": None if completed < 12 else time / 2,
        "utility_bound": 10.0 if draw.random() < 0.9 else None,
        "welfare_bound": draw.choice((None, 8.0)),
    }


@pytest.mark.long
def test_every_cell_is_that_of_plain_python() -> None:
    cells = 0
    for seed in range(6):
        scores = _random_scores(random.Random(seed))
        rows = [{"place": p, "policy": n, "seed": s, **row} for (p, n, s), row in scores.items()]
        cells += assert_tables(pl.DataFrame(rows, schema=SCORES_SCHEMA), PAIRS, VARIANTS)
    assert cells > 5_000
