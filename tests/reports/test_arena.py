"""Tables of an arena: ranks among those that do the same work, verdicts, and conclusions that hold.

Every cell is also compared with plain Python: random scores with ties and missing runs.
"""

from __future__ import annotations

import random

import polars as pl
import pytest

from ray_sim.experiments.arena.run import SCORES_SCHEMA
from ray_sim.reports.arena import QUESTIONS, conclusions, standings, worth_of_knowledge
from ray_sim.reports.arena_page import arena_page, best_table, missing_runs
from ray_sim.reports.page import render
from tests.reports.arena_by_hand import assert_tables

SEEDS = 10


def _scores(**means: dict[str, tuple[float, float]]) -> pl.DataFrame:
    """Scores by place and policy: mean JCT in hours over ten seeds, and its swing from seed to seed.

    All rise with the seed, but for policies whose name ends in ``_odd``, which fall.
    """
    rows = [
        {
            "place": place,
            "policy": policy,
            "seed": seed,
            "jobs": 100,
            "completed": 99 if policy.startswith("picky") else 100,
            "jct_mean_s": mean + swing * (seed - 4.5) / 4.5 * (-1 if policy.endswith("_odd") else 1),
            "utility": 100 - mean,
            "jct_bound_s": mean / 2,
        }
        for place, policies in means.items()
        for policy, (mean, swing) in policies.items()
        for seed in range(SEEDS)
    ]
    return pl.DataFrame(rows, schema=SCORES_SCHEMA)


def _standing(scores: pl.DataFrame, question: str = "jct_mean_s") -> dict[str, tuple[int | None, str | None]]:
    rows = standings(scores).filter(question=question).iter_rows(named=True)
    return {row["policy"]: (row["rank"], row["verdict"]) for row in rows}


def test_policies_are_ranked_by_their_means_and_level_where_seeds_cannot_tell() -> None:
    scores = _scores(here={"slow": (30, 1), "fast": (10, 1), "near_odd": (10.1, 1)})
    assert _standing(scores) == {
        "slow": (3, "behind"),
        "fast": (1, "best"),
        "near_odd": (2, "level with the best"),
    }


def test_a_policy_that_completes_fewer_jobs_has_no_rank_in_times_and_one_in_utility() -> None:
    scores = _scores(here={"slow": (30, 1), "fast": (10, 1), "picky": (1, 0)})
    assert _standing(scores)["picky"] == (None, None)
    assert _standing(scores)["fast"] == (1, "best")
    assert _standing(scores, "utility")["picky"] == (1, "best")


def test_a_policy_with_a_seed_less_keeps_its_rank_if_it_completes_as_many_jobs_in_the_others() -> None:
    scores = _scores(here={"slow": (30, 1), "fast": (10, 1), "picky": (1, 0)})
    some = scores.filter((pl.col("policy") != "fast") | (pl.col("seed") != 3))
    assert _standing(some) == {"slow": (2, "behind"), "fast": (1, "best"), "picky": (None, None)}


def test_equal_means_share_a_rank() -> None:
    scores = _scores(here={"one": (10, 0), "two": (10, 0), "three": (20, 0)})
    ranks = {policy: rank for policy, (rank, _) in _standing(scores).items()}
    assert ranks == {"one": 1, "two": 1, "three": 3}


def test_means_that_differ_by_rounding_share_a_rank() -> None:
    # Due jobs of twelve over five seeds: 53 of 60 for both, whose means differ in the last bit.
    done = {"one": (9, 11, 10, 12, 11), "two": (9, 11, 10, 11, 12), "three": (8, 8, 8, 8, 8)}
    rows = [
        {"place": "here", "policy": policy, "seed": seed, "jobs": 12, "completed": 12, "due_share": due / 12}
        for policy, dues in done.items()
        for seed, due in enumerate(dues)
    ]
    ranks = _standing(pl.DataFrame(rows, schema=SCORES_SCHEMA), "due_share")
    assert {policy: rank for policy, (rank, _) in ranks.items()} == {"one": 1, "two": 1, "three": 3}
    assert ranks["one"][1] == "best"


def test_a_policy_that_completes_no_job_with_one_seed_has_no_rank_in_times() -> None:
    none = (pl.col("policy") == "fast") & (pl.col("seed") == 3)
    scores = _scores(here={"slow": (30, 1), "fast": (10, 1)}).with_columns(
        completed=pl.when(none).then(0).otherwise("completed"),
        jct_mean_s=pl.when(none).then(None).otherwise("jct_mean_s"),
    )
    assert _standing(scores) == {"slow": (1, "best"), "fast": (None, None)}
    variants = {"here": ["there"]}
    both = pl.concat([scores, _scores(there={"slow": (30, 1), "fast": (10, 1)})])
    assert conclusions(both, variants).filter(question="jct_mean_s").is_empty()


