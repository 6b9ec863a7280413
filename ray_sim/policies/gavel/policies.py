"""The policies of Gavel by name; each says how its shares are computed."""

from __future__ import annotations

from typing import ClassVar, Unpack

import numpy as np

from ray_sim.model.errors import InvalidScenarioError, UnknownNameError
from ray_sim.policies.gavel.jobs import Shares
from ray_sim.policies.gavel.needs import FinishTimeFair, Makespan, MaxMin
from ray_sim.policies.gavel.policy import AWARE, ROUNDS, RoundOptions, RoundPolicy
from ray_sim.policies.gavel.queues import Allox, FifoAgnostic, FifoAware, FifoPublished
from ray_sim.policies.gavel.throughput import Throughput
from ray_sim.policies.gavel.water_filling import Entities, WaterFilling
from ray_sim.policy_api import Parameter, PolicyContext

_PAGE = "docs/models/gavel.md"
_SOURCE = f"{_PAGE}#shares (Narayanan et al., OSDI 2020)"

PACKING = Parameter(
    "packing",
    "bool",
    False,
    "whether two jobs may share GPUs, under -w packing=true",
    source=f"{_PAGE}#packing",
)

REFERENCE = Parameter(
    "reference",
    "text",
    "V100",
    "GPU type whose speeds hold for all types under aware=false",
    source=f"{_PAGE}#shares",
)


class MaxMinPolicy(RoundPolicy):
    """Raise the least share of all jobs, each over its weight and its speed on the mean GPU (LAS)."""

    name: ClassVar[str] = "max_min"
    section: ClassVar[str] = _SOURCE
    summary: ClassVar[str] = "largest least share of time on each GPU type, in rounds (Gavel)"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        AWARE,
        PACKING,
        Parameter(
            "fill",
            "bool",
            False,
            "water filling: whether jobs whose share can be above the least one get more",
            source=f"{_PAGE}#water-filling",
        ),
        *ROUNDS,
    )

    def __init__(
        self, aware: bool = True, packing: bool = False, fill: bool = False, **rounds: Unpack[RoundOptions]
    ) -> None:
        super().__init__(aware, packing, **rounds)
        self._fill = fill

    def new_shares(self, world: PolicyContext, seed: int) -> Shares:
        """Max-min, or water filling."""
        return (WaterFilling if self._fill else MaxMin)(aware=self._aware)


class HierarchicalPolicy(RoundPolicy):
    """Share the cluster among virtual clusters by weight, and each share among its jobs."""

    name: ClassVar[str] = "hierarchical"
    section: ClassVar[str] = _SOURCE
    summary: ClassVar[str] = "water filling among virtual clusters, then among the jobs of each (Gavel)"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        AWARE,
        Parameter(
            "fifo",
            "text",
            None,
            "virtual clusters, separated by commas, that serve their jobs one after the other; the others "
            "share by the weights of jobs",
            source=f"{_PAGE}#hierarchy",
        ),
        *ROUNDS,
    )
    sees: frozenset[str] = RoundPolicy.sees | {"vc"}

    def __init__(self, aware: bool = True, fifo: str | None = None, **rounds: Unpack[RoundOptions]) -> None:
        super().__init__(aware, **rounds)
        self._fifo = fifo

    def new_shares(self, world: PolicyContext, seed: int) -> Shares:
        """Water filling with the weights of the cluster's teams.

        Raises
        ------
        UnknownNameError : `fifo` names no virtual cluster
        """
        names = (*world.jobs.vc_names, "jobs without a virtual cluster")
        fifo = [] if self._fifo is None else [name.strip() for name in self._fifo.split(",")]
        for name in fifo:
            if name not in names:
                raise UnknownNameError("virtual cluster", name, names)
        weights = {team.name: team.weight for team in world.cluster.teams}
        weight = np.array([weights.get(name, 1.0) for name in names])
        if (weight <= 0).any():
            raise InvalidScenarioError(
                f"hierarchical: {names[int(np.argmin(weight))]} has weight 0; expected above 0"
            )
        of_job = np.where(world.jobs.vc < 0, len(names) - 1, world.jobs.vc)
        entities = Entities(of_job, weight, np.array([name in fifo for name in names]))
        return WaterFilling(aware=self._aware, entities=entities)


class _TimePolicy(RoundPolicy):
    """Base of policies by times to the end, which know speeds of all types or of a reference type only."""

    section: ClassVar[str] = _SOURCE
    parameters: ClassVar[tuple[Parameter, ...]] = (AWARE, REFERENCE, *ROUNDS)
    rule: ClassVar[type[FinishTimeFair] | type[Makespan]]

    def __init__(self, aware: bool = True, reference: str = "V100", **rounds: Unpack[RoundOptions]) -> None:
        super().__init__(aware, **rounds)
        self._reference = reference

    def new_shares(self, world: PolicyContext, seed: int) -> Shares:
        """The rule.

        Raises
        ------
        UnknownNameError : no server is of the reference type
        """
        types = self._speeds.types
        if self._aware:
            return self.rule()
        if self._reference not in types:
            raise UnknownNameError("GPU type", self._reference, types)
        return self.rule(types.index(self._reference))


