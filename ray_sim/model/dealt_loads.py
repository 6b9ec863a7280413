"""Loads of the parameter servers of jobs whose parameter blocks a rule assigns.

Elastic runs and the step times that bounds and profiles use ask for them. A change of how blocks are dealt
changes the results of every run with blocks.
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
        """Loads of jobs with these numbers of parameter servers; equal slices for jobs without blocks.

        Parameters
        ----------
        jobs : (n,), repeats allowed
        ps : (n,) >= 0, below 2^32
        """
        of_job, loads = self._profile.of_job[jobs], PsLoads(*np.empty((len(PsLoads._fields), len(ps))))
        even_loads(ps, loads)
        dealt = np.flatnonzero((of_job >= 0) & (ps > 0))
        keys, place = np.unique((of_job[dealt] << 32) | ps[dealt], return_inverse=True)
        found = np.array([self._of(key) for key in keys.tolist()]).reshape(-1, len(PsLoads._fields))
        for column, values in zip(loads, found.T, strict=True):
            column[dealt] = values[place]
        return loads

    def _of(self, key: int) -> tuple[float, int, int]:
        if key not in self._known:
            blocks = self._profile.lists[key >> 32]
            dealt = assign(self._rule, blocks, key & (2**32 - 1), self._streams)
            self._known[key] = dealt.skew, max(dealt.requests), dealt.total_requests
        return self._known[key]
