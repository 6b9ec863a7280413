"""Figures of `ray-sim info --optimum`: the exact optimum of utility, and its certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ray_sim.engine.build_world import build_world
from ray_sim.engine.kinds.elastic.limits import certify_world_utility, whole_slots, world_optimum
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.result import UtilityCertificate
from ray_sim.solvers.utility_optimum import Optimum, SearchLimits
from workloads.job_table import frame_to_table
from workloads.sources import Source
from workloads.store import read_frame

_FACTS = ("slot_s", "horizon_s", "overcommit", "truth", "gpu_types")
"""World parameters that affect the optimum."""


@dataclass(frozen=True, slots=True)
class OptimumInfo:
    """The exact optimum of a workload on a cluster."""

    workload: str
    cluster: str
    jobs: int
    slots: int
    optimum: Optimum
    completed: dict[str, int]
    """Last slot of each job."""
    certificate: UtilityCertificate
    """Utility certificate of a run that earns the optimum."""

    @property
    def warnings(self) -> list[str]:
        """Reasons why the optimum is not exact."""
        if self.optimum.proven:
            return []
        return ["the search ended at its limit: utility is the best found, no schedule earns more than bound"]

    def to_dict(self) -> dict[str, object]:
        """Plain nested values, for JSON."""
        found = self.optimum
        return {
            "workload": self.workload,
            "cluster": self.cluster,
            "jobs": self.jobs,
            "slots": self.slots,
            "utility": found.utility,
            "bound": found.bound,
            "gap": found.gap,
            "proven": found.proven,
            "completed": self.completed,
            "certificate": asdict(self.certificate),
            "warnings": self.warnings,
        }

    def rows(self) -> list[tuple[str, object]]:
        """Label and value of each line of the printed table."""
        found, certificate = self.optimum, self.certificate
        u3 = "left out" if certificate.u3 is None else certificate.u3
        return [
            ("workload", self.workload),
            ("cluster", self.cluster),
            ("slots", self.slots),
            ("jobs", self.jobs),
            ("jobs that could not complete, even alone", certificate.hopeless),
            ("jobs that complete in the optimum", len(self.completed)),
            ("optimal utility" if found.proven else "best utility found", found.utility),
            ("no schedule earns more than", found.bound),
            ("gap to that bound", found.gap),
            ("certificate: each as early as alone, U1", certificate.u1),
            ("certificate: at prices, U2", certificate.u2),
            ("certificate: linear programme, U3", u3),
            ("gap of the certificate", certificate.gap),
        ]


def describe_optimum(
    path: Source, cluster: Cluster, facts: Mapping[str, object], limits: SearchLimits
) -> OptimumInfo:
    """Compute the largest utility that schedules in whole slots earn under the truth of PD-ORS.

    Parameters
    ----------
    facts : world parameters; slot_s and horizon_s are required
    """
    if unknown := sorted(set(facts) - set(_FACTS)):
        raise InvalidScenarioError(
            f"exact optimum: {', '.join(unknown)} has no effect; allowed: {', '.join(_FACTS)}"
        )
    table = frame_to_table(read_frame(path), cluster.resources)
    world = build_world(table, cluster, params={"truth": "pd_ors", **facts})
    found = world_optimum(world, limits)
    certificate = certify_world_utility(world, found.utility)
    assert certificate is not None
    names = world.table.job_id
    return OptimumInfo(
        workload=str(path),
        cluster=cluster.name,
        jobs=len(world.table),
        slots=whole_slots(world),
        optimum=found,
        completed={names[job]: slot for job, slot in sorted(found.completed.items())},
        certificate=certificate,
    )
