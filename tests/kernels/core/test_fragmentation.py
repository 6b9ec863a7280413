"""The target and the fragments of a server: published numbers, and examples by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.kernels.core.fragmentation import (
    FRAGMENT_CLASSES,
    TypicalTask,
    fragments,
    new_target,
    typical_tasks,
)
from tests.packed_pods import pod_list

HALF, WHOLE, CPU = (4000, 500, 1, ""), (8000, 1000, 1, ""), (2000, 0, 0, "")
TARGET = [TypicalTask(*HALF, 0.5), TypicalTask(*WHOLE, 0.3), TypicalTask(*CPU, 0.2)]


def fragments_of(tasks: list[TypicalTask], cpu: int, device: list[int], kind: str | None = None) -> float:
    return fragments(new_target(tasks, [kind]), cpu, np.array(device), 0, np.zeros(7))


@pytest.mark.parametrize(
    ("cpu", "device", "expected"),
    [
        # Half a GPU fits. The whole one lacks CPU and the CPU task uses no GPU: all are fragments.
        (6000, [600, 1000], 0.3 * 1600 + 0.2 * 1600),
        # With 12 cores only the first device is too small for a whole GPU.
        (12000, [600, 1000], 0.3 * 600 + 0.2 * 1600),
        (4000, [200, 1000], 0.5 * 200 + 0.3 * 1200 + 0.2 * 1200),
        (6000, [600, 600], 0.3 * 1200 + 0.2 * 1200),
        (6000, [0, 0], 0.0),
    ],
)
def test_fragments_are_what_each_typical_task_cannot_use(
    cpu: int, device: list[int], expected: float
) -> None:
    assert fragments_of(TARGET, cpu, device) == pytest.approx(expected, abs=1e-9)


def test_the_classes_say_what_is_missing_and_sum_to_what_is_free() -> None:
    tasks = [TypicalTask(c, m, k, types, 0.125) for c, m, k, types in [
        (9000, 900, 1, ""),  # neither: q1
        (1000, 900, 1, ""),  # no device: q2
        (1000, 500, 1, ""),  # fits, though not on the device with 300: 300 q2, 800 q3
        (9000, 500, 1, ""),  # no CPU: q4
        (1000, 0, 0, ""),  # needs no GPU: xl
        (9000, 0, 0, ""),  # xr
        (1000, 500, 1, "T4|A10"),  # may not run here
        (1000, 500, 1, "P100"),
    ]]  # fmt: skip
    classes = np.zeros(7)
    total = fragments(new_target(tasks, ["P100"]), 8000, np.array([300, 800]), 0, classes)
    free = dict(zip(FRAGMENT_CLASSES, (8 * classes).tolist(), strict=True))
    assert free == {
        "q1_lack_both": 1100,
        "q2_lack_gpu": 1100 + 300 + 300,
        "q3_satisfied": 800 + 800,
        "q4_lack_cpu": 1100,
        "xl_satisfied": 1100,
        "xr_lack_cpu": 1100,
        "no_access": 1100,
    }
    assert total == classes.sum() - classes[2]


def test_only_lists_that_are_empty_accept_servers_without_a_type() -> None:
    tasks = [TypicalTask(*HALF, 0.5), TypicalTask(0, 1000, 1, "T4||P100", 0.5)]
    assert new_target(tasks, ["T4", None, "P100", "A10"]).accepts.tolist() == [
        [True, True, True, True],
        [True, False, True, False],
    ]


def test_the_target_has_the_most_frequent_demands_up_to_95_percent() -> None:
    # 50 + 30 = 80 %, with 16 it is 96 %.
    rare = (1000, 0, 0, "")
    typical = typical_tasks({rare: 4, CPU: 16, WHOLE: 30, HALF: 50})
    assert [(task.cpu, round(task.share, 4)) for task in typical] == [
        (4000, 0.5208), (8000, 0.3125), (2000, 0.1667),
    ]  # fmt: skip


def test_of_equal_counts_the_larger_demand_is_first_and_types_are_texts() -> None:
    a, b = (1000, 1000, 1, "V100|T4"), (1000, 1000, 1, "T4|V100")
    assert [(task.cpu, task.types) for task in typical_tasks({b: 1, CPU: 1, a: 1})] == [
        (2000, ""), (1000, "V100|T4"), (1000, "T4|V100"),
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "groups", "taken"), [("default", 91, 35), ("gpuspec33", 330, 127)])
def test_the_published_lists_have_the_published_targets(
    shared_data: Path, name: str, groups: int, taken: int
) -> None:
    tasks = pod_list(shared_data / "data/fgd", name).typical
    assert (len(set(tasks)), len(typical_tasks(Counter(tasks)))) == (groups, taken)


def test_fragments_are_those_of_the_authors_unit_tests(shared_data: Path) -> None:
    folder = shared_data / "data/fgd"
    rows = pl.read_csv(folder / "public_test_targets.csv").with_columns(pl.col("gpu_type").fill_null(""))
    targets: dict[str, list[TypicalTask]] = {}
    for name, *task in rows.iter_rows():
        targets.setdefault(name, []).append(TypicalTask(*task))
    targets["first row of with_types"] = targets["with_types"][:1]
    expected = pl.read_csv(folder / "public_test_numbers.csv").filter(pl.col("what") == "F")
    assert expected.height == 7
    for row in expected.iter_rows(named=True):
        device = [int(free) for free in row["devices_free"].split()]
        found = fragments_of(targets[row["target"]], row["cpu_milli_free"], device, row["gpu_type"])
        assert found == pytest.approx(row["expected"], abs=0.01)
