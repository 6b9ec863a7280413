"""One run from start to end, by whichever loop may be taken."""

from __future__ import annotations

import time
from typing import Literal

from ray_sim.engine.compiled import Progress, run_compiled, why_general
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.run import KindOutcome
from ray_sim.engine.limits import check_sites
from ray_sim.engine.policy_calls import name_of, named_failures, raise_named
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.result import build_result
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import Fleet, fleet_of
from ray_sim.engine.snapshots import Keeper, fitting, stopped_text
from ray_sim.engine.states import State
from ray_sim.engine.validation import refuse_world
from ray_sim.engine.world import World
from ray_sim.model.errors import RunStoppedError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams


class GeneralRun:
    """The general loop with a policy in it: asked decision by decision, timed, stopped and continued."""

    def __init__(
        self,
        world: World,
        policy: Policy,
        *,
        seed: int,
        fleet: Fleet,
        saved: State | None = None,
        loop: type[Simulation] = Simulation,
    ) -> None:
        self._policy = policy
        self._simulation = loop(world, policy, seed=seed, fleet=fleet)
        self._seconds: list[float] = []
        with named_failures(policy):
            policy.start(self._simulation.world, self._simulation.streams)
        if saved is not None:
            self._simulation.restore(saved)

    @property
    def now_us(self) -> int:
        """Instant of the last decision; -1 before the first."""
        return self._simulation.now_us

    @property
    def ended_jobs(self) -> int:
        """Jobs that have come and gone."""
        return self._simulation.ended_jobs

    @property
    def outcome(self) -> KindOutcome:
        """Outcome of the jobs so far."""
        return self._simulation.outcome

    def decide_once(self) -> bool:
        """Go on to the next decision and carry it out; False at the end."""
        view = self._simulation.advance()
        if view is None:
            return False
        begin = time.perf_counter()
        try:
            decision = self._policy.decide(view)
        except BaseException as failure:  # whatever a policy may do wrong
            raise_named(self._policy, failure)
        self._seconds.append(time.perf_counter() - begin)
        self._simulation.apply(decision)
        return True

    def state(self) -> State:
        """A snapshot, valid between two decisions."""
        return self._simulation.state()

    def result(self, trim: Trim | None, reason: str) -> RunResult:
        """The result, at the end. `reason` is why this loop was taken."""
        return self._simulation.result(trim, loop_reason=reason, decision_seconds=self._seconds)


Loop = Literal["auto", "general"]

_DECISIONS_PER_REPORT = 5_000


def run_world(
    world: World,
    policy: Policy,
    *,
    seed: int = 0,
    sites: int = 1,
    loop: Loop = "auto",
    trim: Trim | None = None,
    progress: Progress | None = None,
    keeper: Keeper | None = None,
) -> RunResult:
    """Run a policy to the end.

    ``loop="general"`` forbids the compiled loop, which is taken where it does the same; the result
    tells which ran and why. `sites` in one process change no result: they are simulated where they
    report something, and under ``loop="general"``. `trim` says which jobs the summary
    counts. Snapshots are kept of the general loop only: the compiled one ends in seconds.

    Raises
    ------
    InvalidInputError : `trim` counts no job, or the seed or the number of sites is out of range
    RunFailedError : the policy failed, or took a decision that the world forbids
    RunStoppedError : the keeper asked for it
    UnfitSnapshotError : the keeper's snapshot is of another run
    """
    streams = Streams(seed)
    check_sites(sites, len(world.cluster))
    if trim is not None:
        trim.window_us(world.table.submit_us)  # complains before the work, not after it
    reason = "asked for" if loop == "general" else why_general(world, policy)
    if reason is None:
        refuse_world(policy, world, name_of(policy))
        granted = PolicyContext(world, policy.sees, policy.name)
        with named_failures(policy):
            policy.start(granted, streams)
            order = policy.order(granted)
        assert order is not None
        stopping = (lambda: False) if keeper is None else keeper.stopping
        return build_result(world, run_compiled(world, order, progress, stopping, streams), trim)
    saved = None if keeper is None else keeper.load()
    fleet = fleet_of(world, sites, always=sites > 1 and loop == "general")
    with fitting(saved, policy):
        run = GeneralRun(world, policy, seed=seed, fleet=fleet, saved=saved)
        _carry_through(run, len(world.table), progress, keeper)
        return run.result(trim, reason)


def _carry_through(run: GeneralRun, jobs: int, progress: Progress | None, keeper: Keeper | None) -> None:
    """Decision by decision to the end, with reports and snapshots on the way."""
    decisions = 0
    while run.decide_once():
        decisions += 1
        if progress is not None and decisions % _DECISIONS_PER_REPORT == 0:
            progress(run.ended_jobs, jobs)
        if keeper is not None and keeper.due():
            keeper.save(run.state())
            if keeper.stopping():
                raise RunStoppedError(stopped_text(run.ended_jobs, jobs))
