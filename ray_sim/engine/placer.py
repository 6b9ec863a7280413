"""A placement rule with its work space, for kernels of policies that plan ahead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.engine.order import never_fits
from ray_sim.engine.scoring import placement_state, scoring_of
from ray_sim.engine.states import State
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import Pool
from ray_sim.kernels.core.placement import QUEUE_RULES
from ray_sim.kernels.core.queue_arrays import new_scratch
from ray_sim.model.streams import Streams

if TYPE_CHECKING:
    from ray_sim.engine.view import View


class Placer:
    """Arguments of `ray_sim.kernels.core.placement.place` for the jobs of a world."""

    def __init__(self, world: World, placement: str, streams: Streams | None = None) -> None:
        scoring = scoring_of(world, placement)
        self.rule = QUEUE_RULES.index(placement)
        self.arrays = world.arrays
        self.verdict = never_fits(world, placement)
        """(C,) why no job of a class ever fits, 0 where it does."""
        self.row_bound = world.row_bound
        """Most rows of placements that exist at a time."""
        self.tries = np.zeros(0 if scoring is None else len(world.table), dtype=np.int64)
        """(J,) starts of each job, which tell its draws apart; empty where the rule draws none."""
        self.scratch = new_scratch(
            world.arrays, scoring, None if scoring is None else self.tries, placement_state(streams)
        )

    def pool(self, view: View) -> Pool:
        """What jobs hold at a decision; kernels only read it."""
        return view.placements._pool

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {"tries": self.tries.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self.tries[:] = state["tries"]
