"""load_balance, tetris_packing, lif_linear and lif_quad: scores by hand, and a naive twin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ray_sim.contract.elastic_worlds import busy_elastic, failing_elastic
from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.experiments.inputs.interference_file import load_interference
from ray_sim.experiments.interference_samples import draw_samples, predictions
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.scenario import Scenario
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.job import Exchange
from ray_sim.model.result import RunResult
from ray_sim.model.slowdown_coefficients import SlowdownCoefficients, parse_coefficients
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy
from ray_sim.policies.task_placement.gangs import LoadBalance, TetrisPacking
from ray_sim.policies.task_placement.least_interference import BUNDLED, LifLinear, LifQuad
from ray_sim.policy_api import Decision, ElasticView
from tests.policies.task_placement.naive_task_placement import NaiveTaskPlacement
from tests.proofs import instances, quick_first
from tests.training import profile, together
from tests.worlds import Job, cluster_of, job_table

NAMES = ("load_balance", "tetris_packing", "lif_linear", "lif_quad")
SLOT_S = 50
STUDY = Path(__file__).parents[3] / "docs" / "studies" / "interference"

Ask = tuple[int, int, tuple[int, int], tuple[int, int]]
"""Workers, parameter servers, and (GPU, CPU) of one of each."""


def world_of(
    asks: Sequence[Ask],
    gpus: Sequence[int],
    cpus: Sequence[int],
    *,
    submit_s: Sequence[float] | None = None,
    models: Sequence[str] | None = None,
    vc: Sequence[str] | None = None,
    server_vc: Sequence[str] | None = None,
) -> World:
    """Jobs of 1,000 steps in slots of 50 s."""
    n = len(asks)
    names = tuple(dict.fromkeys(models or ["ctc"]))
    training = replace(
        together(
            *(
                profile(num_workers=workers, num_ps=ps, exchange=Exchange.SYNC if ps else Exchange.ALL_REDUCE)
                for workers, ps, _, _ in asks
            )
        ),
        worker_demand=1000 * np.array([ask[2] for ask in asks]),
        ps_demand=1000 * np.array([ask[3] for ask in asks]),
        model=np.array([names.index(name) for name in models] if models else [0] * n),
        model_names=names,
    )
    jobs = [
        Job(at, 1, 100, label)
        for at, label in zip(submit_s or [0.0] * n, vc or [None] * n, strict=True)  # type: ignore[list-item]
    ]
    table = replace(
        job_table(jobs),
        resources=("gpu", "cpu"),
        demand=np.full((n, 2), 1000, dtype=np.int64),
        training=training,
    )
    return build_world(
        table,
        cluster_of(gpus, cpu=cpus, vc=server_vc),
        partition="none" if vc is None else "vc",
        params={"truth": "placement", "slot_s": SLOT_S},
    )


def held(result: RunResult) -> dict[str, list[tuple[str, str, int]]]:
    """Server, role and tasks of each job at its first start."""
    rows: dict[str, list[tuple[str, str, int]]] = {}
    for job, server, role, count in (
        result.events.filter(event="start").select("job_id", "server", "role", "count").rows()
    ):
        rows.setdefault(job, []).append((str(server), str(role), count))
    return rows


def run(policy: str, world: World, **params: object) -> RunResult:
    return run_world(world, create_policy(policy, params))


def coefficients(
    folder: Path,
    types: Sequence[str],
    a: Sequence[Sequence[float]],
    b: Sequence[Sequence[float]] | None = None,
) -> str:
    """A file with these coefficients, the same a in both regressions."""
    linear = np.array([a], dtype=np.float64)
    squares = np.zeros_like(linear) if b is None else np.array([b], dtype=np.float64)
    fitted = SlowdownCoefficients(tuple(types), linear, np.concatenate([linear, squares]))
    path = folder / "coefficients.json"
    path.write_text(json.dumps(fitted.content()), encoding="utf-8")
    return str(path)


ONE_CPU = (1, 1)
NO_GPU = (0, 1)


def test_load_balancing_by_hand() -> None:
    """Servers of (2 GPU, 8 CPU) and (4 GPU, 4 CPU); two workers of (1, 1) and a parameter server of (0, 1).

    Both are empty, so the first worker goes to s0: load 1/2 + 1/8 = 5/8. The second goes to s1: 1/4 + 1/4 =
    1/2. The parameter server goes to s1, which has less.
    """
    result = run("load_balance", world_of([(2, 1, ONE_CPU, NO_GPU)], [2, 4], [8, 4]))
    assert held(result) == {"J1": [("s0", "worker", 1), ("s1", "worker", 1), ("s1", "ps", 1)]}


def test_tetris_packing_by_hand() -> None:
    """Servers of (2 GPU, 8 CPU) and (4 GPU, 4 CPU); three workers of (1, 1) and a parameter server of (0, 1).

    Both have 2 left, so the first worker goes to s0: 1/2 + 7/8 = 11/8 left. So does the second: 0 + 6/8. It
    has no GPU for the third, which goes to s1: 3/4 + 3/4 = 3/2. The parameter server goes to s0: 3/4 < 3/2.
    """
    result = run("tetris_packing", world_of([(3, 1, ONE_CPU, NO_GPU)], [2, 4], [8, 4]))
    assert held(result) == {"J1": [("s0", "worker", 2), ("s0", "ps", 1), ("s1", "worker", 1)]}


def test_a_resource_that_a_server_lacks_counts_neither_as_load_nor_as_room() -> None:
    """s0 has no GPU: 1 left of its CPUs, against 2 of s1."""
    world = world_of([(1, 1, NO_GPU, NO_GPU)], [0, 4], [4, 4])
    assert held(run("tetris_packing", world)) == {"J1": [("s0", "worker", 1), ("s0", "ps", 1)]}


@pytest.mark.parametrize("policy", ["lif_linear", "lif_quad"])
def test_least_interference_by_hand(policy: str, tmp_path: Path) -> None:
    """Type x is slowed by 0.1 per task of x and 0.5 of y; y by 0.2 and 0.3; with squares by 0.2 n^2 more.

    J1 (x, all-reduce with 2 workers of 3 GPUs) fills s0 and s1 of 4 GPUs, a task each: nothing slows it, and
    s0 is full after the first. J2 (y, 2 workers of 1 GPU) goes to the empty s2 of 2 GPUs: 1 < 1.2. J3 (x):
    beside J1 1 + 0.1 = 1.1 (with squares 1.3) on s0 and s1, beside J2's two 1 + 2 x 0.5 = 2 (2.8) on s2: s0.
    """
    file = coefficients(tmp_path, ["x", "y"], [[0.1, 0.5], [0.2, 0.3]], [[0.2, 0.2], [0.2, 0.2]])
    asks = [(2, 0, (3, 1), NO_GPU), (2, 0, ONE_CPU, NO_GPU), (1, 0, NO_GPU, NO_GPU)]
    world = world_of(asks, [4, 4, 2], [8, 8, 8], models=["x", "y", "x"])
    assert held(run(policy, world, coefficients=file)) == {
        "J1": [("s0", "worker", 1), ("s1", "worker", 1)],
        "J2": [("s2", "worker", 2)],
        "J3": [("s0", "worker", 1)],
    }


def test_ties_of_least_interference_by_hand() -> None:
    """Two empty servers of 4 CPUs, and 3 workers of 1: nothing slows the job, so both servers are equal.

    The least loaded one is s0, then s1, then s0; with ties to the job's own server all three are on s0.
    """
    world = world_of([(3, 0, NO_GPU, NO_GPU)], [0, 0], [4, 4])
    assert held(run("lif_linear", world)) == {"J1": [("s0", "worker", 2), ("s1", "worker", 1)]}
    assert held(run("lif_linear", world, ties="own_job")) == {"J1": [("s0", "worker", 3)]}


def test_squares_change_the_choice(tmp_path: Path) -> None:
    """Type x is slowed by 0.3 per task of y, and by 0.25 n + 0.1 n^2 by n tasks of z.

    J1 (y) has two workers on s0, which alone has GPUs; J2 (z), which y slows much, two on s1. J3 (x) is
    slowed by 1.6 on s0, and on s1 by 1 + 2 x 0.25 = 1.5, with squares by 1.5 + 4 x 0.1 = 1.9.
    """
    a = [[0.0, 0.3, 0.25], [0.0, 0.0, 0.0], [0.0, 9.0, 0.0]]
    b = [[0.0, 0.0, 0.1], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    file = coefficients(tmp_path, ["x", "y", "z"], a, b)
    asks = [(2, 0, (2, 1), NO_GPU), (2, 0, NO_GPU, NO_GPU), (1, 0, NO_GPU, NO_GPU)]
    world = world_of(asks, [4, 0], [9, 9], models=["y", "z", "x"])
    linear, squares = (held(run(name, world, coefficients=file)) for name in ("lif_linear", "lif_quad"))
    assert linear["J1"] == squares["J1"] == [("s0", "worker", 2)]
    assert linear["J2"] == squares["J2"] == [("s1", "worker", 2)]
    assert (linear["J3"], squares["J3"]) == ([("s1", "worker", 1)], [("s0", "worker", 1)])


@pytest.mark.parametrize("policy", NAMES)
def test_equal_scores_go_to_the_lowest_server(policy: str) -> None:
    world = world_of([(1, 0, ONE_CPU, NO_GPU)], [4, 4, 4], [4, 4, 4])
    assert held(run(policy, world)) == {"J1": [("s0", "worker", 1)]}


@pytest.mark.parametrize("policy", NAMES)
def test_a_gang_that_does_not_fit_whole_waits_with_nothing_and_later_ones_are_tried(policy: str) -> None:
    """J1 has 3 of the 4 GPUs, J2 wants 3, J3 wants one and passes. J2 is placed when J1 has ended."""
    asks = [(3, 0, ONE_CPU, NO_GPU), (3, 0, ONE_CPU, NO_GPU), (1, 0, ONE_CPU, NO_GPU)]
    result = run(policy, world_of(asks, [2, 2], [4, 4]))
    jobs = result.jobs
    assert jobs["status"].to_list() == ["completed"] * 3
    assert jobs["start_s"][0] == jobs["start_s"][2] == 0
    ends = max(jobs["finish_s"][0], 0)
    assert jobs["start_s"][1] == -(-ends // SLOT_S) * SLOT_S
    assert jobs["restarts"].sum() == jobs["preemptions"].sum() == 0


@pytest.mark.parametrize("policy", NAMES)
def test_workers_come_before_parameter_servers_and_all_stay_in_the_partition(policy: str) -> None:
    asks = [(2, 1, ONE_CPU, NO_GPU), (2, 1, ONE_CPU, NO_GPU)]
    world = world_of(asks, [4, 4, 4], [4, 4, 4], vc=["b", "a"], server_vc=["a", "b", "b"])
    found = held(run(policy, world))
    assert {server for server, _, _ in found["J1"]} <= {"s1", "s2"}
    assert {server for server, _, _ in found["J2"]} == {"s0"}


@pytest.mark.parametrize("policy", NAMES)
def test_what_can_never_be_placed_is_rejected(policy: str) -> None:
    world = world_of([(5, 0, ONE_CPU, NO_GPU), (1, 0, ONE_CPU, NO_GPU)], [2, 2], [4, 4])
    jobs = run(policy, world).jobs
    assert jobs["status"].to_list() == ["rejected", "completed"]
    assert jobs["reason"][0] == "tasks_never_fit"


def placements_of(decision: Decision) -> dict[int, dict[tuple[int, int], int]]:
    changes = decision.changes
    if changes is None:
        return {}
    return {
        int(job): {
            (int(changes.server[row]), int(changes.role[row])): int(changes.tasks[row])
            for row in range(changes.ptr[i], changes.ptr[i + 1])
        }
        for i, job in enumerate(changes.job[: changes.size[0]])
    }


POLICIES = {
    "load_balance": LoadBalance,
    "tetris_packing": TetrisPacking,
    "lif_linear": LifLinear,
    "lif_quad": LifQuad,
}


def compared(policy: str, world: World, **params: str) -> int:
    """Run it, with every decision compared with the twin's; returns those with jobs that waited."""
    bundled = parse_coefficients(BUNDLED.read_bytes(), "bundled")
    twin = NaiveTaskPlacement(
        policy, world, bundled.quadratic if policy == "lif_quad" else bundled.linear, **params
    )
    asked = 0

    parent: Any = POLICIES[policy]

    class Checked(parent):  # type: ignore[misc]
        def decide(self, view: ElasticView) -> Decision:
            nonlocal asked
            decision: Decision = super().decide(view)
            found, never = twin.decide(view)
            assert placements_of(decision) == found
            assert decision.reject.tolist() == never
            asked += len(view.waiting) > 0
            return decision

    run_world(world, Checked(**params))
    return asked


