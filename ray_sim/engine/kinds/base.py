"""Protocols of a kind of jobs (rigid, elastic, chunked): its run and its part of the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from ray_sim.engine.decision import Decision
from ray_sim.engine.kinds.chunked.ledger import ChunkLedger
from ray_sim.engine.placements import Stateful
from ray_sim.engine.wake import Wake
from ray_sim.kernels.core.arrays import Outages
from ray_sim.model.training_progress import PdOrsProgress, PlacementProgress
from ray_sim.model.units import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from ray_sim.certificates.jct import JctLimits
    from ray_sim.engine.world import World
    from ray_sim.model.result import UtilityCertificate


@dataclass(frozen=True, slots=True)
class Losses:
    """Points of loss curves: those of job i are ``value[ptr[i]:ptr[i + 1]]``."""

    ptr: IntArray
    value: FloatArray


class ElasticObservations(Protocol):
    """Observations that only elastic jobs offer to policies."""

    straggling: FloatArray
    """(J,) how many times as long the slowest worker takes."""

    def share_left(self, jobs: IntArray, left: FloatArray) -> FloatArray:
        """Share of the work of each job, (n,), of which ``left`` samples are left; 0 of no work."""

    def losses(self, jobs: IntArray, first: IntArray, left: FloatArray) -> Losses:
        """Losses at the ends of epochs ``first``, ``first`` + 1, ... that the jobs have trained."""


class KindOutcome(Protocol):
    """Summary fields and timeline columns that a kind adds to a result."""

    def figures(self, jobs: pl.DataFrame, counted: BoolArray | None) -> Mapping[str, Any]:
        """Fields of `Summary` by name, over the counted jobs: (J,), all where None."""

    def timeline(self, time_us: IntArray) -> Mapping[str, pl.Series]:
        """Columns of the timeline by name, (n,) each, at these instants, increasing."""

    def jct_limits(self, world: World, jobs: IntArray) -> JctLimits | None:
        """For the certificate of the mean JCT of these completed jobs; None where nothing bounds them."""

    def certify_utility(
        self, world: World, earned: float | None, counted: BoolArray | None
    ) -> UtilityCertificate | None:
        """Bound what the counted jobs could earn; None where nothing bounds it."""


class KindRun(Stateful, Protocol):
    """The jobs of one run. Instants are microseconds; each call says which instant it is."""

    @property
    def trial_truth(self) -> PlacementProgress | PdOrsProgress | None:
        """Speeds in trial runs; None where they are those of the world."""

    @property
    def chunked(self) -> ChunkLedger | None:
        """Observations of chunked jobs; None in worlds of other jobs."""

    @property
    def elastic(self) -> ElasticObservations | None:
        """Observations of elastic jobs; None in worlds of other jobs."""

    @property
    def used(self) -> IntArray:
        """(R,) quanta that jobs hold, for the timeline."""

    @property
    def next_us(self) -> int:
        """When jobs of this kind next do something that is neither a completion nor a report of a site."""

    def change_servers(self, now_us: int, outages: Outages) -> Wake:
        """Take servers away and give them back, in the order listed; jobs there wait again."""

    def book_reports(self, now_us: int) -> Wake:
        """Book what sites report at an instant at which no server changes."""

    def complete(self, now_us: int) -> IntArray:
        """End the jobs whose work is done; returns them, sorted."""

    def happen(self, now_us: int) -> None:
        """Let happen what `next_us` announced, if it is due."""

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
