"""Split commands by site, and join the events that sites report.

Used by fleets, local and of actors. The order in which events are joined must not depend on the number of
sites: results are equal for every number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from ray_sim.engine.limits import check_sites
from ray_sim.engine.sites.part import NO_EVENTS
from ray_sim.engine.sites.site import Commands
from ray_sim.engine.states import State, joined, section
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import EVENT_JOB, EVENT_UNIT, Changes, Outages
from ray_sim.model.units import BoolArray, IntArray


class Routing:
    """Sites, each with consecutive servers, and the jobs that each site holds."""

    def __init__(self, world: World, sites: int) -> None:
        servers, jobs = len(world.cluster), len(world.table)
        check_sites(sites, servers)
        self.bounds: IntArray = np.array([i * servers // sites for i in range(sites + 1)])
        """Site i has the servers bounds[i] to bounds[i + 1] - 1."""
        # A single site gets all commands, so nothing is noted of it.
        self._holds: BoolArray = np.zeros((sites if sites > 1 else 0, jobs), dtype=np.bool_)
        self._part = world.facts.part.routing(len(self._holds), jobs)

    def split(self, commands: Commands) -> list[tuple[int, Commands]]:
        """Commands for each site that they concern, in the order of sites.

        Call it once per commands, as it notes which jobs each site then holds.
        """
        if len(self.bounds) == 2:
            return [(0, commands)]
        shares = [(i, self._share(i, commands)) for i in range(len(self.bounds) - 1)]
        return [(i, mine) for i, mine in shares if not mine.empty]

    def _share(self, i: int, commands: Commands) -> Commands:
        ended, outages, of_part = commands.ended, commands.outages, commands.part
        if of_part is not None:
            of_part = self._part.share(i, of_part, partial(self._here, i))
        if ended is not None:
            ended = ended[self._part.concerned(i, ended) | self._holds[i, ended]]
        return Commands(
            ended=None if ended is None or len(ended) == 0 else ended,
            changes=None if commands.changes is None else self._changes_on(i, commands.changes),
            outages=None if outages is None else self._outages_on(i, outages),
            part=of_part,
            first=commands.first,
        )

    def _here(self, i: int, servers: IntArray) -> BoolArray:
        here: BoolArray = (servers >= self.bounds[i]) & (servers < self.bounds[i + 1])
        return here

    def _outages_on(self, i: int, outages: Outages) -> Outages | None:
        """The outages of a site's own servers."""
        here = self._here(i, outages.server)
        if not here.any():
            return None
        return Outages(outages.time[here], outages.server[here], outages.up[here])

    def _changes_on(self, i: int, changes: Changes) -> Changes | None:
        """Changes of jobs that a site holds or will hold, with its own rows; notes the jobs it will hold."""
        n = int(changes.size[0])
        row_change = np.repeat(np.arange(n), np.diff(changes.ptr[: n + 1]))
        rows = slice(0, int(changes.ptr[n]))
        server = changes.server[rows]
        here = self._here(i, server)
        counts = np.bincount(row_change[here], minlength=n)
        jobs = changes.job[:n]
        concerned = (counts > 0) | self._holds[i, jobs]
        self._holds[i, jobs] = counts > 0
        if not concerned.any():
            return None
        return Changes(
            job=jobs[concerned],
            ptr=np.concatenate([[0], np.cumsum(counts[concerned])]).astype(np.int64),
            server=server[here],
            role=changes.role[rows][here],
            tasks=changes.tasks[rows][here],
            order=np.arange(int(concerned.sum())),
            size=np.array([int(concerned.sum())], dtype=np.int64),
        )

    def join(self, events: Sequence[IntArray]) -> IntArray:
        """Merge the sites' events of one instant, by (job, unit); events of one unit keep their order.

        Rows have the columns of `ray_sim.kernels.core.arrays`.
        """
        if not events:
            return NO_EVENTS
        joined = np.concatenate(events)
        return joined[np.lexsort((joined[:, EVENT_UNIT], joined[:, EVENT_JOB]))]

    def state(self) -> State:
        """Arrays that `restore` takes."""
        return {"holds": self._holds.copy(), **joined({"part": self._part.state()})}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        self._holds[:] = state["holds"]
        self._part.restore(section(state, "part"))
