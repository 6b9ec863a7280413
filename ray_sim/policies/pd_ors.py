"""PD-ORS: admit a job if its best schedule has more utility than cost, at prices that rise with the load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import IntArray
from ray_sim.policies.shared.plan_at_arrival import Planned
from ray_sim.policies.shared.planning_parameters import IDLE, OPTIONS, DeclaredRanges, price_parameters
from ray_sim.policies.shared.sold_plans import PricedServers
from ray_sim.policy_api import Parameter
from ray_sim.solvers.planning.alone import ends_alone
from ray_sim.solvers.planning.market import (
    Constants,
    Market,
    MarketCapacity,
    declared_constants,
    offered_load,
    traced_constants,
)
from ray_sim.solvers.planning.rounding_factor import Favour, TaskRounding
from ray_sim.solvers.planning.schedule import Outcome, Planning, best_schedule
from ray_sim.solvers.planning.slot_job import SlotJob

_FAVOUR: dict[str, Favour] = {"one": "neither", "packing": "packing", "covering": "covering"}


PARAMETERS = (
    Parameter(
        "quanta",
        "int",
        None,
        "equal parts into which the work of a job is cut; with too few, long jobs are lost. none = "
        "max(40, 4 x slots of the horizon)",
        source="docs/models/pd_ors.md#schedule; Yu et al., algorithm 3, go sample by sample",
        minimum=1,
        maximum=1_000_000,
    ),
    Parameter(
        "round",
        "choice",
        "each",
        "each: fractions are rounded in every slot before slots are chosen; last: in chosen slots only",
        source="docs/models/pd_ors.md#cost-of-one-slot; each as Yu et al., algorithm 4",
        choices=("each", "last"),
    ),
    Parameter(
        "tries",
        "int",
        50,
        "number of roundings; the cheapest is used",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., algorithm 4: S",
        minimum=1,
        maximum=1_000_000,
    ),
    Parameter(
        "gain",
        "choice",
        "one",
        "factor on fractions before rounding. one: 1; packing: below 1, so that they likelier fit; covering: "
        "above 1, so that they are likelier enough",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., (31) and (32)",
        choices=("one", "packing", "covering"),
    ),
    Parameter(
        "delta",
        "float",
        0.5,
        "allowed probability of failure of packing and covering",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., (31) and (32)",
        minimum=0.0,
        exclusive=True,
        maximum=1.0,
    ),
    *price_parameters(
        "a worker and a parameter server together",
        "docs/models/pd_ors.md#prices",
        paper="; Yu et al., (12)-(14)",
    ),
    *OPTIONS,
    Parameter(
        "span_above_load",
        "float",
        0.0,
        "load above which price_span applies; below it L is as published. The load is the work of all jobs "
        "that can end over the capacity of all slots, the largest of any resource",
        source="docs/models/pd_ors.md#prices",
        minimum=0.0,
    ),
    IDLE,
)


class PdOrs(Planned):
    """Plan each job at arrival, at prices of servers, resources and slots that rise with the load.

    Source: Yu, Liu, Wu, Ji, Bentley, Toward Efficient Online Scheduling for Distributed Machine Learning
    Systems, 2021.
    """

    name: ClassVar[str] = "pd_ors"
    section: ClassVar[str] = "docs/models/pd_ors.md#algorithm (Yu et al., 2021)"
    summary: ClassVar[str] = "admission and full schedule at arrival, by prices (PD-ORS)"
    parameters: ClassVar[tuple[Parameter, ...]] = PARAMETERS
    uses_seed: ClassVar[bool] = True

    def __init__(
        self,
        quanta: int | None = None,
        round: Literal["each", "last"] = "each",  # noqa: A002  # the parameter's name
        tries: int = 50,
        gain: str = "one",
        delta: float = 0.5,
        constants: str = "trace",
        declared_utility: Sequence[float] | None = None,
        declared_demand: Sequence[float] | None = None,
        declared_work: Sequence[float] | None = None,
        speeds: str = "world",
        price_span: float | None = None,
        span_above_load: float = 0.0,
        unfinished: str = "leave",
        replan: str = "none",
        idle: str = "leave",
        record: bool = False,
    ) -> None:
        ranges = DeclaredRanges(declared_utility, declared_demand, declared_work)
        super().__init__(speeds, price_span, unfinished, replan, record, constants, ranges, idle)
        if span_above_load and (price_span is None or self._declared):
            raise InvalidScenarioError(
                f"policy {self.name}: span_above_load={span_above_load:g} needs a price_span, and "
                "constants=trace, from which the load is known"
            )
        self._span_above_load = span_above_load
        self._planning = Planning(quanta, TaskRounding(_FAVOUR[gain], delta, tries), round)

    def _open(self) -> list[PricedServers]:
        """Open one market in each partition."""
        self._load = 0.0
        return super()._open()

    def _sets_of_servers(self, partition: int) -> list[IntArray]:
        """All servers of the partition."""
        return [np.flatnonzero(self._world.server_partition == partition)]

    def _constants(self, partition: int, clusters: list[MarketCapacity]) -> list[Constants]:
        """Compute the lowest and highest prices of a partition."""
        [cluster] = clusters
        if self._declared is not None:
            resources = self._world.cluster.resources
            [ranges] = self._declared.of_markets(self.name, resources, ())
            return [declared_constants(ranges, cluster, self._slots).within(self._price_span)]
        counted = self._counted_jobs(partition, ends_alone)
        if not counted:
            return []
        load = offered_load(counted, cluster, self._slots)
        self._load = max(self._load, load)
        span = self._price_span if load > self._span_above_load else None
        return [traced_constants(counted, cluster).within(span)]

    def figures(self) -> dict[str, float]:
        """Return ln(U / L), and the largest load of any partition, if the trace is known."""
        return super().figures() | ({} if self._declared else {"load": self._load})

    def _best_plan(self, job: SlotJob, markets: Sequence[Market]) -> Outcome:
        """Search by `best_schedule`."""
        outcome = best_schedule(job, markets[0], self._planning, self._streams)
        self._counted["operations"] += outcome.effort.operations
        self._counted["unsolved_slots"] += outcome.effort.unsolved
        return outcome
