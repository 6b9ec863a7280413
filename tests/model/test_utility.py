"""What a completion is worth."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.job import UtilityProfile
from ray_sim.model.utility import check_utility, delay_s, utility

ONE = np.array([0])
SLOT_US = 10_000_000


def worth(*, most: float = 8.0, decay: float = 0.5, due: float = 20.0) -> UtilityProfile:
    return UtilityProfile(np.array([most]), np.array([decay]), np.array([due]))


def test_half_is_left_when_a_job_is_due() -> None:
    assert utility(worth(), ONE, np.array([20.0])) == pytest.approx(4.0)
    assert utility(worth(), ONE, np.array([22.0])) == pytest.approx(8 / (1 + np.e))
    assert utility(worth(decay=0.0), ONE, np.array([0.0, 1e9])) == pytest.approx([4.0, 4.0])


def test_it_never_rises_and_never_overflows() -> None:
    times = np.concatenate([[0.0], np.geomspace(1e-3, 1e11, 500)])
    values = utility(worth(decay=2.0**20), ONE, times)
    assert (np.diff(values) <= 0).all()
    assert values[0] == 8.0
    assert values[-1] == 0.0


@pytest.mark.parametrize(
    ("submit_us", "end_us", "slots"),
    [
        (0, 1, 0),  # in slot 0
        (0, SLOT_US, 0),  # the end of slot 0 is in it
        (0, SLOT_US + 1, 0),  # the clock rounded up
        (0, SLOT_US + 2, 1),
        (SLOT_US, 2 * SLOT_US, 0),
        (1, SLOT_US, 0),  # its first slot is slot 1; done before counts as none
        (1, 3 * SLOT_US, 1),
        (0, 0, 0),  # nothing to train
    ],
)
def test_the_delay_is_from_the_first_slot_of_a_job_to_its_last(
    submit_us: int, end_us: int, slots: int
) -> None:
    found = delay_s(np.array([end_us]), np.array([submit_us]), SLOT_US)
    assert found.tolist() == [slots * 10.0]


def test_without_slots_it_is_the_completion_time() -> None:
    assert delay_s(np.array([2_500_000]), np.array([1_000_000]), None).tolist() == [1.5]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            worth(decay=-0.1),
            "utility_decay_per_s: row 0 must be at least 0, is -0.1; a utility must not increase",
        ),
        (worth(most=-1.0), "utility_max: row 0 must be at least 0, is -1"),
        (worth(due=np.nan), "utility_due_s: row 0"),
        (worth(most=np.inf), "utility_max: row 0"),
    ],
)
def test_a_worth_that_cannot_be_is_refused(wrong: UtilityProfile, text: str) -> None:
    check_utility(worth())
    with pytest.raises(InvalidInputError, match=text):
        check_utility(wrong)
