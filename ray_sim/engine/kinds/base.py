"""A kind of job, e.g. rigid or elastic, registered under the value of ``-w truth=`` that chooses it.

A `JobKind` is stateless: `facts` makes the frozen facts of one world (`KindFacts` of `facts.py`), `start` the
state of one run (`KindRun` of `run.py`), which ends with its part of the result (`KindOutcome`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ray_sim.certificates.jct import JctLimits, NoJctLimits
from ray_sim.model.parameters import Parameter, Value
from ray_sim.model.units import BoolArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.contract import Policy
    from ray_sim.engine.kinds.facts import KindFacts, WorldSetting
    from ray_sim.engine.kinds.run import KindRun
    from ray_sim.engine.run_core import RunCore
    from ray_sim.engine.world import World
    from ray_sim.model.result import UtilityCertificate
    from ray_sim.model.streams import Streams


SERVER_FACTS = ("interference", "links", "delays", "speeds", "fragmentation_target")
"""Facts of a `Cluster` that have an effect on jobs of some kinds only."""

FACT_OF_PARAMETER = {"pair_speeds": "speeds"}
"""Fact of servers to which a world parameter of another name belongs."""


GANGS = "gangs"
"""Value of `Policy.schedules` of policies that place whole gangs."""


class KindParameter(NamedTuple):
    """World parameter that only some kinds heed."""

    parameter: Parameter
    elsewhere: str
    """Why it has no effect under other kinds, e.g. ``is about chunks``."""


BOUND_CELLS = KindParameter(
    Parameter(
        "bound_cells",
        "int",
        None,
        "largest number of variables (jobs x time steps) of the linear programme for bound B4 on the mean "
        "completion time. none = the certificate has no B4",
        source="docs/certificates.md#b4",
        minimum=100,
    ),
    "is about a bound for rigid and elastic jobs",
)
"""Declared by the kinds of rigid and of elastic jobs; another default changes all certificates."""


class JobKind(ABC):
    """Life of a job under one value of ``-w truth=``; stateless."""

    truth: str
    """Value of ``-w truth=``."""
    jobs: str
    """Jobs of this kind in messages and listings, e.g. ``elastic``."""
    accepts: frozenset[str]
    """Values of `Policy.schedules` that it accepts."""
    summary: str
    """Half a sentence for the help of ``truth``."""
    source: str = ""
    parameters: tuple[KindParameter, ...] = ()
    """World parameters that have an effect under this kind, and under others that list them too."""
    unheeded: Mapping[str, str] = MappingProxyType({})
    """Common world parameters without effect under this kind, and why."""
    columns: frozenset[str] = frozenset()
    """Names for `Policy.sees` that grant columns of this kind's jobs."""
    heeds: frozenset[str] = frozenset()
    """Facts of servers that have an effect on its jobs, of `SERVER_FACTS`."""
    untyped: str = ""
    """Why its jobs cannot be confined to some GPU types; empty where they can."""
    faults: frozenset[str] = frozenset()
    """Faults that its jobs can suffer: `stop`, after which they wait again, and `end`."""
    devices: bool = False
    """Whether tasks of its jobs may share a GPU as a device."""
    task_by_task: bool = True
    """Whether the tasks of a job may be placed one by one; not where its gang must be on one GPU type."""
    observations: frozenset[str] = frozenset()
    """Names for `Policy.sees` that grant observations in this kind's view."""

    @abstractmethod
    def facts(self, setting: WorldSetting) -> KindFacts:
        """Make the facts of a world.

        Raises
        ------
        InvalidScenarioError, InvalidInputError : jobs or servers that cannot be simulated
        """

    @abstractmethod
    def start(self, core: RunCore, policy: Policy, streams: Streams) -> KindRun:
        """Start a run of a policy that the kind accepts.

        Raises
        ------
        InvalidScenarioError : the policy wants what the world does not have
        """

    def draws(self, values: Mapping[str, Value]) -> bool:
        """Whether a world with these values of all parameters draws random numbers."""
        return False

    def alone_us(self, world: World) -> IntArray | None:
        """(J,) run time of each job alone, for its fairness; None where `duration_s` is none."""
        return world.table.work_us

    def jct_limits(self, world: World, jobs: IntArray) -> JctLimits | NoJctLimits | None:
        """Limits of these jobs for a bound on their mean JCT, or the reason why there are none.

        Every job must be able to complete in the world. None where the kind is certified by other figures.
        """
        return NoJctLimits("the progress rule of these jobs states no limits of speed")

    def certify_utility(
        self, world: World, earned: float | None, counted: BoolArray | None
    ) -> UtilityCertificate | None:
        """Bound what the counted jobs, (J,), could earn, all where None; None where nothing bounds it."""
        return None
