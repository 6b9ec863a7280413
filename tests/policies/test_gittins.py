"""Gittins: the index of attained service by a history of jobs, and queues in its order."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import parse_scenario
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.policies.gittins import BUNDLED, distinct_deciles, gittins_index, service_samples
from ray_sim.policies.registry import create_policy, describe_policy
from tests.command_line import answer, complaint
from tests.proofs import instances
from tests.required import HISTORY
from tests.small_workloads import stored
from tests.worlds import Job, column_of, events_of, fingerprint, replay, times_of, world_of

MILLI_GPU_US = 10**9
"""A GPU-second in the unit of samples."""

some_samples = st.lists(st.integers(1, 60), min_size=1, max_size=30).map(sorted).map(np.array)


def naive_index(samples: list[int], attained: int) -> Fraction:
    """The definition word by word."""
    above = [s for s in samples if s > attained]
    rates = [
        Fraction(sum(s <= x for s in above), sum(min(s, x) - attained for s in above)) for x in set(above)
    ]
    return max(rates, default=Fraction(0))


def test_the_index_of_four_samples() -> None:
    # Example 6.G, in halves. G(0): 2 of 4 jobs by 1, in 4 x 1. G(1/2): 2 in 4 x 1/2. G(1): 1 in 2 x 1.
    # G(2): 1 in 6. G(4): 1 in 4. Nothing is above 8.
    samples = np.array([2, 2, 4, 16])
    found = [gittins_index(samples, attained) * 2 for attained in (0, 1, 2, 4, 8, 16)]
    assert found == [Fraction(1, 2), 1, Fraction(1, 2), Fraction(1, 6), Fraction(1, 4), 0]


@given(samples=some_samples, attained=st.integers(0, 70))
def test_the_index_is_that_of_the_definition(samples: np.ndarray, attained: int) -> None:
    assert gittins_index(samples, attained) == naive_index(samples.tolist(), attained)


@given(samples=some_samples, attained=st.integers(0, 70), others=st.integers(1, 3))
def test_large_numbers_are_compared_exactly(samples: np.ndarray, attained: int, others: int) -> None:
    # A factor of 2^55 divides every index; doubles cannot tell its neighbours apart.
    large = samples.astype(np.int64) * 2**55
    assert gittins_index(large, attained * 2**55) * 2**55 == gittins_index(samples, attained)
    moved = gittins_index(large + others, attained * 2**55)
    assert moved == naive_index((large + others).tolist(), attained * 2**55)


def test_deciles_are_samples_and_each_is_there_once() -> None:
    # 10, 20, 30 ... % of four samples are reached by the first, first, second, ... of them.
    assert distinct_deciles(np.array([1, 1, 2, 8])).tolist() == [1, 2, 8]
    assert distinct_deciles(np.arange(1, 101)).tolist() == list(range(10, 100, 10))
    assert distinct_deciles(np.array([7])).tolist() == [7]


def test_samples_are_gpus_times_run_time_of_the_jobs_that_have_both(tmp_path: Path) -> None:
    jobs = [Job(0, 2, 3), Job(0, 1, 5), Job(0, 0, 7), Job(0, 4, 0), Job(0, 0.5, 1)]
    found = service_samples(stored(tmp_path / "h.parquet", jobs))
    assert (found / MILLI_GPU_US).tolist() == [0.5, 5, 6]


def two_sizes(tmp_path: Path) -> str:
    """Jobs of 1 GPU-s, and one in five of 10."""
    return str(stored(tmp_path / "h.parquet", [Job(0, 1, 1)] * 4 + [Job(0, 1, 10)]))


def test_a_job_near_its_end_is_served_before_one_that_has_just_passed_the_short_jobs(tmp_path: Path) -> None:
    # One GPU, limits 1 and 8.75. G(0) = 4/5, G(1) = 1/9, G(8.75) = 4/5: queues 0 and 2 are one.
    # J1 (10 s) 0-4; J2 (1 s) comes at 4 and goes first, 4-5; J1 goes on and has 8.75 at 9.75. J3, which comes
    # at 10, waits until J1 ends at 11, and J4, which comes at 10.5, comes after it.
    world = world_of([Job(0, 1, 10), Job(4, 1, 1), Job(10, 1, 1), Job(10.5, 1, 3)], [1])
    result = replay(world, "gittins", history=two_sizes(tmp_path), limits_gpu_s=(1, 8.75))
    assert times_of(result) == {"J1": (0, 11), "J2": (4, 5), "J3": (11, 12), "J4": (12, 15)}
    levels = [(time, count) for time, event, _, count in events_of(result, "J1") if event == "level"]
    assert levels == [(1, 1), (9.75, 2)]
    assert (result.loop, result.loop_reason) == ("general", "the policy decides in Python")
    # Under las J3 and J4 go first.
    las = replay(world, "las", limits_gpu_s=(1, 8.75))
    assert times_of(las)["J1"] == (0, 15)


def test_with_the_deciles_of_two_sizes_the_queues_are_those_of_las(tmp_path: Path) -> None:
    # Deciles 1 and 10: G = 4/5, 1/9, 0 falls with the queue.
    world = world_of([Job(k, 1 + k % 2, 1 + 3 * (k % 4)) for k in range(12)], [2])
    gittins = replay(world, "gittins", history=two_sizes(tmp_path))
    las = replay(world, "las", limits_gpu_s=(1, 10), loop="general")
    assert fingerprint(gittins) == fingerprint(las)


@pytest.mark.slow
@settings(max_examples=instances(60, 5))
@given(data=st.data())
def test_a_job_runs_only_if_no_waiting_job_has_a_larger_index(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One GPU, whole seconds and a limit at each of them: a plain list of jobs, second by second."""
    sizes = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    jobs = data.draw(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 7)), min_size=1, max_size=7))
    path = tmp_path_factory.mktemp("gittins") / "h.parquet"
    history = str(stored(path, [Job(0, 1, size) for size in sizes]))
    rows = [Job(submit, 1, size) for submit, size in sorted(jobs)]
    result = replay(world_of(rows, [1]), "gittins", history=history, limits_gpu_s=tuple(range(1, 8)))
    assert column_of(result, "finish_s") == second_by_second(rows, sizes)