def random_world(seed: int) -> World:
    """Two to five servers, some without GPUs, in one or two partitions; ten jobs of three models."""
    draw = Streams(seed).generator("task-placement-worlds")
    servers, jobs = int(draw.integers(2, 6)), 10
    asks: list[Ask] = [
        (
            int(draw.integers(1, 5)),
            int(draw.integers(0, 4)),
            (int(draw.integers(0, 2)), int(draw.integers(0, 3))),
            (0, int(draw.integers(0, 3))),
        )
        for _ in range(jobs)
    ]
    vcs = seed % 2 == 0
    return world_of(
        asks,
        draw.choice([0, 2, 3, 4], servers).tolist(),
        draw.choice([2, 5, 6, 8], servers).tolist(),
        submit_s=np.sort(draw.integers(0, 300, jobs)).tolist(),
        models=draw.choice(["ctc", "vgg-16", "dssm"], jobs).tolist(),
        vc=draw.choice(["a", "b"], jobs).tolist() if vcs else None,
        server_vc=(["a", "b"] * 3)[:servers] if vcs else None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", NAMES)
def test_decisions_are_those_of_a_naive_twin(policy: str) -> None:
    assert sum(compared(policy, random_world(seed)) for seed in range(instances(80, 30))) >= 200


@pytest.mark.slow
def test_the_twin_agrees_where_ties_go_to_the_jobs_own_server() -> None:
    assert sum(compared("lif_linear", random_world(seed), ties="own_job") for seed in range(30)) >= 70


@pytest.mark.parametrize("policy", quick_first(NAMES))
def test_the_twin_agrees_where_servers_fail(policy: str) -> None:
    assert sum(compared(policy, failing_elastic(seed=seed)) for seed in range(3)) >= 40
    assert compared(policy, busy_elastic(partition="vc")) > 0


@pytest.mark.parametrize("regression", ["linear", "quadratic"])
def test_the_server_predicted_to_slow_least_slows_least(regression: str) -> None:
    """Of two random servers by `draw_samples`, of other draws than those fitted: 92 to 93 % are right."""
    bundled = parse_coefficients(BUNDLED.read_bytes(), "bundled")
    states = draw_samples(load_interference("harmony_types"), 20_000, 1, 0.0)
    table = bundled.linear if regression == "linear" else bundled.quadratic
    order = np.argsort(states.of_type, kind="stable")  # neighbours are states of one type
    predicted, true = predictions(table, states)[order], states.slowdown[order]
    same = states.of_type[order][::2] == states.of_type[order][1::2]
    chosen = np.where(predicted[::2] <= predicted[1::2], true[::2], true[1::2])
    right = (chosen == np.minimum(true[::2], true[1::2]))[same]
    assert len(right) > 9_000
    assert right.mean() >= 0.9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"types": []}, "types: expected a list of names"),
        ({"types": ["x", "x"]}, "types: x is there twice"),
        ({"linear": {"a": [[0.0]]}}, "linear.a: expected 2 rows of 2 numbers"),
        ({"quadratic": {"a": [[0, 0], [0, 0]]}}, "quadratic.b: expected 2 rows of 2 numbers"),
        ({"linear": {"a": [[0, -0.5], [0, 0]]}}, "x beside y: must be from 0 to 2^53, got -0.5"),
        ({"linear": {"a": [[0, 0], [float("nan"), 0]]}}, "y beside x: must be from 0 to 2^53, got nan"),
        ({"linear": {"a": [[0, 0], [float("inf"), 0]]}}, "y beside x: must be from 0 to 2^53, got inf"),
        ({"linear": {"a": [[0, True], [0, "1"]]}}, "y beside y: must be from 0 to 2^53, got '1'"),
        ({"linear": {"a": [[0, 1e300], [0, 0]]}}, "linear.a: x beside y: must be from 0 to 2^53, got 1e+300"),
        ({"types": ["x", "z"]}, "model y: has no coefficients"),
    ],
)
def test_faults_of_a_file_of_coefficients_are_named(
    change: Mapping[str, object], said: str, tmp_path: Path
) -> None:
    file = coefficients(tmp_path, ["x", "y"], [[0, 0], [0, 0]])
    content = json.loads(Path(file).read_text(encoding="utf-8"))
    Path(file).write_text(json.dumps({**content, **change}), encoding="utf-8")
    asks = [(1, 0, ONE_CPU, NO_GPU)] * 2
    with pytest.raises(InvalidInputError) as refusal:
        run("lif_linear", world_of(asks, [4], [4], models=["x", "y"]), coefficients=file)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "expected an object"),
        ("{", "is no JSON"),
        ('{"types": ["x"], "types": ["y"]}', "key 'types' appears twice"),
    ],
)
def test_a_file_of_another_form_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(InvalidInputError, match=said):
        run("lif_quad", random_world(0), coefficients=str(tmp_path / "c.json"))


