"""Statements of work in rounds: worths and distributions are those of each statement by itself."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_sim.contract.rigid_worlds import job_table
from ray_sim.engine.kinds.announced.rounds import RoundedJobs, rounded_jobs
from ray_sim.model.job import StatementProfile
from ray_sim.model.outlook import parse_outlook
from ray_sim.model.statement import NANO
from ray_sim.model.units import US_PER_S
from ray_sim.model.value_function import parse_value
from tests.proofs import instances

SLOT_S = 60.0
VALUES = (
    *("deadline 3 600", "deadline 0 0", "deadline 1.3 0", "deadline 7 59.999999", "deadline 2 60"),
    *("step 8@300 4@600 1@900", "step 8@1 4@2 1@61", "step 2@0", "step 5@60 5@120 0@180"),
    *("linear 4 0 600", "linear 2 100 130", "table 0:3 50:2 61:2 900:1", "sigmoid 4 0.01 300 800"),
)
OUTLOOKS = (
    *("0:60:0.5 0:180:0.5", "60:120:1", "0:1:0.25 10:50:0.25 20:30:0.5", "10:100:0.5 20:50:0.5"),
    *("10:500:0.25 20:50:0.25 61:1:0.5", "0:0:0.5 5:61:0.25 6:60:0.25"),
)


def _rounded(values: list[str], outlooks: list[str], signal: str) -> RoundedJobs:
    n = max(len(values), len(outlooks))
    table = job_table([(0.0, 1, 60.0, "a") for _ in range(n)])
    zero, one = np.zeros(n, dtype=np.int64), np.ones(n)
    profile = StatementProfile(
        birth_us=zero,
        arrival_us=zero,
        values=tuple(map(parse_value, values)),
        value_row=zero,
        outlooks=tuple(map(parse_outlook, outlooks)),
        outlook_row=zero,
        reported_value_row=zero,
        reported_outlook_row=zero,
        reported_gpus=one,
    )
    return rounded_jobs(table, profile, int(SLOT_S * US_PER_S), signal, one.astype(np.int64))


@settings(max_examples=instances(300, 30))
@given(st.lists(st.sampled_from(VALUES), min_size=1, max_size=8))
def test_each_row_of_worths_is_the_function_at_the_rounds(values: list[str]) -> None:
    worth = _rounded(values, ["0:60:1"], "none").true.values
    delay_s = np.arange(worth.shape[1], dtype=np.float64) * SLOT_S
    for row, text in enumerate(values):
        np.testing.assert_array_equal(worth[row], np.rint(parse_value(text).at(delay_s) * NANO))
    assert (worth[:, -1] == 0).all()


@settings(max_examples=instances(300, 30))
@given(
    st.lists(st.sampled_from(OUTLOOKS), min_size=1, max_size=8), st.sampled_from(["none", "partial", "full"])
)
def test_points_that_fall_together_are_one_and_the_order_is_that_of_a_row(
    outlooks: list[str], signal: str
) -> None:
    found = _rounded(["deadline 1 600"], outlooks, signal).true.outlooks
    assert found.ptr[-1] == len(found.arrival)
    for row, text in enumerate(outlooks):
        sums: dict[tuple[int, int], float] = {}
        alone = parse_outlook(text)
        for after_s, run_s, share in zip(
            alone.arrival_after_s, alone.duration_s, alone.probability, strict=True
        ):
            point = (int(-(-after_s // SLOT_S)), max(1, int(-(-run_s // SLOT_S))))
            sums[point] = sums.get(point, 0.0) + share
        mine = slice(found.ptr[row], found.ptr[row + 1])
        points = list(zip(found.arrival[mine].tolist(), found.duration[mine].tolist(), strict=True))
        assert dict(zip(points, found.probability[mine].tolist(), strict=True)) == sums
        assert points == sorted(sums)
