"""How unevenly a rule spreads the parameter blocks of a job over its parameter servers.

The load of a job's parameter servers is `PsLoads`: the share of the fullest one, and the numbers of requests.
Elastic runs (`ray_sim.engine.kinds.elastic`) and `ray_sim.model.training_progress`, which bounds and profiles
use, compute step times from it. Another assignment changes the results of every run with blocks.
"""

from __future__ import annotations

import numpy as np

from ray_sim.kernels.elastic.step_time import PsLoads, even_loads
from ray_sim.model.job import BlockProfile
from ray_sim.model.parameter_blocks import BlockRule, assign
from ray_sim.model.streams import Streams
from ray_sim.model.units import IntArray


class DealtLoads:
    """Load of the parameter servers of each job where a rule assigns blocks.

    It is a pure function of a job's blocks, its number of parameter servers, the rule and the seed; results
    are cached.
    """

    def __init__(self, profile: BlockProfile, rule: BlockRule, streams: Streams) -> None:
        self._profile = profile
        self._rule = rule
        self._streams = streams
        self._known: dict[int, tuple[float, int, int]] = {}

    def of(self, jobs: IntArray, ps: IntArray) -> PsLoads:
        """Loads of jobs with these numbers of parameter servers. A job without blocks has equal slices.

        Parameters
        ----------
        jobs : (n,), repeats allowed
        ps : (n,) >= 0, below 2^32
        """
        of_job, loads = self._profile.of_job[jobs], PsLoads(*np.empty((len(PsLoads._fields), len(ps))))
        even_loads(ps, loads)
        dealt = np.flatnonzero((of_job >= 0) & (ps > 0))
        # One whole number for each pair of a list of blocks and a number of parameter servers.
        keys, place = np.unique((of_job[dealt] << 32) | ps[dealt], return_inverse=True)
        found = np.array([self._of(key) for key in keys.tolist()]).reshape(-1, len(PsLoads._fields))
        for column, values in zip(loads, found.T, strict=True):
            column[dealt] = values[place]
        return loads

    def _of(self, key: int) -> tuple[float, int, int]:
        """Fields of `PsLoads`, in their order."""
        if key not in self._known:
            blocks = self._profile.lists[key >> 32]
            dealt = assign(self._rule, blocks, key & (2**32 - 1), self._streams)
            self._known[key] = dealt.skew, max(dealt.requests), dealt.total_requests
        return self._known[key]
