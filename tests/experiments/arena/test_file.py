"""Arena files: named places and contestants, each run once, problems told with their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ray_sim.experiments.arena.file import BUNDLED, Arena, read_arena
from ray_sim.kernels.core.server_scores import SCORED_RULES
from ray_sim.model.errors import InvalidInputError
from tests.conftest import REPOSITORY

POOL: dict[str, object] = {
    "name": "pool",
    "workload": {"synth": {"profile": "philly", "jobs": 40, "load_scale": 0.1}, "enrich": "common"},
    "cluster": "small.yaml",
}
CHUNKS = {"truth": "a_online", "slot_s": 60, "restart_cost_s": 0}
BASE: dict[str, object] = {
    "name": "test",
    "seeds": {"count": 2},
    "world": {"truth": "placement", "slot_s": 600, "restart_cost_s": 30},
    "policies": {
        "drf": {},
        "drf_at_once": {"name": "drf", "params": {"when": "event"}},
        "chunk_fifo": {"world": CHUNKS},
    },
    "places": [POOL],
}


def _arena(folder: Path, *, quick: bool = False, **changes: Any) -> Arena:
    path = folder / "arena.yaml"
    path.write_text(json.dumps({**BASE, **changes}))
    return read_arena(path, quick=quick)


def _runs(arena: Arena) -> list[tuple[str, str, int]]:
    return [(place.name, run.policy, run.seed) for place in arena.places for run in place.runs]


def test_every_contestant_meets_at_every_place_with_every_seed(at_desk: Path, tmp_path: Path) -> None:
    slow = {**POOL, "name": "slow", "changes": "pool", "world": {"restart_cost_s": 300}}
    arena = _arena(tmp_path, places=[POOL, slow])
    assert _runs(arena) == [
        (place, policy, seed)
        for place in ("pool", "slow")
        for policy in ("drf", "drf_at_once", "chunk_fifo")
        for seed in (0, 1)
    ]
    worlds = {
        (place.name, run.policy): run.configuration.identity.scenario.world
        for place in arena.places
        for run in place.runs
    }
    assert worlds["slow", "drf"] == {"truth": "placement", "slot_s": 600, "restart_cost_s": 300}
    assert worlds["slow", "chunk_fifo"] == CHUNKS
    assert [place.changes for place in arena.places] == [None, "pool"]


def test_a_run_that_two_places_share_is_done_once_and_counts_at_both(at_desk: Path, tmp_path: Path) -> None:
    # The world of its own makes chunk_fifo's runs the same whatever a restart costs the others.
    slow = {**POOL, "name": "slow", "world": {"restart_cost_s": 300}}
    arena = _arena(tmp_path, places=[POOL, slow])
    assert len(_runs(arena)) == 12
    assert len(arena.sweep.configurations) == 10
    shared = [each.entry for each in arena.sweep.configurations if each.entry.policy == "chunk_fifo"]
    assert [(entry.workload, entry.seed) for entry in shared] == [("pool", 0), ("pool", 1)]


def test_a_place_may_change_contestants_leave_some_out_add_some_and_have_other_seeds(
    at_desk: Path, tmp_path: Path
) -> None:
    other = {
        **POOL,
        "seeds": [7],
        "policies": {
            "chunk_fifo": None,
            "drf_at_once": {"name": "drf", "params": {"most_workers": 4}},
            "srtf": {},
        },
    }
    arena = _arena(tmp_path, places=[other])
    assert _runs(arena) == [("pool", "drf", 7), ("pool", "drf_at_once", 7), ("pool", "srtf", 7)]
    assert arena.places[0].runs[1].configuration.identity.scenario.params == {"most_workers": 4}


def test_a_quick_arena_has_few_jobs_one_seed_and_one_place_of_each_world(
    at_desk: Path, tmp_path: Path
) -> None:
    denser = {
        **POOL,
        "name": "denser",
        "workload": {"synth": {"profile": "philly", "jobs": 80}, "enrich": "common"},
    }
    slow = {**POOL, "name": "slow", "world": {"restart_cost_s": 300}}
    with pytest.raises(InvalidInputError, match="seeds: "):
        _arena(tmp_path, quick=True, seeds={"count": 0})
    arena = _arena(tmp_path, quick=True, places=[POOL, denser, slow])
    assert {(place, seed) for place, _, seed in _runs(arena)} == {("pool", 0), ("slow", 0)}
    (synth,) = {
        run.configuration.identity.scenario.workload.synth for place in arena.places for run in place.runs
    }
    assert synth is not None
    assert synth.jobs == 20


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"policies": {"drf": {}, "las": {"params": {"knob": [0, 1]}}}},
            "a list is an axis of several: .*las",
        ),
        (
            {
                "places": [
                    {**POOL, "workload": {"synth": {"profile": "philly", "jobs": [5, 6]}, "enrich": "common"}}
                ]
            },
            "place 'pool': .*a list is an axis of several: .*philly:6",
        ),
        ({"policies": {"drf": {}, "drf_again": {"name": "drf"}}}, "two contestants are the same run"),
        ({"places": [POOL, POOL]}, "'pool' is the name of two places"),
        (
            {"places": [{**POOL, "changes": "poll"}]},
            "arena.yaml: places.0..changes: unknown place 'poll'. Did you mean 'pool'",
        ),
        ({"places": [{**POOL, "changes": "pool"}]}, "arena.yaml: places.0..changes: 'pool' changes itself"),
        (
            {"places": [{**POOL, "changes": "b"}, {**POOL, "name": "b", "changes": "pool"}]},
            "arena.yaml: places.0..changes: 'pool' changes itself, by way of 'b'",
        ),
        (
            {"places": [{**POOL, "policies": {"drff": None}}]},
            "arena.yaml: places.0..policies: unknown contestant 'drff'. Did you mean 'drf'",
        ),
        (
            {"knowledge": [{"blind": "drf", "told": "las", "what": "x"}]},
            "arena.yaml: knowledge.0..told: unknown contestant 'las'",
        ),
        (
            {"knowledge": [{"blind": "drf", "told": "drf", "what": "x"}]},
            "arena.yaml: knowledge.0.: blind and told are both 'drf'",
        ),
        ({"places": [{**POOL, "name": "a\x1b[31m"}]}, "places.0..name: must be printable text"),
        ({"places": [{**POOL, "name": " "}]}, "places.0..name: must be printable text"),
        ({"policies": {"drf": {}, "a\nb": {"name": "fifo"}}}, "the key.: must be printable text"),
        (
            {"knowledge": [{"blind": "drf", "told": "chunk_fifo", "what": "\0"}]},
            "knowledge.0..what: must be printable text",
        ),
        ({"places": [{**POOL, "seeds": []}]}, "seeds: must not be empty"),
        ({"places": [{**POOL, "cluster": "nowhere.yaml"}]}, "place 'pool': 1 problem\n  .*nowhere.yaml"),
        (
            {"policies": {"drf": {}, "optimu": {}}},
            "place 'pool': 1 problem\n  policies.1.: .*Did you mean 'optimus'",
        ),
        ({"place": []}, "place: unknown key; did you mean 'places'"),
        ({"policies": {"drf": {}}}, "policies: must hold two contestants or more"),
    ],
)
def test_problems_name_the_place_and_the_key(
    changes: dict[str, Any], told: str, at_desk: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=told):
        _arena(tmp_path, **changes)


def test_an_arena_has_all_rules_that_score_servers_beside_the_default() -> None:
    arena = read_arena(REPOSITORY / "jobs/rules.yaml", quick=True)
    params = [run.configuration.identity.scenario.params for place in arena.places for run in place.runs]
    assert {each.get("placement") for each in params} == {None, *SCORED_RULES}


@pytest.mark.slow
def test_the_bundled_arena_is_sound_and_has_every_system() -> None:
    arena = read_arena(BUNDLED, quick=True)
    policies = {run.configuration.identity.scenario.policy for place in arena.places for run in place.runs}
    systems = {"pd_ors", "a_online", "optimus", "posted_price", "harmony"}
    baselines = {"fifo", "sjf", "srtf", "las", "drf", "tetris", "dorm", "oasis"}
    assert systems | baselines <= policies
