"""Look-up of measured speeds: gaps, zeros, numbers of GPUs that were not measured, pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.model.measured_speeds import PairRow, SpeedRow, SpeedTable
from ray_sim.model.units import FloatArray

TABLE = SpeedTable(
    "by hand",
    rows=(
        SpeedRow("net", 64, 1, "a", True, 4.0),
        SpeedRow("net", 64, 1, "b", True, 0.0),
        SpeedRow("net", 64, 2, "a", False, 5.0),
        SpeedRow("net", 64, 2, "a", True, 7.0),
        SpeedRow("net", 64, 2, "b", True, 3.0),
        SpeedRow("net", 128, 2, "b", True, 0.0),
        SpeedRow("walk", None, 1, "a", True, 2.0),
    ),
    pairs=(
        PairRow("a", "net", 64, "walk", None, 3.0, 1.5),
        PairRow("a", "walk", None, "walk", None, 0.0, 0.0),
    ),
)
NONE = np.nan


def looked_up(model: str, batch: float, gpus: int, *, nearest: bool = False) -> FloatArray:
    """(2, T) speeds of one job on one server and over several, on the types b, a, c."""
    found = TABLE.speeds([model], np.array([batch]), np.array([gpus]), ["b", "a", "c"], nearest=nearest)
    speeds: FloatArray = found[0].T
    return speeds


@pytest.mark.parametrize(
    ("model", "batch", "gpus", "consolidated", "apart"),
    [
        # One GPU is on one server, however it is held; 0 was measured, type c was not.
        ("net", 64, 1, [0, 4, NONE], [0, 4, NONE]),
        ("walk", NONE, 1, [NONE, 2, NONE], [NONE, 2, NONE]),
        ("net", 64, 2, [3, 7, NONE], [NONE, 5, NONE]),
        ("net", 128, 2, [0, NONE, NONE], [NONE, NONE, NONE]),
        ("net", 128, 4, [NONE] * 3, [NONE] * 3),
        ("net", NONE, 1, [NONE] * 3, [NONE] * 3),
        ("other", 64, 1, [NONE] * 3, [NONE] * 3),
    ],
)
def test_a_speed_is_found_by_model_batch_gpus_and_type(
    model: str, batch: float, gpus: int, consolidated: list[float], apart: list[float]
) -> None:
    np.testing.assert_array_equal(looked_up(model, batch, gpus), [consolidated, apart])


def test_jobs_keep_their_order_and_a_workload_without_jobs_has_no_speeds() -> None:
    found = TABLE.speeds(["walk", "net", "walk"], np.array([NONE, 64, NONE]), np.array([1, 2, 1]), ["a"])
    assert found.tolist() == [[[2, 2]], [[7, 5]], [[2, 2]]]
    assert TABLE.speeds([], np.empty(0), np.empty(0, np.int64), ["a", "b"]).shape == (0, 2, 2)


def test_more_gpus_than_measured_go_in_proportion_to_the_largest_number_that_was() -> None:
    # 6 GPUs are 3 times 2: 7, 3 and 5 become 21, 9 and 15.
    np.testing.assert_array_equal(looked_up("net", 64, 6, nearest=True), [[9, 21, NONE], [NONE, 15, NONE]])
    # From one GPU the speed apart is that on one server.
    np.testing.assert_array_equal(looked_up("walk", NONE, 2, nearest=True), [[NONE, 4, NONE]] * 2)
    # Measured numbers stay, and nothing is below the least.
    np.testing.assert_array_equal(looked_up("net", 64, 2, nearest=True), looked_up("net", 64, 2))
    assert np.isnan(looked_up("net", 128, 1, nearest=True)).all()


def test_speeds_of_a_pair_are_those_of_its_order() -> None:
    speed = TABLE.pair_speeds(["walk", "net", "net"], np.array([NONE, 64, 128]), ["c", "a"])
    assert speed.shape == (3, 3, 2, 2)
    assert np.isnan(speed[..., 0]).all()
    np.testing.assert_array_equal(
        speed[..., 1],
        [
            [[0, 0], [1.5, 3], [NONE, NONE]],
            [[3, 1.5], [NONE, NONE], [NONE, NONE]],
            [[NONE, NONE]] * 3,
        ],
    )


def test_the_digest_is_of_rows_and_pairs_and_not_of_the_name() -> None:
    assert replace(TABLE, name="other").sha256 == TABLE.sha256
    assert replace(TABLE, pairs=()).sha256 != TABLE.sha256
    assert replace(TABLE, rows=TABLE.rows[1:]).sha256 != TABLE.sha256
