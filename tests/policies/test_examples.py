"""The examples of the guide for authors keep the contract, and run as the guide says."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ray_sim import PolicyContext, PriorityPolicy
from ray_sim.contract.suite import CLAUSES, check_policy
from ray_sim.engine.run import run_world
from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import FloatArray
from ray_sim.policies.registry import create_policy
from tests.chunk_worlds import TWO, ChunkJob, chunk_world, runs_of
from tests.worlds import HOUR, Job, replay, times_of, world_of

DOCS = Path(__file__).parents[2] / "docs"
README = DOCS.parent / "README.md"
EXAMPLES = {
    "least_work_first": "LeastWorkFirst",
    "weighted_teams": "WeightedTeams",
    "most_waiting_users": "MostWaitingUsers",
    "time_slices": "TimeSlices",
    "one_worker_each": "OneWorkerEach",
    "chunks_in_turn": "ChunksInTurn",
    "least_increment": "LeastIncrement",
    "first_announced": "FirstAnnounced",
    "best_fit": "BestFit",
}
LONG = {"least_increment", "chunks_in_turn", "time_slices", "most_waiting_users"}


@pytest.fixture(autouse=True)
def _beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(DOCS / "examples"), *sys.path])


def test_every_example_is_on_a_page_as_it_is() -> None:
    pages = "".join((DOCS / name).read_text() for name in ("own_policies.md", "idea_to_figure.md"))
    shown = re.findall(r"^```python\n(.*?)^```$", pages, re.M | re.S)
    files = {file.stem: file.read_text() for file in (DOCS / "examples").glob("*.py")}
    assert files.keys() == EXAMPLES.keys()
    assert set(files.values()) <= set(shown)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in EXAMPLES]
)
def test_every_example_keeps_the_contract(module: str) -> None:
    outcomes = check_policy(f"{module}:{EXAMPLES[module]}")
    assert [each.name for each in outcomes] == list(CLAUSES)
    assert [(each.name, each.detail) for each in outcomes if each.failed] == []


@pytest.mark.slow
def test_the_policy_of_the_readme_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [source] = re.findall(r"^```python\n(# shortest_first\.py\n.*?)^```$", README.read_text(), re.M | re.S)
    (tmp_path / "shortest_first.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    outcomes = check_policy("shortest_first:ShortestFirst")
    assert [(each.name, each.detail) for each in outcomes if each.failed] == []


@pytest.mark.long
def test_the_agent_that_draws_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [source] = re.findall(
        r"^```python\n(class AnyThatFits.*?)^```$", (DOCS / "environments.md").read_text(), re.M | re.S
    )
    imports = "import numpy as np\nfrom ray_sim.environments import QueueAgent\n\n\n"
    (tmp_path / "any_that_fits.py").write_text(imports + source)
    monkeypatch.syspath_prepend(tmp_path)
    outcomes = check_policy("any_that_fits:AnyThatFits")
    assert [(each.name, each.detail) for each in outcomes if each.failed] == []


def test_pages_show_no_other_policy() -> None:
    """Policies in code blocks; `Rule` needs weights that the page trains first."""
    pages = [README, *DOCS.glob("*.md")]
    code = "\n".join(
        block
        for page in pages
        for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    )
    shown = set(re.findall(r"^class (\w+)\(", code, re.M))
    assert shown == {*EXAMPLES.values(), "ShortestFirst", "AnyThatFits", "Rule"}


def test_a_priority_takes_the_compiled_loop() -> None:
    # One server of 2 GPUs. Work in GPU-hours: J1 2, J2 4, J3 1. All wait at 0, so J3 (1 GPU) starts, then
    # nothing fits beside it without backfilling: J1 (2 GPUs) at 1, J2 at 2.
    jobs = [Job(0, 2, HOUR), Job(0, 2, 2 * HOUR), Job(0, 1, HOUR)]
    result = run_world(world_of(jobs, gpus=[2]), create_policy("least_work_first:LeastWorkFirst"))
    assert result.loop == "compiled"
    assert times_of(result) == {"J3": (0, HOUR), "J1": (HOUR, 2 * HOUR), "J2": (2 * HOUR, 4 * HOUR)}


def test_the_team_that_uses_least_is_served_first() -> None:
    # Two servers of 1 GPU. J1 and J2 of team a take them. When J2 ends at hour 1, a still uses a GPU and b
    # none: J4 of b starts before J3 of a, which came earlier.
    jobs = [Job(0, 1, 4 * HOUR, "a"), Job(0, 1, HOUR, "a"), Job(1, 1, HOUR, "a"), Job(2, 1, HOUR, "b")]
    result = replay(world_of(jobs, gpus=[1, 1]), create_policy("weighted_teams:WeightedTeams"))
    assert times_of(result)["J4"] == (HOUR, 2 * HOUR)
    assert times_of(result)["J3"] == (2 * HOUR, 3 * HOUR)


def test_a_team_of_twice_the_weight_is_served_first_while_it_uses_less_than_twice_as_much() -> None:
    # Five GPUs. From hour 1 on one is free, while a and c use two each. J4 of c came before J5 of a; with
    # weight 2 team a uses 1 for its weight, and c 2.
    jobs = [
        *(Job(0, 2, 4 * HOUR, "a"), Job(0, 2, 4 * HOUR, "c"), Job(0, 1, HOUR, "b")),
        *(Job(1, 1, HOUR, "c"), Job(2, 1, HOUR, "a")),
    ]
    plain, weighted = (
        times_of(
            replay(
                world_of(jobs, gpus=[5]), create_policy("weighted_teams:WeightedTeams", {"weights": weights})
            )
        )
        for weights in (None, "a=2")
    )
    assert (plain["J4"], plain["J5"]) == ((HOUR, 2 * HOUR), (2 * HOUR, 3 * HOUR))
    assert (weighted["J5"], weighted["J4"]) == ((HOUR, 2 * HOUR), (2 * HOUR, 3 * HOUR))


def test_each_chunk_goes_where_it_adds_least_to_the_flow_times() -> None:
    # Two workers. J1 sends chunks of 4 s to both at 0. J2 comes at 1 with three chunks of 1 s: each behind
    # one of J1 with 3 s left, the third behind the first of its own, 5 s after it came.
    jobs = [ChunkJob(0, 2, 4), ChunkJob(1, 3, 1)]
    result = replay(chunk_world(jobs, TWO), create_policy("least_increment:LeastIncrement"))
    assert times_of(result) == {"J1": (0, 4), "J2": (4, 6)}
    assert runs_of(result, "J2", 2) == [(5, 6)]


class Halves(PriorityPolicy):
    """Serves by a key that is not whole."""

    def keys(self, world: PolicyContext) -> FloatArray:  # type: ignore[override]  # what the test is about
        return np.asarray(world.jobs.submit_us / 2)


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_keys_that_are_not_whole_are_refused_by_name(loop: str) -> None:
    with pytest.raises(
        RunFailedError, match=r"policy Halves: keys\(\) must return one whole number .*float64"
    ):
        run_world(world_of([Job(0, 1, HOUR)], gpus=[1]), Halves(), loop=loop)  # type: ignore[arg-type]


EXAMPLE = Path(__file__).parents[2] / "docs/examples/best_fit.py"


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """The names that the example defines."""
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.slow
def test_each_job_goes_to_the_fullest_server_that_holds_it(shown: dict[str, Any]) -> None:
    # 2 fits on servers 0 (4 free) and 2 (3 free), and 2 is fuller: 4, 1, 1 stay free. 4: server 0. The last
    # one may not use server 2. Every job needs a core too, of which server 3 has none.
    for best_fit in (shown["best_fit"], getattr(shown["best_fit"], "py_func", shown["best_fit"])):
        free, server = np.array([[4, 9], [1, 9], [3, 9], [5, 0]]), np.empty(4, dtype=np.int64)
        allowed = np.ones((4, 4), dtype=np.bool_)
        allowed[3, 2] = False
        best_fit(free, np.array([[2, 1], [4, 1], [1, 1], [1, 1]]), allowed, server)
        assert server.tolist() == [2, 0, 1, -1]
        assert free.tolist() == [[0, 8], [0, 8], [1, 8], [5, 0]]


@pytest.mark.slow
def test_a_policy_of_ones_own_calls_its_kernel(shown: dict[str, Any]) -> None:
    # J1 (2 GPUs) goes to s1, the fuller one; J2 (4) to s0; J3 (1) to s1; J4 (4) waits for J2, until hour 2.
    jobs = [Job(0, 2, HOUR), Job(0, 4, 2 * HOUR), Job(0, 1, HOUR), Job(0, 4, HOUR)]
    result = replay(world_of(jobs, gpus=[4, 3]), shown["BestFit"]())
    assert times_of(result) == {
        "J1": (0, HOUR), "J2": (0, 2 * HOUR), "J3": (0, HOUR), "J4": (2 * HOUR, 3 * HOUR)
    }  # fmt: skip
