"""Streams of jobs: orders drawn by seed, orders of a file, and the published orders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.model.errors import InvalidWorkloadError
from tests.packed_pods import orders, pod_list
from workloads.stream import draw_order, rows_of_order, stream_jobs

Jobs = Callable[..., pl.DataFrame]
SIZES = [0.5, 1.0, 2.0, 0.0, 0.25]


def asked(frame: pl.DataFrame, rows: np.ndarray) -> float:
    return float(frame["num_gpus"].to_numpy()[rows].sum())


@pytest.mark.parametrize("seed", range(20))
def test_all_jobs_come_once_in_any_order_and_then_some_again_up_to_the_load(jobs: Jobs, seed: int) -> None:
    frame = jobs(5, num_gpus=SIZES)
    # 3.75 GPUs are asked for; 10 GPUs at load 1.3 are 13.
    rows, servers = draw_order(frame, 1.3, 10_000, 4, seed)
    assert sorted(rows[:5]) == [0, 1, 2, 3, 4]
    assert sorted(servers) == [0, 1, 2, 3]
    # What is appended last fits by its demand per GPU, at most 1, so 2 GPUs exceed the load by at most 1. The
    # next one, at most 1 GPU by that measure, does not fit any more.
    assert 12 < asked(frame, rows) <= 14
    assert asked(frame, rows[:-1]) <= 13


@pytest.mark.parametrize("seed", range(20))
def test_where_jobs_ask_for_more_than_the_load_some_are_left_out(jobs: Jobs, seed: int) -> None:
    frame = jobs(5, num_gpus=SIZES)
    rows, _ = draw_order(frame, 1.5, 2_000, 4, seed)
    assert len(set(rows)) == len(rows) < 5
    # Each job has at most 2 GPUs, and without the last that was left out they were above 3.
    assert 1 < asked(frame, rows) <= 3


def test_orders_follow_the_seed_and_the_names_and_not_the_rows(jobs: Jobs) -> None:
    frame = jobs(5, num_gpus=SIZES)
    turned = frame.reverse()
    names = [
        [table["job_id"][int(row)] for row in draw_order(table, 1.3, 10_000, 4, seed).jobs]
        for table in (frame, turned)
        for seed in (1, 2)
    ]
    assert names[0] == names[2] != names[1] == names[3]


def test_every_order_of_a_list_that_suffices_is_drawn_equally_often(jobs: Jobs) -> None:
    frame = jobs(3)
    drawn = Counter(tuple(draw_order(frame, 0.3, 10_000, 2, seed).jobs) for seed in range(600))
    # 3 GPUs are the load itself: 6 orders, 100 each, sd 9.
    assert len(drawn) == 6
    assert all(abs(count - 100) < 40 for count in drawn.values())


def test_jobs_without_gpus_reach_no_load(jobs: Jobs) -> None:
    with pytest.raises(InvalidWorkloadError, match="no job asks for a GPU"):
        draw_order(jobs(2, num_gpus=[0.0, 0.0]), 1.3, 10_000, 2, 0)


def test_jobs_of_a_stream_come_one_per_second_and_stay_until_all_have_come(jobs: Jobs) -> None:
    frame = stream_jobs(jobs(3), np.array([2, 0, 2, 1, 2]))
    assert frame["job_id"].to_list() == ["job-2", "job-0", "job-2@2", "job-1", "job-2@4"]
    assert frame["submit_s"].to_list() == [0, 1, 2, 3, 4]
    assert frame["duration_s"].to_list() == [5] * 5
    assert frame["trace_order"].to_list() == [0, 1, 2, 3, 4]
    assert frame.schema == jobs(3).schema


def test_numbers_of_an_order_are_places_in_the_trace(jobs: Jobs) -> None:
    frame = jobs(4)[[3, 0, 2, 1]]
    rows = rows_of_order(frame, np.array([1, 3, 0, 2, 1]))
    assert frame["job_id"].gather(rows).to_list() == ["job-1", "job-3", "job-0", "job-2", "job-1"]


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([0, 1, 2, 4], "number 4 of the order is of 0 among the 4 jobs"),
        ([-1], "number -1 of the order is of 0"),
        ([0, 1, 0], "jobs of the order arrive again and 2 of 4 never"),
    ],
)
def test_orders_of_other_lists_are_refused(jobs: Jobs, numbers: list[int], problem: str) -> None:
    with pytest.raises(InvalidWorkloadError, match=problem):
        rows_of_order(jobs(4), np.array(numbers))


def test_numbers_that_several_jobs_have_are_refused(jobs: Jobs) -> None:
    frame = jobs(3, trace_order=[0, 0, 1])
    with pytest.raises(InvalidWorkloadError, match="number 0 of the order is of 2 among"):
        rows_of_order(frame, np.array([1, 0]))


@pytest.mark.parametrize("name", ["default", "cpu250", "gpushare100", "multigpu50"])
def test_the_published_orders_are_such_streams(shared_data: Path, jobs: Jobs, name: str) -> None:
    # Not the same draws, but the same rule: all pods and a tail up to the load, or some left out.
    folder = shared_data / "data/fgd"
    pods = pod_list(folder, name)
    each, capacity = pods.gpu * pods.gpus, 6_212_000
    for seed in (42, 43):
        order = np.array(orders(folder, name, seed)["pods"])
        n = len(each)
        if name == "multigpu50":
            assert len(set(order)) == len(order) < n
        else:
            assert sorted(order[:n]) == list(range(n))
        assert each[order[:-1]].sum() <= 1.3 * capacity < each[order].sum() + 8_000
