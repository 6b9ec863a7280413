"""Upload delays and processing factors of pairs of a job and a server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidScenarioError, problems_text
from ray_sim.model.job import JobTable
from ray_sim.model.units import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PairTimes:
    """Upload delay and processing factor by class of the job (A classes) and of the server (B classes)."""

    job_class: IntArray
    """(J,)."""
    server_class: IntArray
    """(S,)."""
    upload_s: FloatArray
    """(A, B); NaN is the job's own delay, that of its column for the server's side."""
    factor: FloatArray
    """(A, B) on the time of a mini-batch without communication, > 0."""

    @classmethod
    def of(cls, table: JobTable, cluster: Cluster) -> PairTimes:
        """Look up the delays of a cluster; without any, all jobs and servers are of one class.

        Raises
        ------
        InvalidScenarioError : the delays lack a pair of a job and a server with workers
        """
        if cluster.delays is None:
            job_class, server_class = np.zeros(len(table), np.int64), np.zeros(len(cluster), np.int64)
            return cls(job_class, server_class, np.full((1, 1), np.nan), np.ones((1, 1)))
        models = [""] * len(table) if table.model is None else table.model.fill_null("").to_list()
        labels = [label or "" for label in cluster.server_class or [None] * len(cluster)]
        jobs, job_class = np.unique(models, return_inverse=True)
        servers, server_class = np.unique(labels, return_inverse=True)
        upload_s, factor = np.full((len(jobs), len(servers)), np.nan), np.ones((len(jobs), len(servers)))
        known = {(each.model, each.server_class): each for each in cluster.delays}
        trains, missing = np.unique(server_class[cluster.in_cloud | (cluster.worker_slots > 0)]), []
        for a, b in np.ndindex(upload_s.shape):
            delay = known.get((str(jobs[a]), str(servers[b])))
            if delay is not None:
                upload_s[a, b] = np.nan if delay.upload_s is None else delay.upload_s
                factor[a, b] = delay.processing_factor
            elif b in trains:
                missing.append(f"no line for model '{jobs[a]}' and server_class '{servers[b]}'")
        if missing:
            raise InvalidScenarioError(
                f"{problems_text('delays', missing)}\n  add them; '' is a job without a model, or a server "
                "without a server_class, and an empty upload_s is the workload's"
            )
        return cls(job_class, server_class, upload_s, factor)
