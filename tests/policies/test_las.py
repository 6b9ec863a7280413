from __future__ import annotations

import numpy as np
import pytest

from ray_sim.engine.run import Loop
from ray_sim.kernels.attained import crossing_us, level_of, promotion_us
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.policies.las import Las
from tests.worlds import Job, fingerprint, replay, world_of

STARVING = [Job(0, 1, 6), Job(1, 1, 2), Job(3, 1, 2), Job(5, 1, 2)]


@pytest.mark.parametrize("loop", ["auto", "general"])
def test_a_knob_beyond_the_clock_is_no_knob(loop: Loop) -> None:
    # 2 s of service times 1e18 is more than the clock holds: J1 is promoted never, not at once.
    world = world_of(STARVING, [1])
    never = fingerprint(replay(world, "las", loop=loop, limits_gpu_s=(2,)))
    for knob in (1e18, 1e300):
        assert fingerprint(replay(world, "las", loop=loop, limits_gpu_s=(2,), knob=knob)) == never


@pytest.mark.parametrize("limits", [(), (5.0, 5.0), (7.0, 2.0), tuple(map(float, range(1, 17))), (1e10,)])
def test_limits_must_be_few_increase_and_be_countable(limits: tuple[float, ...]) -> None:
    # 1e10 GPU-s are 1e19 milli-GPU microseconds, more than 64 bits hold.
    with pytest.raises(InvalidScenarioError, match="limits_gpu_s"):
        Las(limits_gpu_s=limits)


def test_a_job_crosses_a_limit_at_the_first_microsecond_that_reaches_it() -> None:
    limits = np.array([10, 25])
    assert [level_of(service, limits) for service in (0, 9, 10, 24, 25, 1000)] == [0, 0, 1, 1, 2, 2]
    # With 3 GPUs from service 0, 10 is reached in ceil(10 / 3) = 4; from 12, 25 in ceil(13 / 3) = 5.
    assert [crossing_us(service, 3, limits) for service in (0, 12, 25)] == [4, 5, -1]


def test_promotion_comes_after_the_whole_wait() -> None:
    # 7 us x 1.5 = 10.5, so 11.
    assert [promotion_us(7, knob) for knob in (1.0, 1.5, 2.0)] == [7, 11, 14]
