"""What a policy may see, and what it may not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ray_sim.contract.chunked_worlds import busy_chunks
from ray_sim.contract.rigid_worlds import busy_world
from ray_sim.engine.build_world import build_world
from ray_sim.engine.decision import Decision
from ray_sim.engine.policy_context import PolicyContext
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.view import View
from ray_sim.engine.visible_columns import COLUMNS
from ray_sim.model.errors import BlindPolicyError
from tests.scripted import scripted
from tests.worlds import Job, cluster_of, job_table, world_of


def first_view(sees: frozenset[str]) -> View:
    """A view at 0 s, one job waiting."""
    table = job_table([Job(0, 1, 1, "a")], columns={"priority": [3], "user": ["u"]})
    simulation = Simulation(
        build_world(table, cluster_of([1])), scripted(lambda view: Decision(), visible=sees)
    )
    view = simulation.advance()
    assert view is not None
    return view


@pytest.mark.parametrize(
    ("sees", "look"),
    [
        ("duration_s", lambda view: view.jobs.work_us),
        ("num_gpus", lambda view: view.jobs.num_gpus),
        ("vc", lambda view: view.jobs.vc),
        ("user", lambda view: view.jobs.user),
        ("priority", lambda view: view.jobs.priority),
        ("work_left", lambda view: view.work_left(view.waiting)),
        ("attained_service", lambda view: view.executed_us(view.waiting)),
    ],
)
def test_only_what_a_policy_declares_can_be_read(sees: str, look: Callable[[View], object]) -> None:
    look(first_view(frozenset({sees})))
    others = (COLUMNS | {"work_left", "attained_service"}) - {sees}
    with pytest.raises(BlindPolicyError, match=r"policy scripted .*`sees`"):
        look(first_view(frozenset(others)))


def test_gangs_arrivals_and_demands_are_always_seen() -> None:
    view = first_view(frozenset())
    assert view.jobs.submit_us.tolist() == [0]
    assert view.jobs.tasks.tolist() == [1]
    assert view.jobs.demand.tolist() == [[1000]]
    assert view.jobs.partition.tolist() == [0]


def test_the_arrays_of_a_view_cannot_be_written_to() -> None:
    view = first_view(COLUMNS)
    seen = [view.free, view.jobs.submit_us, view.jobs.tasks, view.jobs.demand, view.jobs.partition]
    seen += [view.jobs.work_us, view.jobs.num_gpus, view.jobs.vc, view.jobs.priority]
    for array in seen:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_the_world_a_policy_is_started_with_is_as_blind() -> None:
    simulation = Simulation(world_of([Job(0, 1, 1)], [1]), scripted(lambda view: Decision()))
    with pytest.raises(BlindPolicyError, match=r"jobs\.work_us.* declare 'duration_s' in `sees`"):
        _ = simulation.world.jobs.work_us


def test_gang_and_demand_by_role_are_seen_of_rigid_jobs_and_not_of_chunked_ones() -> None:
    world = busy_world(5)
    jobs = PolicyContext(world, frozenset(), "mine").jobs
    assert jobs.gang.tolist() == [[tasks] for tasks in world.table.tasks.tolist()]
    assert jobs.role_demand.shape == (5, 1, 1)
    assert (jobs.role_demand == 1000).all()
    with pytest.raises(BlindPolicyError, match=r"jobs\.gang, which jobs in chunks have not"):
        _ = PolicyContext(busy_chunks(5), frozenset(), "mine").jobs.gang
