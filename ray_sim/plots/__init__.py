"""Pictures for notebooks: results in, matplotlib axes out.

Each function draws into the axes ``ax``, or into those of a new figure, and returns them. Results are what
`ray_sim.simulate`, `sweep` or `load` returned, the directory of a run or a sweep, or a mapping from labels to
results, where a list has one result for each seed. Colours are those of reports, which colour-blind readers
tell apart.
"""

from __future__ import annotations

from ray_sim.plots.over_time import gantt, queue, state, utilisation
from ray_sim.plots.policies import across, by_size, cdf, means

__all__ = ["across", "by_size", "cdf", "gantt", "means", "queue", "state", "utilisation"]
