"""Level 3 for jobs in chunks: chunks go to the workers in turn, parameter servers to jobs without one."""

import numpy as np

from ray_sim.policy_api import PARAMETER_SERVER, ChunkedDecision, ChunkedPolicy, Dispatch, Wake


class ChunksInTurn(ChunkedPolicy):
    """Use edge workers, or a cloud in a partition without them; each worker serves in order of dispatch."""

    wake_on = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION | Wake.SERVER_CHANGE

    def start(self, world, streams):
        self.world = world

    def decide(self, view):
        rows = []
        chunks = view.undispatched(np.union1d(view.waiting, view.running))
        for job, chunk in np.transpose(chunks).tolist():
            mine = self.workers_for(view, job)
            if len(mine):
                rows.append((job, chunk, mine[(job + chunk) % len(mine)], 0))  # equal keys: order of dispatch
        columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        return ChunkedDecision.of(self.parameter_servers(view), dispatch=Dispatch(*columns))

    def workers_for(self, view, job):
        """Available workers of the job's partition."""
        workers = self.world.workers
        mine = np.flatnonzero(self.world.server_partition[workers.server] == view.jobs.partition[job])
        edge = mine[~workers.on_demand[mine]]
        mine = edge if len(edge) else mine
        return mine[view.available[workers.server[mine]]]

    def parameter_servers(self, view):
        """Release those of jobs without a worker, and give one to each stalled job."""
        idle = view.free[:, 1].copy()  # the second resource of chunked worlds: parameter servers
        given = {job: [] for job in view.idle_holders.tolist()}
        freed = view.placements.of(view.idle_holders)
        np.add.at(idle, freed.server, freed.count)
        workers = self.world.workers
        in_cloud = np.isin(np.arange(len(idle)), workers.server[workers.on_demand])
        edge = workers.server[~workers.on_demand]
        for job in view.stalled.tolist():
            here = self.world.server_partition == view.jobs.partition[job]
            free = np.flatnonzero((idle > 0) & here & (in_cloud != here[edge].any()))
            if len(free):
                idle[free[0]] -= 1
                given[job] = [(int(free[0]), PARAMETER_SERVER, 1)]
        return given