def test_the_best_has_rank_1_where_seeds_are_missing() -> None:
    # Without its longest seed, "part" has a mean of 20 h; over the seeds of both, "all" is faster.
    scores = _scores(here={"all": (20.1, 10), "part": (21.11, 10)})
    some = scores.filter((pl.col("policy") != "part") | (pl.col("seed") != 9))
    rows = standings(some).filter(question="jct_mean_s")
    assert rows.select("policy", "rank", "verdict").rows() == [
        ("all", 2, "level with the best"),
        ("part", 1, "best"),
    ]


def test_a_single_seed_gives_means_and_no_verdict() -> None:
    scores = _scores(here={"slow": (30, 1), "fast": (10, 1)}).filter(seed=0)
    assert _standing(scores) == {"slow": (2, "untested"), "fast": (1, "best")}


def test_the_gap_is_the_mean_over_the_mean_bound() -> None:
    rows = standings(_scores(here={"slow": (30, 0), "fast": (10, 0)})).filter(question="jct_mean_s")
    assert rows["gap"].to_list() == pytest.approx([1, 1])
    assert rows["percent_to_best"].to_list() == pytest.approx([200, 0])


def test_knowledge_is_the_change_from_the_blind_policy_to_the_one_that_is_told() -> None:
    scores = _scores(here={"las": (20, 1), "srtf": (15, 1)})
    (row,) = (
        worth_of_knowledge(scores, [("las", "srtf", "run times")]).filter(question="jct_mean_s").to_dicts()
    )
    assert row["percent"] == pytest.approx(-25)
    assert row["verdict"] == "better"
    assert worth_of_knowledge(scores, [("las", "optimus", "losses")]).is_empty()


def test_a_conclusion_holds_only_where_every_variant_shows_it() -> None:
    scores = _scores(
        base={"a": (10, 1), "b": (20, 1), "c": (30, 1), "d": (40, 1)},
        costly={"a": (10, 1), "b": (20, 1), "c": (9, 1), "d_odd": (40, 1)},
        noisy={"a": (10, 1), "b_odd": (10.1, 5), "c": (30, 1), "d": (40, 1)},
    ).with_columns(pl.col("policy").str.strip_suffix("_odd"))
    found = conclusions(scores, {"base": ["costly", "noisy"]}).filter(question="jct_mean_s")
    held = {(row["better"], row["worse"]): row for row in found.to_dicts()}
    assert len(held) == 6
    assert held["a", "d"]["holds"]
    assert held["a", "d"]["percent"] == pytest.approx(-75)
    assert (held["a", "c"]["turns_in"], held["a", "c"]["fades_in"]) == (["costly"], [])
    assert (held["a", "b"]["turns_in"], held["a", "b"]["fades_in"]) == ([], ["noisy"])
    assert [row["holds"] for row in held.values()].count(True) == 3  # a and b to d, and c to d


def test_a_variant_that_does_not_compare_the_two_is_named_and_proves_nothing() -> None:
    scores = _scores(base={"a": (10, 1), "b": (20, 1)}, other={"a": (10, 1), "picky_b": (20, 1)})
    found = conclusions(scores, {"base": ["other", "not run"]}).filter(question="jct_mean_s").to_dicts()
    assert [(each["holds"], each["absent_in"]) for each in found] == [(False, ["other", "not run"])]


def test_a_difference_that_the_base_does_not_show_is_no_conclusion() -> None:
    scores = _scores(base={"a": (10, 5), "b_odd": (10.1, 5)}, other={"a": (10, 1), "b_odd": (20, 1)})
    assert conclusions(scores, {"base": ["other"]}).filter(question="jct_mean_s").is_empty()


def test_the_page_shows_every_question_and_names_are_inert() -> None:
    scores = _scores(
        here={"slow<script>": (30, 1), "fast": (10, 1)}, there={"slow<script>": (3, 1), "fast": (9, 1)}
    )
    ranked = standings(scores)
    held = conclusions(scores, {"here": ["there"]})
    worth = worth_of_knowledge(scores, [("fast", "slow<script>", "nothing")])
    html = render(
        arena_page(
            "test", scores, {"here": 20, "there": 27}, ["there"], ranked, worth, held, {"fast": "arrivals"}
        )
    ).decode()
    for question in QUESTIONS:
        assert question.title.replace("'", "&#39;") in html
    assert "<script>" not in html
    assert ">10 s (1)<" in html
    assert "seeds in units, higher" in html
    assert (
        html.count("<svg") == 4
    )  # both places have pictures for mean JCT and for utility: the scores have no others
    assert "40 of 47 runs" in html
    assert "Places with missing runs" in html


def test_places_with_missing_runs_are_counted() -> None:
    scores = _scores(here={"fast": (10, 1), "slow": (20, 1)})
    assert missing_runs(scores, {"here": 20, "there": 4}) == {"there": 4}
    assert missing_runs(scores.filter(policy="fast"), {"here": 20}) == {"here": 10}


def test_a_cell_of_the_table_of_the_best_names_so_many_and_counts_the_rest() -> None:
    scores = _scores(here=dict.fromkeys("abcd", (10, 0)))
    (row,) = best_table(standings(scores), QUESTIONS[:1], most=2).rows
    assert [cell.text for cell in row] == ["here", "a, b and 2 more"]


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