def second_by_second(rows: list[Job], sizes: list[int]) -> dict[str, float]:
    done, first, now = [0] * len(rows), [np.inf] * len(rows), 0
    ends: dict[str, float] = {}
    while len(ends) < len(rows):
        here = [j for j, row in enumerate(rows) if row.submit_s <= now and f"J{j + 1}" not in ends]
        if here:
            job = min(here, key=lambda j: (-naive_index(sizes, done[j]), first[j], j))
            first[job] = min(first[job], now)
            done[job] += 1
            if done[job] == rows[job].duration_s:
                ends[f"J{job + 1}"] = float(now + 1)
        now += 1
    return ends


def test_jobs_without_gpus_count_as_a_thousandth_of_one(tmp_path: Path) -> None:
    # No job of the run has GPUs; its service does not count cores, as the samples are of GPUs.
    result = replay(world_of([Job(0, 0, 3000)], [1]), "gittins", history=two_sizes(tmp_path))
    assert [event[0] for event in events_of(result, "J1") if event[1] == "level"] == [1000]


def test_a_run_without_a_history_is_refused_with_the_mend(capsys: pytest.CaptureFixture[str]) -> None:
    assert describe_policy("gittins").needs == "-p history=FILE"
    told = complaint(
        capsys, "run", "--workload", str(HISTORY), "--cluster", "pool-368", "--policy", "gittins"
    )
    assert "history is missing; name a workload file of earlier jobs by -p history=FILE.parquet" in told


def test_bundled_histories_are_what_synth_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for profile, file in BUNDLED.items():
        drawn = tmp_path / f"{profile}.parquet"
        answer(capsys, "synth", profile, "-n", "1000", "--seed", "1000", "-o", str(drawn), "--json")
        np.testing.assert_array_equal(service_samples(file), service_samples(drawn))
        assert create_policy("gittins", {"history": profile}).input_files() == {"history": file}


def test_a_history_without_samples_or_that_is_no_workload_is_refused_by_name(tmp_path: Path) -> None:
    useless = stored(tmp_path / "h.parquet", [Job(0, 0, 7), Job(0, 4, 0)])
    world = world_of([Job(0, 1, 1)], [1])
    with pytest.raises(InvalidInputError, match=r"h\.parquet: of 2 jobs none has both GPUs and a run time; "):
        replay(world, "gittins", history=str(useless))
    (tmp_path / "no.parquet").write_text("nothing")
    for name in ("no.parquet", "missing.parquet"):
        with pytest.raises(InvalidInputError, match=name.replace(".", r"\.")):
            replay(world, "gittins", history=str(tmp_path / name))


@pytest.mark.parametrize("limits", [(), (2.0, 1.0), (1.0, 1.0), (1e10,), tuple(map(float, range(1, 17)))])
def test_limits_are_few_and_increase(limits: tuple[float, ...]) -> None:
    with pytest.raises(InvalidScenarioError, match=r"gittins: limits_gpu_s must be 1 to 15 increasing"):
        create_policy("gittins", {"history": str(HISTORY), "limits_gpu_s": limits})


def test_the_content_of_the_history_is_part_of_a_runs_identity_and_its_place_is_not(tmp_path: Path) -> None:
    def content_hash(history: Path) -> str:
        inputs = {"workload": str(HISTORY), "cluster": "pool-368"}
        scenario = {**inputs, "policy": "gittins", "params": {"history": str(history)}}
        return HashedInputs().identify(parse_scenario(scenario, "x")).content_hash

    copy, other = tmp_path / "copy.parquet", stored(tmp_path / "other.parquet", [Job(0, 1, 5)])
    copy.write_bytes(HISTORY.read_bytes())
    assert content_hash(HISTORY) == content_hash(copy) != content_hash(other)
