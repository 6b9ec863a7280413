"""Figures of each kind of jobs in summary.json."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest

from ray_sim.contract.announced_worlds import busy_announced
from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.contract.elastic_worlds import busy_elastic
from ray_sim.contract.measured_worlds import busy_measured
from ray_sim.contract.rigid_worlds import busy_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.results.result_files import json_bytes, summary_from_json
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.figures import (
    FIGURES,
    AnnouncedFigures,
    ChunkedFigures,
    ElasticFigures,
    GangFigures,
    KindFigures,
    MeasuredFigures,
)
from ray_sim.model.result import Summary
from ray_sim.policies.registry import create_policy
from tests.results_by_hand import three_jobs

OWN_KEYS = [
    *("stalled_s", "ceil_share", "upload_ceil_share", "preemption_cost_s", "deadlines"),
    *("restart_share", "cross_server_gb", "mean_tasks", "computing_share", "ps_imbalance"),
    *("interference_share", "speed_error", "convergence_error", "welfare", "audit"),
]

KINDS: dict[type[KindFigures], tuple[str, Callable[[], World]]] = {
    GangFigures: ("fifo", lambda: busy_world(6, 0)),
    ElasticFigures: ("fifo", lambda: busy_elastic(6)),
    ChunkedFigures: ("chunk_fifo", lambda: busy_chunks(6)),
    AnnouncedFigures: ("announced_fifo", lambda: busy_announced(6)),
    MeasuredFigures: ("fifo", lambda: busy_measured(6)),
}


def read_back(content: dict[str, object]) -> Summary:
    return summary_from_json(json_bytes(content), "summary.json")


@pytest.mark.parametrize("kind", FIGURES)
def test_every_kind_of_jobs_has_its_figures_and_they_are_read_back(kind: type[KindFigures]) -> None:
    policy, world = KINDS[kind]
    summary = run_world(world(), create_policy(policy)).summary
    assert type(summary.figures) is kind
    assert read_back(summary.to_dict()) == summary


def at(value: object, key: str) -> object:
    """The entry of a dict, or the attribute of anything else."""
    return value[key] if isinstance(value, dict) else getattr(value, key)


def check_names(found: object, content: dict[str, object]) -> None:
    """Every key of a part of summary.json, and of the parts in it, has its value in Python."""
    for key, value in content.items():
        if isinstance(value, dict):
            check_names(at(found, key), value)
        else:
            assert at(found, key) == value, key


@pytest.mark.parametrize("kind", FIGURES)
def test_every_key_of_the_file_is_a_name_in_python_for_every_kind_of_jobs(kind: type[KindFigures]) -> None:
    policy, world = KINDS[kind]
    summary = run_world(world(), create_policy(policy)).summary
    content = summary.to_dict()
    assert set(OWN_KEYS) <= set(content)
    for made in (summary, read_back(content), copy.copy(summary), copy.deepcopy(summary)):
        check_names(made, content)


def test_a_key_that_no_summary_has_is_refused_by_name() -> None:
    with pytest.raises(AttributeError, match=r"no 'welfares', only the keys of summary\.json"):
        _ = three_jobs().summary.welfares  # type: ignore[attr-defined]  # the mistake


def test_keys_of_all_kinds_follow_those_of_the_run_and_precede_those_of_the_policy() -> None:
    keys = list(three_jobs().summary.to_dict())
    first = keys.index("jct_or_horizon_s") + 1
    assert keys[first : first + len(OWN_KEYS) + 1] == [*OWN_KEYS, "policy_counts"]


def test_a_run_without_any_figure_is_read_as_one_of_gangs() -> None:
    assert read_back(three_jobs().summary.to_dict()).figures == GangFigures(restart_share=None)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"stalled_s": 1.0, "cross_server_gb": 2.0}, "no kind of job has all of stalled_s, cross_server_gb"),
        ({"ceil_share": 0.5}, "damaged"),
        ({"restart_share": "much"}, "damaged"),
    ],
)
def test_figures_that_no_kind_has_are_refused(damage: dict[str, object], told: str) -> None:
    content = json.loads(json.dumps(three_jobs().summary.to_dict()))
    with pytest.raises(InvalidInputError, match=told):
        read_back({**content, **damage})
