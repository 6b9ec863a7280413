"""The six scoring rules: examples by hand, the authors' numbers, and plain Python."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.kernels.core.fragmentation import TypicalTask, fragments, new_target
from ray_sim.kernels.core.queue_arrays import NO_ARRIVALS, Scoring, new_score_book
from ray_sim.kernels.core.server_scores import (
    FGD,
    SCORED_RULES,
    Ask,
    choose_device,
    choose_server,
    take_devices,
)
from ray_sim.model.streams import Streams
from tests import naive_scores
from tests.naive_scores import Scores, Server, Task, random_world
from tests.proofs import instances, quick_first

HALF, WHOLE, CPU = Task(4000, 0, 500, 1), Task(8000, 0, 1000, 1), Task(2000, 0, 0, 0)
TARGET = [(HALF, 0.5), (WHOLE, 0.3), (CPU, 0.2)]


class Kernels:
    """The kernels on servers of `naive_scores`, with one book of scores for all tasks."""

    def __init__(self, servers: list[Server], typical: naive_scores.Typical, most: tuple[int, int]) -> None:
        devices = max(len(each.device) for each in servers)
        kinds = sorted({each.kind for each in servers})
        tasks = [TypicalTask(task.cpu, task.gpu, task.gpus, task.types, share) for task, share in typical]
        self.kind = [each.kind for each in servers]
        self.scoring = Scoring(
            column=np.array([1, 0]),
            most=np.array(most),
            gpus=np.array([len(each.device) for each in servers]),
            kind=np.array([kinds.index(each.kind) for each in servers]),
            target=new_target(tasks, kinds),
            arrivals=NO_ARRIVALS,
        )
        self.book = book = new_score_book(self.scoring, columns=3)
        book.cpu[:] = [each.cpu for each in servers]
        self.memory = [each.memory for each in servers]
        book.device[:] = [each.device + [0] * (devices - len(each.device)) for each in servers]
        book.tags[:] = [[each.tags[tag] for tag in range(devices + 1)] for each in servers]
        self.classes: dict[Task, int] = {}

    def best(self, rule: str, task: Task, draw: int = 0) -> tuple[int, int]:
        """Server and device; (-1, -1) where the task fits nowhere."""
        pool = [i for i, kind in enumerate(self.kind) if task.gpus == 0 or task.accepts(kind)]
        for i in pool:
            enough = (self.book.device[i] >= task.gpu).sum() >= task.gpus
            fits = self.book.cpu[i] >= task.cpu and self.memory[i] >= task.memory
            self.book.holds[i] = fits and enough
        state = Streams(draw).states("placement", np.zeros(1, dtype=np.int64))[0]
        ask = Ask(self.classes.setdefault(task, len(self.classes)), task.cpu, task.gpu, task.gpus)
        number, servers = FGD + SCORED_RULES.index(rule), np.array(pool, dtype=np.int64)
        server = choose_server(number, self.scoring, servers, ask, state, self.book)
        if server < 0:
            return -1, -1
        return server, choose_device(number, self.scoring, server, ask, state, self.book)

    def score(self, task: Task, server: int) -> int:
        """The score that the last choice found."""
        return int(self.book.score[self.classes[task], server])

    def place(self, task: Task, server: int, device: int) -> None:
        take_devices(self.book.device[server], task.gpu, task.gpus, device)
        self.book.cpu[server] -= task.cpu
        self.memory[server] -= task.memory
        if task.gpus:
            self.book.tags[server, 0 if task.share_of_one else task.gpus] += 1


@pytest.mark.parametrize(
    ("cpu", "task", "device", "score"),
    [
        # F 800. On device 0 then 100 + 360 + 240 = 700, score 52; on device 1 360 + 240 = 600.
        (6000, Task(2000, 0, 400, 1), 1, 54),
        # F 500. On device 0 then 400; on device 1 600, score 47.
        (12000, Task(2000, 0, 400, 1), 0, 52),
        # Without CPU F is 1,600; with a whole GPU 300.
        (6000, Task(5000, 0, 0, 0), -1, 31),
        (6000, Task(2000, 0, 1000, 1), -1, 62),
    ],
)
def test_fgd_scores_the_growth_of_fragments_on_the_best_device(
    cpu: int, task: Task, device: int, score: int
) -> None:
    kernels = Kernels([Server(cpu, 0, [600, 1000], "")], TARGET, (128000, 8000))
    assert kernels.best("fgd", task) == (0, device)
    assert kernels.score(task, 0) == score


SHARE, PAIR = Task(4000, 0, 300, 1), Task(8000, 0, 1000, 2)


@pytest.mark.parametrize(
    ("rule", "task", "scores", "server"),
    [
        ("best_fit", SHARE, [73, 65, 73], 0),
        ("dot_product", SHARE, [98, 98, 98], 0),
        ("gpu_packing", SHARE, [97, 31, 95], 0),
        ("gpu_clustering", SHARE, [67, 43, 89], 2),
        ("best_fit", PAIR, [85, 78, 85], 0),
        ("dot_product", PAIR, [95, 95, 94], 0),
        ("gpu_packing", PAIR, [48, 31, 48], 0),
        ("gpu_clustering", PAIR, [17, 43, 14], 1),
    ],
)
def test_three_servers_get_the_scores_of_the_worked_example(
    rule: str, task: Task, scores: list[int], server: int
) -> None:
    servers = [
        Server(40000, 0, [1000, 1000, 300, 0, 0, 0, 0, 0], "", Counter({0: 1, 1: 1})),
        Server(64000, 0, [1000, 1000], ""),
        Server(20000, 0, [500, 1000, 1000, 1000], "", Counter({0: 1})),
    ]
    kernels = Kernels(servers, TARGET, (128000, 8000))
    assert kernels.best(rule, task)[0] == server
    assert [kernels.score(task, i) for i in range(3)] == scores
    naive = Scores(128000, 8000, TARGET)
    assert [getattr(naive, rule)(each, task) for each in servers] == scores


def test_gpu_packing_scores_are_those_of_the_authors_unit_tests(shared_data: Path) -> None:
    rows = pl.read_csv(shared_data / "data/fgd/public_test_numbers.csv").filter(
        pl.col("what") == "gpu_packing"
    )
    assert rows.height == 4
    for row in rows.iter_rows(named=True):
        device = [int(free) for free in row["devices_free"].split()]
        kernels = Kernels([Server(row["cpu_milli_free"], 0, device, "1080")], TARGET, (128000, 8000))
        task = Task(row["pod_cpu_milli"], 0, row["pod_gpu_milli"], row["pod_num_gpu"])
        kernels.best("gpu_packing", task)
        assert kernels.score(task, 0) == row["expected"]


@pytest.mark.parametrize("rule", quick_first([rule for rule in SCORED_RULES if rule != "random"], 2))
def test_kernels_place_as_plain_python_does(rule: str) -> None:
    rejected = placed = 0
    for seed in range(instances(300, 300)):
        servers, tasks = random_world(seed)
        typical = naive_scores.typical_tasks(tasks)
        most = max(each.cpu for each in servers), 1000 * max(1, *(len(each.device) for each in servers))
        naive, kernels = Scores(*most, typical), Kernels(servers, typical, most)
        for task in tasks:
            server, device = naive.best(rule, servers, task)
            assert kernels.best(rule, task) == (server, device), (seed, task)
            rejected, placed = rejected + (server < 0), placed + (server >= 0)
            if server >= 0:
                servers[server] = servers[server].with_task(task, device)
                kernels.place(task, server, device)
        found = [
            fragments(kernels.scoring.target, cpu, device, kind, np.zeros(7))
            for cpu, device, kind in zip(
                kernels.book.cpu, kernels.book.device, kernels.scoring.kind, strict=True
            )
        ]
        assert found == pytest.approx([naive_scores.fragments(each, typical) for each in servers], abs=1e-9)
    assert rejected > 0 < placed


def test_random_takes_each_server_and_device_that_fits_equally_often() -> None:
    servers = [Server(8000, 0, devices, "") for devices in ([300, 900], [100, 200], [400, 400], [900, 100])]
    kernels = Kernels(servers, TARGET, (8000, 2000))
    draws = [kernels.best("random", Task(0, 0, 300, 1), draw) for draw in range(600)]
    # 3 servers fit, 2 devices on each of the first two of them: 100 each, sd 9; 200 on the last, sd 12.
    counts = Counter(draws)
    assert set(counts) == {(0, 0), (0, 1), (2, 0), (2, 1), (3, 0)}
    assert all(abs(count - (200 if place == (3, 0) else 100)) < 40 for place, count in counts.items())
    assert draws == [kernels.best("random", Task(0, 0, 300, 1), draw) for draw in range(600)]
