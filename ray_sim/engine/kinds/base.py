"""Protocols of a kind of job, e.g. rigid or elastic: its facts, its run and its part of the result.

A `JobKind` is registered under the value of ``-w truth=`` that chooses it. It is stateless: `facts` makes the
frozen facts of one world, `start` the state of one run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

import polars as pl

from ray_sim.certificates.jct import JctLimits, NoJctLimits
from ray_sim.engine.states import Stateful
from ray_sim.kernels.core.arrays import Outages
from ray_sim.model.parameters import Parameter, Value
from ray_sim.model.units import BoolArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.contract import Policy
    from ray_sim.engine.decision import Decision, Wake
    from ray_sim.engine.kinds.facts import KindFacts, WorldSetting
    from ray_sim.engine.policy_context import PolicyContext
    from ray_sim.engine.run_core import RunCore
    from ray_sim.engine.view import View
    from ray_sim.engine.world import World
    from ray_sim.model.figures.base import KindFigures
    from ray_sim.model.result import UtilityCertificate
    from ray_sim.model.streams import Streams


SERVER_FACTS = ("interference", "links", "delays")
"""Facts of a `Cluster` that have an effect on jobs of some kinds only."""


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


class KindOutcome(Protocol):
    """Figures and columns that a kind adds to a result."""

    def figures(self, jobs: pl.DataFrame, counted: BoolArray | None) -> KindFigures:
        """Figures of the summary, over the counted jobs: (J,), all where None."""

    def job_columns(self) -> Mapping[str, pl.Series]:
        """Columns of jobs by name, (J,) each, that follow those of `JOB_SCHEMA`."""

    def timeline(self, time_us: IntArray) -> Mapping[str, pl.Series]:
        """Columns of the timeline by name, (n,) each, at these instants, increasing."""


class KindRun(Stateful, Protocol):
    """The jobs of one run. Instants are microseconds; each call says which instant it is."""

    @property
    def view(self) -> type[View]:
        """Class of the views of its policies."""

    @property
    def observed(self) -> object:
        """Object behind the observations that only `view` has."""

    @property
    def used(self) -> IntArray:
        """(R,) quanta that jobs hold, for the timeline."""

    @property
    def next_us(self) -> int:
        """When jobs of this kind next do something that is neither a completion nor a report of a site."""

    def context(self, sees: frozenset[str], policy: str) -> PolicyContext:
        """Facts of the world that a policy of this name may know."""

    def change_servers(self, now_us: int, outages: Outages) -> Wake:
        """Take servers away and give them back, in the order listed; jobs there wait again."""

    def book_reports(self, now_us: int) -> Wake:
        """Book what sites report at an instant at which no server changes."""

    def complete(self, now_us: int) -> IntArray:
        """End the jobs whose work is done; returns them, sorted."""

    def happen(self, now_us: int) -> Wake:
        """Carry out what `next_us` announced, if it is due."""

    def check(self, where: str, now_us: int, decision: Decision) -> None:
        """Refuse a decision that breaks a rule of this kind; capacity is checked before.

        Raises
        ------
        InfeasibleDecisionError : it names the first fault, after ``where``
        """

    def evict(self, now_us: int, job: int) -> None:
        """End a waiting or running job for ever."""

    def carry_out(self, now_us: int, decision: Decision) -> None:
        """Place jobs as decided; rejected and evicted jobs have ended before."""

    def outcome(self, now_us: int, end_us: int) -> KindOutcome:
        """At the end of the run, whose last instant is ``now_us``."""
