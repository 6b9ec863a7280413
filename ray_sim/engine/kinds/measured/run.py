"""Measured jobs of a run: their rates, and the refusal of GPUs on which they cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from ray_sim.engine.decision import Decision
from ray_sim.engine.gpu_time import held_gpu_us
from ray_sim.engine.kinds.deadline_misses import count_misses
from ray_sim.engine.kinds.measured.decision import MeasuredDecision
from ray_sim.engine.kinds.measured.facts import MeasuredFacts
from ray_sim.engine.kinds.measured.sharing import SharedGpus, guests_of
from ray_sim.engine.kinds.run import KindOutcome, KindRun
from ray_sim.engine.run_core import RunCore
from ray_sim.engine.states import State
from ray_sim.engine.validation import job_name
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import COMPLETED, Recorder
from ray_sim.kernels.core.job_rows import Rows
from ray_sim.kernels.core.measured_rates import MeasuredRates, measured_rates
from ray_sim.kernels.handle import handle
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.figures import GangFigures, KindFigures, MeasuredFigures
from ray_sim.model.progress_rule import NO_JOBS, PlacementRows, rows_of
from ray_sim.model.units import BoolArray, FloatArray, IntArray, seconds_to_us


@dataclass(frozen=True, slots=True)
class MeasuredProgress:
    """A gang has the speed that was measured for it on its GPU type."""

    measured: MeasuredRates
    """A handle of them."""
    mixed: bool
    """Whether a gang over several GPU types runs, at the least of its rates."""
    sharing: SharedGpus | None
    """None where no two jobs share a GPU."""

    @property
    def disturbing(self) -> bool:
        """Whether a job may change the rate of another one."""
        return self.sharing is not None

    def rates(self, placements: PlacementRows, jobs: IntArray) -> FloatArray:
        """Rate relative to where each job is fastest."""
        return self.of_rows(jobs, rows_of(placements, jobs))

    def of_rows(self, jobs: IntArray, rows: Rows) -> FloatArray:
        """(n,) the same of jobs with these placements; 0 where a job cannot run."""
        found = np.empty(len(jobs))
        measured_rates(self.measured, self.mixed, jobs, rows, found)
        return found

    def note_changes(self, placements: PlacementRows, jobs: IntArray) -> IntArray:
        """Jobs, sorted, that begin or cease to share their GPU with these."""
        return NO_JOBS if self.sharing is None else self.sharing.change(jobs)


@dataclass(frozen=True, slots=True)
class MeasuredOutcome(KindOutcome):
    """Figures of a run of measured jobs; a GPU that two jobs share counts once, for its host."""

    world: World

    def figures(self, jobs: pl.DataFrame, counted: BoolArray | None) -> KindFigures:
        """Figures of gangs, and missed deadlines where jobs have deadlines."""
        table, ledger = self.world.table, self.ledger
        assert table.measured is not None, "only in worlds of measured jobs"
        allowed_s = table.measured.deadline_s
        due, share = np.isfinite(allowed_s), self.restart_share(jobs, counted)
        if not due.any():
            return GangFigures(restart_share=share)
        misses = count_misses(
            table.submit_us + seconds_to_us(np.where(due, allowed_s, 0.0)),
            ledger.end,
            ledger.status == COMPLETED,
            self.world.horizon_us,
            due if counted is None else due & counted,
        )
        return MeasuredFigures(restart_share=share, deadlines=misses)

    def gpu_us(self, world: World, record: Recorder, held_us: IntArray) -> FloatArray:
        """(J,) GPU-microseconds that each job has held, by the events of its holdings."""
        return held_gpu_us(world, record, self.now_us)


class MeasuredRun(KindRun):
    """Measured jobs of one run."""

    decision_type: ClassVar[type[Decision]] = MeasuredDecision

    def __init__(self, core: RunCore) -> None:
        facts = core.world.facts
        assert isinstance(facts, MeasuredFacts), "only in worlds of measured jobs"
        rates = facts.rates._replace(partner=facts.rates.partner.copy())
        self._sharing = SharedGpus(core, facts, rates.partner) if facts.partial else None
        self._speeds = MeasuredProgress(handle(rates), facts.mixed, self._sharing)
        self._alone = MeasuredProgress(handle(facts.rates), facts.mixed, None)
        super().__init__(core, self._speeds)

    def check(self, where: str, now_us: int, decision: Decision) -> None:
        """Refuse GPUs on which a job cannot run.

        Raises
        ------
        InfeasibleDecisionError : it names the job and the GPU types, after ``where``
        """
        super().check(where, now_us, decision)
        changes = decision.changes
        if changes is None:
            return
        guests = guests_of(decision)
        if self._sharing is None and len(guests.job):
            raise InfeasibleDecisionError(f"at {where} places guests; no GPU is shared without packing=true")
        n = int(changes.size[0])
        jobs, ptr = changes.job[:n], changes.ptr[: n + 1]
        rows = Rows(ptr, *(each[: ptr[-1]] for each in (changes.server, changes.role, changes.tasks)))
        if self._sharing is not None:
            self._sharing.check(where, decision, rows, jobs)
        wrong = np.flatnonzero((self._alone.of_rows(jobs, rows) <= 0) & (np.diff(ptr) > 0))
        if len(wrong):
            i = int(wrong[0])
            self._refuse(where, int(jobs[i]), rows.server[ptr[i] : ptr[i + 1]])

    def carry_out(self, now_us: int, decision: Decision) -> None:
        """Place jobs as decided."""
        if self._sharing is not None:
            self._sharing.coming = guests_of(decision)
        super().carry_out(now_us, decision)
        if self._sharing is not None:
            self._sharing.take_over(now_us)

    def _rate_others(self, now_us: int, jobs: IntArray) -> None:
        """Rate jobs whose host or guest has ended; the guest holds the GPU from now on."""
        if self._sharing is not None:
            self._sharing.take_over(now_us)
        super()._rate_others(now_us, jobs)

    def close_instant(self, now_us: int) -> None:
        """Record which guests have taken over a GPU."""
        if self._sharing is not None:
            self._sharing.close_instant(now_us)

    def state(self) -> State:
        """Which jobs share a GPU."""
        return {} if self._sharing is None else self._sharing.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state."""
        super().restore(state)
        if self._sharing is not None:
            self._sharing.restore(state)

    def outcome(self, now_us: int, end_us: int) -> MeasuredOutcome:
        """At the end of the run, whose last instant is ``now_us``."""
        return MeasuredOutcome(self._core.ledger, now_us, self._core.world)

    def _refuse(self, where: str, job: int, servers: IntArray) -> None:
        """Raise the error of a job that cannot run on these servers."""
        world = self._core.world
        number = len(set(servers.tolist()))
        types = sorted({world.cluster.gpu_type[server] or "no type" for server in servers.tolist()})
        model = "" if world.table.model is None else f" ({world.table.model[job]})"
        apart = f" over {number} servers" if number > 1 else ""
        why = "gangs over several types were not measured" if len(types) > 1 else "it has no speed there"
        raise InfeasibleDecisionError(
            f"at {where} places {job_name(world, job)}{model} on {' and '.join(types)}{apart}: {why}"
        )
