from __future__ import annotations

import pytest

from workloads.formats.guessing.names import Said, said_by


@pytest.mark.parametrize(
    ("name", "role", "unit"),
    [
        ("RunMinutes", "duration_s", "min"),
        ("minutes", "duration_s", "min"),
        ("Run Time (hrs)", "duration_s", "h"),
        ("RemoteWallClockTime", "duration_s", "s"),
        ("mem_mb", "memory_gib_per_task", "mb"),
        ("gpu_milli", "num_gpus", "milli"),
        ("GPU (%)", "num_gpus", "percent"),
        ("ts_submit_us", "submit_s", "us"),
        ("status.startTime", "start", None),
        ("nnodes", "num_tasks", None),
        ("queue", "vc", None),
        ("Queue time (min)", "wait_s", "min"),
        ("gpu_model", "gpu_types", None),
        ("Login", "user", None),
    ],
)
def test_a_name_tells_a_column_and_its_unit(name: str, role: str, unit: str | None) -> None:
    assert [(said.role, said.unit) for said in said_by(name)] == [(role, unit)]


@pytest.mark.parametrize(
    "name", ["gpu_time", "gpu_util", "cpu_s", "exit_code", "min_duration", "shared_mem", "colour", ""]
)
def test_a_word_beside_another_quantity_tells_nothing(name: str) -> None:
    assert list(said_by(name)) == []


def test_a_demand_is_of_a_task_or_of_the_job_where_the_name_says_so() -> None:
    assert [said.whole for name in ("gpus_per_node", "total_gpus", "gpus") for said in said_by(name)] == [
        False,
        True,
        None,
    ]


def test_our_own_names_have_our_units() -> None:
    assert list(said_by("duration_s")) == [Said("duration_s", unit="s")]
    assert list(said_by("memory_gib_per_task")) == [Said("memory_gib_per_task", unit="gib", whole=False)]
