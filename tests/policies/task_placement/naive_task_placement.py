"""The rules of task placement, task by task over all servers; shares no code with the policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray_sim.model.job import TrainingProfile
from ray_sim.model.slowdown_coefficients import parse_coefficients
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.task_placement.least_interference import BUNDLED
from ray_sim.policy_api import PARAMETER_SERVER, WORKER, ElasticView


class NaiveTaskPlacement:
    """What the rule says, task by task over all servers, from what a view shows."""

    def __init__(self, policy: str, world: Any, table: FloatArray, ties: str = "load") -> None:
        self.policy, self.world, self.table, self.ties = policy, world, table, ties
        self.names = parse_coefficients(BUNDLED.read_bytes(), "bundled").types

    def kind(self, job: int) -> int:
        training: TrainingProfile = self.world.table.training
        return self.names.index(training.model_names[training.model[job]])

    def slowdown(self, job: int, others: Mapping[int, int]) -> float:
        factor = 1.0
        for other, tasks in sorted(others.items()):
            for power, table in enumerate(self.table, start=1):
                factor += table[self.kind(job), other] * float(tasks) ** power
        return factor

    def score(
        self, job: int, server: int, free: IntArray, beside: list[dict[int, int]], own: int
    ) -> tuple[float, ...]:
        capacity = self.world.cluster.capacity[server].tolist()
        load = sum(
            (whole - have) / whole for whole, have in zip(capacity, free[server], strict=True) if whole
        )
        left = sum(have / whole for whole, have in zip(capacity, free[server], strict=True) if whole)
        if self.policy == "load_balance":
            return (load,)
        if self.policy == "tetris_packing":
            return (left,)
        return (self.slowdown(job, beside[server]), -own if self.ties == "own_job" else 0, load)

    def place(
        self, job: int, free: IntArray, up: Sequence[bool], beside: list[dict[int, int]]
    ) -> dict[tuple[int, int], int] | None:
        """Tasks by server and role; ``free`` is as before if they do not fit."""
        arrays = self.world.arrays
        asked: dict[tuple[int, int], int] = {}
        before = free.copy()
        training = self.world.table.training
        numbers = (int(training.num_workers[job]), int(training.num_ps[job]))
        for role, demand in (
            (WORKER, training.worker_demand[job]),
            (PARAMETER_SERVER, training.ps_demand[job]),
        ):
            for _ in range(numbers[role]):
                fitting = [
                    server
                    for server in range(len(free))
                    if up[server]
                    and arrays.server_part[server] == arrays.job_part[job]
                    and (free[server] >= demand).all()
                ]
                if not fitting:
                    free[:] = before
                    return None
                own = [sum(asked.get((server, role), 0) for role in (0, 1)) for server in range(len(free))]
                scores = {server: self.score(job, server, free, beside, own[server]) for server in fitting}
                best = min(fitting, key=lambda server: (*scores[server], server))
                free[best] -= demand
                asked[best, role] = asked.get((best, role), 0) + 1
        return asked

    def decide(self, view: ElasticView) -> tuple[dict[int, dict[tuple[int, int], int]], list[int]]:
        """Placements of the jobs that start, and the jobs that are rejected."""
        free, beside = view.free.copy(), [dict[int, int]() for _ in view.available]
        now = view.placements.of(view.running)
        if self.policy.startswith("lif"):
            for job, server, count in zip(now.job, now.server, now.count, strict=True):
                here, kind = beside[server], self.kind(job)
                here[kind] = here.get(kind, 0) + int(count)
        found, never = {}, []
        for job in view.waiting.tolist():
            asked = self.place(job, free, view.available.tolist(), beside)
            if asked is not None:
                found[job] = asked
                for (server, _), count in asked.items():
                    if self.policy.startswith("lif"):
                        beside[server][self.kind(job)] = beside[server].get(self.kind(job), 0) + count
            elif job in view.arrived.tolist():
                everything = self.world.cluster.capacity.copy()
                empty = [dict[int, int]() for _ in everything]
                if self.place(job, everything, [True] * len(everything), empty) is None:
                    never.append(job)
        return found, never
