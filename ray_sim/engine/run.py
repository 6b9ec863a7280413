"""One run from start to end, by whichever loop may be taken."""

from __future__ import annotations

from typing import Literal

from ray_sim.engine.compiled import Progress, run_compiled, why_general
from ray_sim.engine.contract import Policy
from ray_sim.engine.general import GeneralRun
from ray_sim.engine.limits import check_sites
from ray_sim.engine.policy_calls import named_failures
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.result import build_result
from ray_sim.engine.sites.fleet import fleet_of
from ray_sim.engine.snapshots import Keeper, fitting, stopped_text
from ray_sim.engine.world import World
from ray_sim.model.errors import RunStoppedError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams

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
        granted = PolicyContext(world, policy.sees, policy.name)
        with named_failures(policy):
            policy.start(granted, streams)
            order = policy.order(granted)
        assert order is not None
        stopping = (lambda: False) if keeper is None else keeper.stopping
        return build_result(world, run_compiled(world, order, progress, stopping), trim)
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
