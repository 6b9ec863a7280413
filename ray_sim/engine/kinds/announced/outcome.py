"""Figures of a run of announced jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl

from ray_sim.certificates.welfare import WelfareLimits, ratio_to
from ray_sim.engine.kinds.announced.facts import AnnouncedFacts
from ray_sim.engine.kinds.announced.view import AnnouncedPolicy
from ray_sim.engine.kinds.run import KindOutcome
from ray_sim.kernels.core.arrays import COMPLETED, EVICTED, FAILED, KILLED, REJECTED
from ray_sim.model.distribution import distribution
from ray_sim.model.figures import AnnouncedFigures, WelfareFigures
from ray_sim.model.quotes import Refusal
from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import BoolArray, FloatArray, IntArray, us_to_seconds
from ray_sim.solvers.welfare_bound import welfare_bound


class Fate(IntEnum):
    """End of an announced job, as Babaioff et al. tell failures apart."""

    OPEN = 0
    """It came, and waited or ran when the run ended."""
    COMPLETED = 1
    EVICTED_RUNNING = 2
    CANCELLED_DUE = 3
    """Evicted in the round in which it was to start."""
    CANCELLED_EARLY = 4
    """Evicted before that round, or before it came."""
    NOT_LAUNCHED = 5
    """Rejected: no start was worth its price, or it came as it had not announced."""
    NEVER_CAME = 6
    FAILED = 7
    """Ended by a random failure, or after its work as in the trace."""
    KILLED = 8
    """Ended by a limit, or as in the trace."""

    @property
    def text(self) -> str:
        """Value of the column ``fate``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class AnnouncedOutcome(KindOutcome):
    """Values, payments and fates of a run."""

    facts: AnnouncedFacts
    come: BoolArray
    """(J,) jobs that have come."""
    price: IntArray
    """(J,) charged, 1e-9 of a unit; 0 unless the job completed."""
    charged: BoolArray
    """(J,) jobs that have been charged, with 0 too."""
    evicted_as: IntArray
    """(J,) `Fate` of evicted jobs."""
    horizon_us: int
    faulty: bool
    """Whether faults may end jobs."""
    policy: AnnouncedPolicy
    """It gives its quotes when they are asked for: they take longer than all else here."""

    @property
    def fate(self) -> IntArray:
        """(J,) `Fate`."""
        status = self.ledger.status
        fate = np.where(self.come | (self.evicted_as > 0), self.evicted_as, Fate.NEVER_CAME)
        ends = (REJECTED, COMPLETED, FAILED, KILLED)
        fates = [Fate.NOT_LAUNCHED, Fate.COMPLETED, Fate.FAILED, Fate.KILLED]
        return np.select([status == each for each in ends], fates, fate)

    @property
    def settled(self) -> BoolArray:
        """(J,) whether nothing that follows changes the value or the payment of each job."""
        status = self.ledger.status
        settled: BoolArray = self.charged | np.isin(status, (REJECTED, EVICTED, FAILED, KILLED))
        return settled

    @property
    def worth(self) -> IntArray:
        """(J,) true value of each job at its finish, 1e-9 of a unit; 0 where it holds too few GPUs."""
        jobs, true = self.facts.statements, self.facts.statements.true
        done = (self.ledger.status == COMPLETED) & (jobs.reported.concurrency >= true.concurrency)
        end = np.where(done, self.ledger.end, 0) // self.facts.slot_us
        delay = np.maximum(end - true.birth, 0)
        return np.where(done, true.worth(np.arange(len(done)), delay), 0)

    def figures(self, jobs: pl.DataFrame, counted: BoolArray | None) -> AnnouncedFigures:
        """Welfare, revenue and failures of the counted jobs, beside the figures of gangs."""
        chosen = np.ones(len(jobs), dtype=np.bool_) if counted is None else counted
        fate = self.fate[chosen]
        counts = {each.text: int((fate == each).sum()) for each in Fate}
        if not self.faulty:
            del counts["failed"], counts["killed"]
        failed = counts["evicted_running"] + counts["cancelled_due"] + counts["cancelled_early"]
        tried = len(fate) - counts["not_launched"] - counts["never_came"]
        worth, paid = int(self.worth[chosen].sum()), int(self.price[chosen].sum())
        arrival_us = self.facts.statements.arrival * self.facts.slot_us
        done = chosen & (self.ledger.status == COMPLETED)
        from_arrival = distribution(us_to_seconds((self.ledger.end - arrival_us)[done]))
        bound = welfare_bound(*welfare_limits(self.facts, self.horizon_us, counted))
        welfare = WelfareFigures(
            welfare=worth / NANO,
            revenue=paid / NANO,
            surplus=(worth - paid) / NANO,
            eviction_rate=failed / tried if tried else None,
            fates=counts,
            jct_from_arrival_s=from_arrival,
            misreporting=int((self.facts.misreports & chosen).sum()),
            clipped=self.facts.clipped,
            bound=bound,
            ratio=ratio_to(bound, worth / NANO),
            paid_above_value=int((self.price > self.worth)[chosen].sum()),
        )
        return AnnouncedFigures(restart_share=self.restart_share(jobs, counted), welfare=welfare)

    def timeline(self, time_us: IntArray) -> Mapping[str, pl.Series]:
        """Welfare and revenue so far, in units."""
        done = np.flatnonzero(self.ledger.status == COMPLETED)
        done = done[np.argsort(self.ledger.end[done], kind="stable")]
        at = np.searchsorted(self.ledger.end[done], time_us, side="right")
        sums = {"welfare": self.worth[done].cumsum(), "revenue": self.price[done].cumsum()}
        return {name: pl.Series(np.append(0, so_far)[at] / NANO) for name, so_far in sums.items()}

    def job_columns(self) -> Mapping[str, pl.Series]:
        """Arrival, value, payment, fate, and what was offered."""
        facts = self.facts
        arrival_us = facts.statements.arrival * facts.slot_us + facts.table.origin_us
        names = pl.Series([each.text for each in Fate], dtype=pl.String)
        return {
            "arrival_s": pl.Series(us_to_seconds(arrival_us)),
            "value": pl.Series(self.worth / NANO),
            "payment": pl.Series(self.price / NANO),
            "fate": names.gather(self.fate.astype(np.uint32)),
            "misreports": pl.Series(facts.misreports),
            **self._quoted(),
        }

    def _quoted(self) -> Mapping[str, pl.Series]:
        """Best start at the birth, its price and the rest of `Quotes`; null where the policy has none."""
        facts = self.facts
        quotes = self.policy.quotes(facts.statements.arrival, facts.statements.signal)
        submitted = np.arange(len(facts.table)) < quotes.submitted
        reasons = pl.Series([each.name.lower() if each else None for each in Refusal], dtype=pl.String)
        opened = submitted & (quotes.start < NEVER_ROUND)
        start_us = np.where(opened, quotes.start, 0) * facts.slot_us + facts.table.origin_us
        found = {
            "best_start_s": us_to_seconds(start_us),
            "best_price": quotes.price,
            "best_value": quotes.value,
            "best_failure": quotes.failure,
        }
        columns = {name: _or_null(values, opened) for name, values in found.items()}
        refusal = reasons.gather(np.where(submitted, quotes.refusal, 0).astype(np.uint32))
        return {"refusal": refusal, **columns, "plan_utility": _or_null(quotes.utility, submitted)}


def _or_null(values: FloatArray, valid: BoolArray) -> pl.Series:
    return pl.Series(np.where(valid, values, np.nan), nan_to_null=True)


def welfare_limits(facts: AnnouncedFacts, horizon_us: int, counted: BoolArray | None = None) -> WelfareLimits:
    """True statements and what came of the counted jobs, (J,); the others could only take GPUs."""
    jobs = facts.statements
    chosen = np.ones(len(jobs.true), dtype=np.bool_) if counted is None else counted
    true = jobs.true.taken(chosen)
    # Nothing is worth anything S rounds after the last birth, so that no run need be bounded.
    worthless = int(true.birth.max(initial=0)) + true.values.shape[1] - 1
    return WelfareLimits(
        statements=true,
        arrival=jobs.arrival[chosen],
        duration=jobs.duration[chosen],
        nodes=facts.nodes,
        rounds=min(horizon_us // facts.slot_us, worthless),
    )