class FinishTimeFairPolicy(_TimePolicy):
    """Lower the largest ratio of a job's time to that with an equal part of the cluster (Themis)."""

    name: ClassVar[str] = "finish_time_fair"
    summary: ClassVar[str] = "least largest finish-time ratio, in rounds (Themis in Gavel)"
    rule = FinishTimeFair


class MakespanPolicy(_TimePolicy):
    """Shorten the time in which all jobs that are there can end."""

    name: ClassVar[str] = "makespan"
    summary: ClassVar[str] = "least time to the end of all jobs, in rounds (Gavel)"
    rule = Makespan


class ThroughputPolicy(RoundPolicy):
    """Raise the sum of the speeds of all jobs, or of speed per cost, with deadlines if they can be kept."""

    name: ClassVar[str] = "throughput"
    section: ClassVar[str] = _SOURCE
    summary: ClassVar[str] = "largest sum of speeds, by cost, with deadlines, in rounds (Gavel)"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "by",
            "choice",
            "steps",
            "what a job's speed counts. steps: steps per second, which favours models of fast steps; "
            "relative: speed over that on the mean GPU; cost: steps per price, by the prices of servers",
            choices=("steps", "relative", "cost"),
            source=f"{_PAGE}#shares",
        ),
        Parameter(
            "deadlines",
            "bool",
            False,
            "whether each job must be fast enough for its deadline; where not all can be kept, none counts",
            source=f"{_PAGE}#shares",
        ),
        *ROUNDS,
    )

    def __init__(self, by: str = "steps", deadlines: bool = False, **rounds: Unpack[RoundOptions]) -> None:
        super().__init__(**rounds)
        self._by, self._deadlines = by, deadlines

    def new_shares(self, world: PolicyContext, seed: int) -> Shares:
        """Largest throughput.

        Raises
        ------
        InvalidScenarioError : the cluster has no prices
        """
        prices = None
        if self._by == "cost":
            if world.cluster.price is None:
                raise InvalidScenarioError(
                    "throughput: by=cost needs the prices of servers; give them in the cluster file"
                )
            number = np.array([len(servers) for servers in self._server_of])
            of_type = self._speeds.of_server[:, None] == np.arange(len(number))
            prices = np.array(world.cluster.price) @ of_type / np.maximum(number, 1)
        allowed_s = world.jobs.deadline_s.astype(float) if self._deadlines else None
        return Throughput(relative=self._by == "relative", prices=prices, allowed_s=allowed_s)


class GavelFifoPolicy(RoundPolicy):
    """Serve jobs by arrival, each on one GPU type at a time."""

    name: ClassVar[str] = "gavel_fifo"
    section: ClassVar[str] = _SOURCE
    summary: ClassVar[str] = "by arrival on the fastest GPU type with room, in rounds (Gavel's FIFO)"
    parameters: ClassVar[tuple[Parameter, ...]] = (AWARE, PACKING, *ROUNDS)
    fills_idle: ClassVar[bool] = False
    in_line: ClassVar[bool] = True

    def __init__(self, aware: bool = True, packing: bool = False, **rounds: Unpack[RoundOptions]) -> None:
        if packing and not aware:
            raise InvalidScenarioError("gavel_fifo: packing=true needs aware=true, as it compares speeds")
        super().__init__(aware, packing, **rounds)

    def new_shares(self, world: PolicyContext, seed: int) -> Shares:
        """FIFO."""
        if self._aware:
            return FifoAware()
        return (FifoPublished if self._rules.published else FifoAgnostic)(seed)


class AlloxPolicy(RoundPolicy):
    """Assign waiting jobs of one GPU to GPUs and places in line with the least sum of their times.

    Source: Le et al., AlloX: Compute Allocation in Hybrid Clusters, EuroSys 2020.
    """

    name: ClassVar[str] = "allox"
    section: ClassVar[str] = f"{_PAGE}#shares (Le et al., EuroSys 2020)"
    summary: ClassVar[str] = "least sum of times of jobs of one GPU on unequal GPUs, in rounds (AlloX)"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "alpha",
            "float",
            1.0,
            "share of the waiting jobs, oldest first, that are assigned",
            minimum=0.0,
            exclusive=True,
            maximum=1.0,
            source=f"{_PAGE}#shares",
        ),
        *ROUNDS,
    )
    most_gpus: ClassVar[int] = 1
    in_line: ClassVar[bool] = True

    def __init__(self, alpha: float = 1.0, **rounds: Unpack[RoundOptions]) -> None:
        super().__init__(**rounds)
        self._alpha = alpha

    def new_shares(self, world: PolicyContext, seed: int) -> Shares:
        """AlloX."""
        return Allox(self._alpha)