def test_jobs_without_a_model_are_refused() -> None:
    world = random_world(0)
    training = world.table.training
    assert training is not None
    nameless = replace(training, model=np.full(len(training.model), -1))
    table = replace(world.table, training=nameless)
    bare = build_world(table, world.cluster, partition=world.partition, params=world.params)
    with pytest.raises(InvalidInputError, match="10 jobs have no model, the first in row 0"):
        run("lif_quad", bare)


@pytest.mark.slow
def test_under_strong_interference_lif_quad_has_a_lower_mean_jct_than_load_balance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten seeds of the study docs/studies/interference.md: 9,737 against 20,547 s."""
    monkeypatch.chdir(STUDY)
    workload = {"synth": {"profile": "jobs.yaml", "jobs": 36, "horizon_s": 14400, "arrivals": "poisson"}}
    facts = {"truth": "placement", "slot_s": 1200, "overcommit": 2, "interference": "harmony_types_strong"}

    def mean_jct(policy: str) -> float:
        means = []
        for seed in range(10):
            content = {"workload": workload, "cluster": "testbed.yaml", "policy": policy, "world": facts}
            asked = Scenario.model_validate({**content, "seed": seed})
            means.append(prepare(asked).run().result.summary.jct_s.mean or 0.0)
        return sum(means) / len(means)

    assert mean_jct("lif_quad") <= mean_jct("load_balance")
