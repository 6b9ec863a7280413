"""The buffer of samples."""

from __future__ import annotations

import numpy as np

from ray_sim.learning.replay import Replay, ReplayBatch
from ray_sim.model.streams import Streams


def test_a_full_buffer_drops_the_oldest_samples_and_keeps_what_belongs_together() -> None:
    replay = Replay(5, Streams(0))
    for first in (0, 4):
        numbers = np.arange(first, first + 4)
        floats = numbers.astype(np.float64)
        entries = {"free": floats[:, None].astype(np.float32)}
        replay.put(ReplayBatch(entries, numbers, floats / 10, 2.0 * floats, 3.0 * floats))
    batch = replay.minibatch(200, 0)
    assert len(replay) == 5
    assert set(batch.action.tolist()) == {3, 4, 5, 6, 7}
    assert batch.log_probability.tolist() == (batch.action / 10).tolist()
    assert batch.returns.tolist() == (2.0 * batch.action).tolist()
    assert batch.baseline.tolist() == (3.0 * batch.action).tolist()
    assert batch.observations["free"][:, 0].tolist() == batch.action.tolist()
    assert batch.action.tolist() == replay.minibatch(200, 0).action.tolist()
    assert batch.action.tolist() != replay.minibatch(200, 1).action.tolist()
