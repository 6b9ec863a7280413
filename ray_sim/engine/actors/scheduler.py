"""Run with the central scheduler and every site in a Ray actor of its own; the entry is `run_on_actors`.

The loop and the result are those of a run in one process. The scheduler's actor owns the actors of the
sites: if it dies, they die too. A dead actor is replaced from its last snapshot: a site gets again all
requests since then, the scheduler takes its decisions since then again. Both are deterministic, so the
result does not change.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ray_sim.engine.actors.ray_fleet import RayFleet
from ray_sim.engine.actors.site_link import MAX_DEATHS, first_line, named
from ray_sim.engine.compiled import Progress
from ray_sim.engine.contract import Policy
from ray_sim.engine.run import GeneralRun
from ray_sim.engine.sites.routing import Routing
from ray_sim.engine.snapshots import Keeper, stopped_text
from ray_sim.engine.states import State
from ray_sim.engine.world import World
from ray_sim.model.errors import RaySimError, RunFailedError, RunStoppedError
from ray_sim.model.metrics import Trim
from ray_sim.model.result import RunResult

if TYPE_CHECKING:
    from ray import ObjectRef

    from ray_sim.engine.actors.site_link import Actor

SPELL_S = 0.5
"""Seconds that the scheduler decides for between two replies to the driver."""

_STATE_S = 20.0
"""Seconds between two snapshots of the scheduler in the driver's memory, if there is no keeper."""


class Spell(NamedTuple):
    """Progress of the run after one call of `SchedulerActor.go_on`."""

    going: bool
    """Whether the run goes on."""
    ended_jobs: int
    site_deaths: int
    """Number of deaths of sites under this scheduler; each was replaced."""


class SchedulerActor:
    """The central scheduler: the general loop over sites in actors of their own."""

    def __init__(
        self,
        world: World,
        new_policy: Callable[[], Policy],
        seed: int,
        sites: int,
        label: str,
        saved: State | None,
    ) -> None:
        self._fleet = RayFleet(world, sites, label)
        self._run = GeneralRun(world, new_policy(), seed=seed, fleet=self._fleet, saved=saved)

    def go_on(self, seconds: float) -> Spell:
        """Decide for ``seconds``, at least once, or to the end of the run."""
        until = time.monotonic() + seconds
        going = self._run.decide_once()
        while going and time.monotonic() < until:
            going = self._run.decide_once()
        return Spell(going, self._run.ended_jobs, self._fleet.deaths)

    def state(self) -> State:
        """A snapshot of the scheduler and of all sites."""
        return self._run.state()

    def result(self, trim: Trim | None) -> RunResult:
        """Result of the run, which must have ended; ends the actors of the sites."""
        result = self._run.result(trim, "sites in Ray actors")
        self._fleet.close()
        return result


def run_on_actors(
    world: World,
    new_policy: Callable[[], Policy],
    *,
    seed: int = 0,
    sites: int = 1,
    trim: Trim | None = None,
    progress: Progress | None = None,
    keeper: Keeper | None = None,
    spell_s: float = SPELL_S,
    label: str = "run",
) -> RunResult:
    """Run a policy to the end with the scheduler and every site in a Ray actor of its own.

    Ray must have been started or joined. The result has the same bytes as that of any other fleet,
    also if actors, workers or nodes die on the way. Between two replies to the driver the scheduler
    decides for ``spell_s`` seconds, at least once. ``progress`` gets the numbers of ended and of all jobs.
    Without a ``keeper`` the driver keeps the last snapshot in memory. Names of actors begin with ``label``.

    Raises
    ------
    InvalidScenarioError : more sites than servers, or `trim` counts no job
    RunFailedError : the policy failed, or actors keep dying
    RunStoppedError : the keeper asked for it
    """
    import ray

    if trim is not None:
        trim.window_us(world.table.submit_us)
    Routing(world, sites)  # raises InvalidScenarioError here, not in an actor
    saved = None if keeper is None else keeper.load()
    driver = _Driver(ray.put(world), new_policy, seed, sites, label, spell_s, saved)
    deaths, last = 0, -1
    while True:
        try:
            result = driver.follow(len(world.table), trim, progress, keeper)
            return replace(result, recoveries=driver.recoveries)
        except ray.exceptions.RayActorError as death:
            driver.recoveries += 1
            deaths = deaths + 1 if driver.ended_jobs <= last else 1
            last = driver.ended_jobs
            if deaths == MAX_DEATHS:
                raise RunFailedError(
                    f"the scheduler's actor died {MAX_DEATHS} times without progress; the last time: "
                    f"{first_line(death)}"
                ) from death
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, RaySimError):
                raise error.cause from None
            raise RunFailedError(f"the scheduler's actor failed: {first_line(error)}") from error


class _Driver:
    """Driver's side of a run: it outlives the scheduler's actor and holds the last snapshot."""

    def __init__(
        self,
        world: ObjectRef[World],
        new_policy: Callable[[], Policy],
        seed: int,
        sites: int,
        label: str,
        spell_s: float,
        saved: State | None,
    ) -> None:
        self._world = world
        self._arguments = (new_policy, seed, sites, label)
        self._name = f"{label}, scheduler"
        self._spell_s = spell_s
        self._saved = saved
        self.ended_jobs = 0
        self.recoveries = 0
        """Deaths of schedulers and of sites; sites that die with their scheduler are not counted."""

    def follow(
        self, jobs: int, trim: Trim | None, progress: Progress | None, keeper: Keeper | None
    ) -> RunResult:
        """Run a new scheduler actor from the last snapshot to the end; ``jobs`` is the number of all jobs."""
        import ray

        actor: Actor = ray.remote(num_cpus=0, max_restarts=0)(SchedulerActor)
        scheduler = actor.options(**named(self._name)).remote(self._world, *self._arguments, self._saved)
        saved_at = time.monotonic()
        site_deaths = 0
        try:
            while True:
                spell: Spell = ray.get(scheduler.go_on.remote(self._spell_s))
                self.ended_jobs = spell.ended_jobs
                self.recoveries += spell.site_deaths - site_deaths
                site_deaths = spell.site_deaths
                if not spell.going:
                    result: RunResult = ray.get(scheduler.result.remote(trim))
                    return result
                if progress is not None:
                    progress(self.ended_jobs, jobs)
                due = time.monotonic() - saved_at >= _STATE_S if keeper is None else keeper.due()
                if due:
                    self._keep(ray.get(scheduler.state.remote()), keeper)
                    saved_at = time.monotonic()
                if keeper is not None and keeper.stopping():
                    raise RunStoppedError(stopped_text(self.ended_jobs, jobs))
        finally:
            ray.kill(scheduler)

    def _keep(self, state: State, keeper: Keeper | None) -> None:
        self._saved = state
        if keeper is not None:
            keeper.save(state)
