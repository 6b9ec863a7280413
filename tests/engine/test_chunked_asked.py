"""When a policy of chunked jobs is asked, and what the sites answer it."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision
from ray_sim.engine.kinds.chunked.view import ChunkedView
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.sites.fleet import LocalFleet
from ray_sim.engine.view import View
from ray_sim.model.errors import (
    RunFailedError,
)
from ray_sim.model.units import NEVER_US
from tests.chunk_worlds import (
    CLOUD,
    ChunkJob,
    Server,
    chunk_world,
    dispatch_of,
    first_idle_ps,
)
from tests.scripted import scripted
from tests.worlds import Job, replay, times_of, world_of

J1, J2, J3 = 0, 1, 2


def test_slotted_policies_are_asked_at_once_about_active_jobs_and_at_slots_about_the_rest() -> None:
    # Slots of 10 s; J1 comes at 0, is uploaded at 4 and asks for a server then; J2 comes at 3, J3 at 12: both
    # wait for the next slot. J1 is done at 9 s, which frees its worker.
    asked: list[tuple[float, list[int], list[int], list[int]]] = []

    def decide(view: ChunkedView) -> Decision:
        asked.append(
            (view.now_us / 1e6, view.arrived.tolist(), view.completed.tolist(), view.active.tolist())
        )
        sent = dispatch_of([(job, 0, 0, 0) for job in view.arrived.tolist()])
        return ChunkedDecision.of(first_idle_ps(view), dispatch=sent)

    wake = Wake.ARRIVAL | Wake.COMPLETION | Wake.ACTIVATION
    policy = scripted(decide, wake=wake, on_slots_only=True, chunks=True)
    jobs = [ChunkJob(0, 1, 5, 4), ChunkJob(3, 1, 5, 4), ChunkJob(12, 1, 1, 0)]
    world = chunk_world(jobs, slot_s=10, slot_fill="fractional")
    result = replay(world, policy)
    assert asked == [
        (0, [J1], [], []),
        (4, [], [], [J1]),
        (9, [], [], []),
        (10, [J2], [J1], []),
        (14, [], [], [J2]),
        (19, [], [], []),
        (20, [J3], [J2], []),
        (20, [], [], [J3]),
        (21, [], [], []),
        (30, [], [J3], []),
    ]
    assert times_of(result) == {"J1": (4, 9), "J2": (14, 19), "J3": (20, 21)}


def test_what_is_asked_of_the_sites_are_the_least_loaded_workers_in_any_number_of_sites() -> None:
    # Workers 0, 1 on s0, 2 on s1 (the cloud's, no slot), 3 on s2. At 2 s worker 0 has 5 - 2 and 5 left of J1,
    # worker 1 still 4 that are not uploaded, worker 3 nothing.
    answers: dict[int, list[list[int]]] = {}
    for sites in (1, 2, 3):

        def decide(view: ChunkedView, sites: int = sites) -> Decision:
            if view.reviewed:
                rows = np.transpose(view.least_loaded(np.array([0]), np.array([2])))
                answers[sites] = rows[np.lexsort((rows[:, 0], rows[:, 1]))][:2].tolist()
                everyone = np.transpose(view.least_loaded(np.array([0]), np.array([9])))
                assert everyone[np.argsort(everyone[:, 0])].tolist() == [
                    [0, 8_000_000, 2], [1, 4_000_000, 1], [3, 0, 0],
                ]  # fmt: skip
                return Decision()
            if len(view.arrived):
                sent = dispatch_of([(J1, 0, 0, 0), (J1, 1, 0, 0), (J2, 0, 1, 0)])
                return ChunkedDecision(dispatch=sent, review_us=2_000_000)
            following = 2_000_000 if view.now_us == 0 else NEVER_US
            return Decision.of(first_idle_ps(view), review_us=following)

        wake = Wake.ARRIVAL | Wake.ACTIVATION
        policy = scripted(decide, wake=wake, visible=frozenset({"worker_load"}), chunks=True)
        servers = [Server(workers=2), Server(kind=CLOUD), Server()]
        replay(chunk_world([ChunkJob(0, 2, 5), ChunkJob(0, 1, 4, 3)], servers), policy, sites=sites)
    assert answers == {sites: [[3, 0, 0], [1, 4_000_000, 1]] for sites in (1, 2, 3)}


class Standing(LocalFleet):
    """A fleet that always has something to report and never reports it."""

    @property
    def next_us(self) -> int:
        return 0


@pytest.mark.slow
def test_an_instant_that_never_ends_is_an_error_that_names_the_running_jobs() -> None:
    world = world_of([Job(0, 1, 3), Job(0, 1, 3)], [1])

    def start_first(view: View) -> Decision:
        return Decision.of({J1: [(0, 0, 1)]})

    simulation = Simulation(world, scripted(start_first), fleet=Standing(world))
    view = simulation.advance()
    assert view is not None
    simulation.apply(start_first(view))
    with pytest.raises(RunFailedError, match=r"time stands still at 0 s: .* running jobs: J1$"):
        simulation.advance()
