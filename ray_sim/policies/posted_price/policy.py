"""The truthful posted-price mechanism for announced jobs.

Source: Babaioff, Lempel, Lucier, Menache, Slivkins, Wong, Truthful Online Scheduling of Cloud Workloads under
Uncertainty (WWW 2022), Algorithms 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.quotes import Quotes
from ray_sim.model.statement import NANO, NEVER_ROUND
from ray_sim.model.units import US_PER_S, BoolArray, FloatArray, IntArray
from ray_sim.policies.posted_price.birth_record import BirthRecord
from ray_sim.policies.posted_price.exact_failure import ExactFailure
from ray_sim.policies.posted_price.expected_lp import ExpectedPrices, Population, read_prior
from ray_sim.policies.posted_price.failure import FailureOracle
from ray_sim.policies.posted_price.menu import ExponentialPrices, Menu, RelaxedCapacity
from ray_sim.policies.posted_price.plan_book import PlanBook
from ray_sim.policies.posted_price.planner import PlannedJob, planned_job, threshold
from ray_sim.policies.posted_price.sampled_failure import SampledFailure, sample_count
from ray_sim.policy_api import (
    WHOLE_TRACE,
    AnnouncedContext,
    AnnouncedDecision,
    AnnouncedPolicy,
    AnnouncedView,
    Charges,
    Launches,
    Parameter,
    RoundedJobs,
    Streams,
)

_SOURCE = "docs/models/posted_price.md#algorithm; Babaioff et al., Algorithm 2"
_ESTIMATES = "docs/models/posted_price.md#failure-estimates"


class PostedPrice(AnnouncedPolicy):
    """Posted prices, failure estimates, launch plans at birth, and eviction of the last born."""

    name: ClassVar[str] = "posted_price"
    section: ClassVar[str] = "docs/models/posted_price.md#algorithm"
    summary: ClassVar[str] = "truthful prices and launch plans at birth; the last born are evicted"
    bounded: ClassVar[bool] = True
    uses_seed: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "menu",
            "choice",
            "exponential",
            "prices. exponential: of the booked load, for any jobs; expected: duals of the linear programme "
            "of the jobs of prior, not truthful without one",
            source=_SOURCE,
            choices=("exponential", "expected"),
        ),
        Parameter(
            "prior",
            "text",
            None,
            "with menu=expected: workload file (.parquet) of the jobs that are expected, such as another "
            "seed of the same workload; none = the reports of the run itself, which is not truthful",
            source="docs/models/posted_price.md#menu-b-duals-of-the-expected-jobs",
        ),
        Parameter(
            "eps",
            "float",
            0.5,
            "a tenth of it is the share of GPUs that is never booked, and the estimate of failure up to "
            "which it counts as 0",
            source=_SOURCE,
            minimum=0.0,
            maximum=9.0,
        ),
        Parameter(
            "failure_oracle",
            "choice",
            "sampled",
            "how failures are estimated. sampled: by sample paths; exact: by all outcomes, for few jobs",
            source=_ESTIMATES,
            choices=("sampled", "exact"),
        ),
        Parameter(
            "oracle_error",
            "choice",
            "pointwise",
            "what mu bounds. pointwise: the mean error of each estimate; uniform: the error of all estimates "
            "of a job, but with probability 0.01",
            source=_ESTIMATES,
            choices=("pointwise", "uniform"),
        ),
        Parameter(
            "mu",
            "float",
            0.02,
            "error of the sampled estimates",
            minimum=1e-4,
            maximum=0.5,
            source=_ESTIMATES,
        ),
        Parameter(
            "threshold", "bool", True, "whether estimates of at most eps / 10 count as 0", source=_SOURCE
        ),
    )

    def __init__(
        self,
        menu: str = "exponential",
        prior: str | None = None,
        eps: float = 0.5,
        failure_oracle: str = "sampled",
        oracle_error: str = "pointwise",
        mu: float = 0.02,
        threshold: bool = True,
    ) -> None:
        self._menu_name, self._eps, self._oracle_name = menu, eps, failure_oracle
        self._error, self._mu, self._threshold = oracle_error, mu, threshold
        self._audit: BirthRecord | None = None
        if prior is not None and menu != "expected":
            raise InvalidScenarioError(f"prior={prior}: only menu=expected has a prior: leave one out")
        self._prior = prior
        if menu == "expected" and prior is None:
            self.sees = self.sees | {WHOLE_TRACE}

    @property
    def draws(self) -> bool:
        """Whether it draws sample paths."""
        return self._oracle_name == "sampled"

    def input_files(self) -> Mapping[str, Path]:
        """The prior."""
        return {} if self._prior is None else {"prior": Path(self._prior)}

    def warnings(self) -> list[str]:
        """Why the prices of this run are not truthful."""
        told = []
        if WHOLE_TRACE in self.sees:
            told.append(
                "not truthful: menu=expected has its prices from the reports of this run, so that a user's "
                "own report is in the prices it pays; give it jobs of another seed: -p prior=FILE"
            )
        bounds, round_s = self._world.bounds, self._world.round_us / US_PER_S
        same = {
            "most_gpus": f"{bounds.concurrency}",
            "most_duration_s": f"{bounds.duration * round_s:.12g}",
            "most_value": f"{bounds.value:.12g}",
        }
        if self.draws and self._error == "uniform":  # S_m counts in the number of sample paths only
            same["most_delay_s"] = f"{(bounds.delay - 1) * round_s:.12g}"
        undeclared = [name for name in same if name in bounds.undeclared]
        if undeclared:
            options = " ".join(f"-w {name}={same[name]}" for name in undeclared)
            told.append(
                f"not truthful: {', '.join(undeclared)} not declared, so these bounds come from the "
                f"reports, and a report changes what its user is offered; the same, declared: {options}"
            )
        return told

    def audited(self, jobs: RoundedJobs) -> BirthRecord:
        """Record births in the run that follows; its decisions are the same."""
        mu = self._mu if self.draws else 0.0
        self._audit = BirthRecord(jobs, self._eps / 10, mu, self._threshold)
        return self._audit

    def start(self, world: AnnouncedContext, streams: Streams) -> None:
        """Set up menu, oracle and plans."""
        self._world = world
        self._menu = self._new_menu(world)
        self._oracle = self._new_oracle(world, streams)
        self._plans = PlanBook(world.statements, self._menu, world.signal, world.bounds.duration)
        if self._audit is not None:
            self._audit.start(world, self._menu)

    def _new_menu(self, world: AnnouncedContext) -> Menu:
        assert world.rounds is not None
        bounds = world.bounds
        capacity = RelaxedCapacity(world.nodes, bounds.concurrency, self._eps, world.rounds)
        if self._menu_name == "expected":
            jobs = world.statements
            if self._prior is not None:
                jobs = read_prior(Path(self._prior), world.round_us, world.signal)
            return ExpectedPrices(capacity, Population.of(jobs))
        return ExponentialPrices(capacity, bounds.duration, bounds.value)

    def _new_oracle(self, world: AnnouncedContext, streams: Streams) -> FailureOracle:
        bounds, self._paths = world.bounds, 0
        if not self.draws:
            return ExactFailure(world.nodes, bounds.duration)
        triples = bounds.delay * bounds.concurrency * bounds.duration
        self._paths = sample_count(self._error, self._mu, triples)
        return SampledFailure(world.nodes, bounds.duration, self._paths, streams)

    def decide(self, view: AnnouncedView) -> AnnouncedDecision:
        """One round of Algorithm 1: plan, fix starts, evict, start, charge."""
        unwanted = [job for job in view.arrived.tolist() if not self._submit(job)]
        came = _without(view.came, unwanted)
        signals, completed = view.signals(came), view.completed.copy()
        paying = _without(completed, view.failed)
        starts = self._plans.come(came, view.round, signals)
        launched, start_us = came[starts < NEVER_ROUND], starts[starts < NEVER_ROUND] * self._world.round_us
        rejected = np.union1d(np.array(unwanted, dtype=np.int64), came[starts == NEVER_ROUND])
        waiting = _without(view.present, rejected)
        due = waiting[self._plans.start[waiting] == view.round]
        evicted = view.overload(due, rejected)
        self._plans.run_on(_without(view.running, evicted), view.round)
        self._oracle.observe(view.round, came, signals, completed, np.union1d(rejected, evicted))
        return AnnouncedDecision(
            changes=view.starts(_without(due, evicted), np.intersect1d(evicted, view.running)),
            reject=rejected,
            reject_reason="not_launched",
            evict=evicted,
            launches=Launches(launched, start_us) if len(launched) else None,
            charges=self._charge(view.round, paying) if len(paying) else None,
        )

    def _submit(self, job: int) -> bool:
        """Plan a job at its birth; False if no start is worth its price.

        Raises
        ------
        InvalidScenarioError : its failures cannot be estimated; names the job
        """
        report = planned_job(self._world.statements, job)
        try:
            if self._audit is not None:
                self._audit.born(job, report)
            start = self._plans.make(job, report, self._failures(report))
        except InvalidScenarioError as error:
            raise InvalidScenarioError(f"job {self._world.job_name(job)}: {error}") from error
        if start is None:
            return False
        self._oracle.add(job, report, start)
        if self._audit is not None:
            self._audit.planned(job, report, start)
        return True

    def _failures(self, report: PlannedJob) -> FloatArray | None:
        """Estimates as the planner takes them; None if nothing can fail."""
        if self._oracle.certain(report.concurrency):
            return None
        # Later starts end without value, and the planner does not look at them.
        starts = max(int((report.values > 0).sum()) - int(report.duration.min()), 1)
        last_start, longest = report.birth + starts - 1, int(report.duration.max())
        estimates = self._oracle.failures(report.birth, report.concurrency, last_start, longest)
        return threshold(estimates, self._eps) if self._threshold else estimates

    def _charge(self, now: int, jobs: IntArray) -> Charges:
        """Prices of jobs that completed now."""
        return Charges(jobs, self._plans.prices(jobs, now))

    def quotes(self, arrival: IntArray, signal: IntArray) -> Quotes:
        """Best starts at the births, with their prices, for what comes true."""
        return self._plans.quotes(arrival, signal)

    def menu_at_birth(self, job: int) -> tuple[IntArray, BoolArray]:
        """Prices of a node, in 1e-9, and sold-out flags of the rounds from a job's birth to the horizon.

        The job, by its row in jobs.parquet, must have been submitted. c nodes from round t for d rounds cost
        c times the sum of the prices of t to t + d - 1.
        """
        birth = int(self._world.statements.birth[job])
        return self._plans.menu_at_birth(job, birth, self._menu.capacity.horizon - birth)

    def counts(self) -> Mapping[str, int]:
        """Sample paths, and plans that buy an outcome above its value."""
        return {"oracle_paths": self._paths, "plans_below_price": self._plans.below_price}

    def figures(self) -> Mapping[str, float]:
        """Value of the plans were no job to fail, and the fullest round as a share of what may be booked."""
        capacity = self._menu.capacity
        return {
            "planned_welfare": self._plans.worth_nano / NANO,
            "peak_booked_share": float(self._menu.booked.max(initial=0)) / capacity.relaxed,
        }


def _without(jobs: IntArray, gone: IntArray | list[int]) -> IntArray:
    """Jobs, sorted, that are not gone."""
    return np.setdiff1d(jobs, gone) if len(jobs) and len(gone) else jobs
