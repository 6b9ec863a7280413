"""Measured jobs run at the speed of the GPUs that they hold, by worked examples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ray_sim.engine.run import run_world
from ray_sim.model.errors import InfeasibleDecisionError, InvalidScenarioError
from ray_sim.model.figures import DeadlineMisses, MeasuredFigures
from ray_sim.policy_api import NO_JOBS, WORKER, Decision, Policy, View
from tests.measured_worlds import Steps, measured_world, speed_table
from tests.worlds import column_of, replay, times_of

SPEEDS = speed_table(
    {
        ("a", 1): {"K80": 2.0, "V100": 10.0},
        ("a", 2): {"K80": (4.0, None), "V100": (20.0, 5.0)},
        ("b", 1): {"K80": 4.0, "V100": 1.0},
        ("c", 1): {"K80": 0.0, "V100": 0.0},
        ("d", 1): {"K80": 1.0, "V100": 0.0},
    }
)


class Places(Policy):
    """Places jobs on the servers that it is told, all tasks of a job there."""

    def __init__(self, places: dict[int, list[tuple[int, int]]]) -> None:
        self._places = {
            job: [(server, WORKER, tasks) for server, tasks in rows] for job, rows in places.items()
        }

    unchanging = frozenset({"_places"})

    def decide(self, view: View) -> Decision:
        return Decision.of({job: self._places[job] for job in view.arrived.tolist()}, reject=NO_JOBS)


def test_a_job_takes_its_steps_over_the_speed_of_its_gpu_type() -> None:
    # Both are fastest on V100; the second finds room on K80 only: 100 / 10 = 10 s, 100 / 2 = 50 s.
    world = measured_world([Steps(0, "a", 100), Steps(0, "a", 100)], [("K80", 1), ("V100", 1)], SPEEDS)
    assert times_of(replay(world, "fifo")) == {"J1": (0.0, 10.0), "J2": (0.0, 50.0)}


def test_a_job_takes_the_type_on_which_its_model_is_fastest() -> None:
    # b does 4 steps a second on K80, 1 on V100.
    world = measured_world([Steps(0, "b", 100)], [("V100", 1), ("K80", 1)], SPEEDS)
    assert times_of(replay(world, "srtf")) == {"J1": (0.0, 25.0)}


@pytest.mark.parametrize(("v100", "first"), [((20.0, 5.0), "K80"), ((20.0, 9.0), "V100")])
def test_a_type_whose_servers_are_too_small_counts_with_its_speed_over_several(
    v100: tuple[float, float], first: str
) -> None:
    # V100 would do 20 steps a second on one server of two GPUs, and has none; K80 has one, and does 8.
    table = speed_table({("a", 2): {"V100": v100, "K80": (8.0, 1.0)}})
    world = measured_world([Steps(0, "a", 360, gpus=2)], [("V100", 1), ("V100", 1), ("K80", 2)], table)
    assert times_of(replay(world, "fifo")) == {"J1": (0.0, 45.0 if first == "K80" else 40.0)}


def test_a_gang_measured_over_several_servers_only_is_refused_where_one_can_hold_it() -> None:
    table, job = speed_table({("a", 2): {"V100": (None, 5.0)}}), [Steps(0, "a", 100, gpus=2)]
    with pytest.raises(InvalidScenarioError, match="J1 was measured over several servers of V100, not on"):
        measured_world(job, [("V100", 2)], table)
    apart = measured_world(job, [("V100", 1), ("V100", 1)], table)
    assert times_of(replay(apart, "fifo")) == {"J1": (0.0, 20.0)}


def test_type_any_takes_the_first_server_with_room() -> None:
    world = measured_world([Steps(0, "b", 100)], [("V100", 1), ("K80", 1)], SPEEDS)
    assert times_of(replay(world, "fifo", type="any")) == {"J1": (0.0, 100.0)}


def test_a_gang_on_several_servers_has_its_unconsolidated_speed() -> None:
    servers = [("V100", 1), ("V100", 1)]
    world = measured_world([Steps(0, "a", 100, gpus=2)], servers, SPEEDS)
    assert times_of(replay(world, "fifo")) == {"J1": (0.0, 20.0)}
    without = measured_world([Steps(0, "a", 100, gpus=2)], servers, SPEEDS, {"consolidation": "false"})
    assert times_of(replay(without, "fifo")) == {"J1": (0.0, 5.0)}


def test_a_gang_measured_on_one_server_only_stays_on_one() -> None:
    # Nothing was measured over two K80 servers: the second gang waits for the server with two.
    servers = [("K80", 1), ("K80", 2), ("K80", 1)]
    jobs = [Steps(0, "a", 40, gpus=2), Steps(0, "a", 40, gpus=2)]
    world = measured_world(jobs, servers, SPEEDS)
    assert times_of(replay(world, "fifo", placement="pooled")) == {"J1": (0.0, 10.0), "J2": (10.0, 20.0)}
    apart = measured_world(jobs, servers, SPEEDS, {"unmeasured_spread": "consolidated"})
    assert times_of(replay(apart, "fifo", placement="pooled")) == {"J1": (0.0, 10.0), "J2": (0.0, 10.0)}


def test_a_model_without_speed_is_rejected_and_says_so() -> None:
    jobs = [Steps(0, "c", 10), Steps(0, "a", 10, gpus=4), Steps(0, "a", 10, gpus=2)]
    world = measured_world(jobs, [("V100", 1), ("K80", 2)], SPEEDS)
    result = replay(world, "fifo")
    assert column_of(result, "reason") == {"J1": "no_speed", "J2": "no_speed", "J3": None}


def test_jobs_without_steps_have_no_speed() -> None:
    jobs = [Steps(0, "a", 10), Steps(0, "a", 10)]
    world = measured_world(jobs, [("V100", 1)], SPEEDS, columns={"steps": [None, 10]})
    result = replay(world, "fifo")
    assert column_of(result, "reason") == {"J1": "no_speed", "J2": None}
    assert times_of(result)["J2"] == (0.0, 1.0)


def test_a_gang_larger_than_every_type_never_fits() -> None:
    world = measured_world([Steps(0, "a", 10, gpus=2)], [("V100", 1), ("K80", 1)], SPEEDS)
    assert column_of(replay(world, "fifo"), "reason") == {"J1": "never_fits"}


def test_a_smaller_gang_stands_for_one_that_was_not_measured() -> None:
    # Four GPUs: twice the speed of two, 40 steps a second on one server.
    servers = [("V100", 4)]
    world = measured_world([Steps(0, "a", 80, gpus=4)], servers, SPEEDS, {"scale": "nearest"})
    assert times_of(replay(world, "fifo")) == {"J1": (0.0, 2.0)}


def test_a_gang_over_types_is_refused_or_as_slow_as_on_its_slowest() -> None:
    servers, jobs = [("K80", 2), ("V100", 1)], [Steps(0, "a", 100, gpus=2)]
    both = Places({0: [(0, 1), (1, 1)]})
    speeds = speed_table({("a", 2): {"K80": (4.0, 2.0), "V100": (20.0, 5.0)}})
    with pytest.raises(InfeasibleDecisionError, match=r"J1 \(a\) on K80 and V100 over 2 servers: gangs over"):
        run_world(measured_world(jobs, servers, speeds), both)
    slowest = measured_world(jobs, servers, speeds, {"mixed_types": "slowest"})
    assert times_of(run_world(slowest, both)) == {"J1": (0.0, 50.0)}


def test_gpus_without_speed_are_refused() -> None:
    world = measured_world([Steps(0, "d", 10)], [("V100", 1), ("K80", 1)], SPEEDS)
    with pytest.raises(InfeasibleDecisionError, match=r"J1 \(d\) on V100: it has no speed there"):
        run_world(world, Places({0: [(0, 1)]}))


def test_a_world_without_speeds_types_or_steps_is_refused() -> None:
    job = [Steps(0, "a", 10)]
    with pytest.raises(InvalidScenarioError, match="no server of cluster small is of one of them"):
        measured_world(job, [("A100", 1)], SPEEDS)


def test_a_run_costs_the_price_of_each_gpu_for_the_hours_that_it_is_held() -> None:
    # J1 has one of the two V100 of a server of 6 an hour for 3,600 s: 3. J2 has two K80 servers of 1 an hour
    # each and does 4 steps a second, for 1,800 s: 1.
    speeds = speed_table({("a", 1): {"V100": 10.0, "K80": 0.0}, ("b", 2): {"K80": 4.0, "V100": 0.0}})
    jobs = [Steps(0, "a", 36_000), Steps(0, "b", 7_200, gpus=2)]
    world = measured_world(jobs, [("V100", 2), ("K80", 1), ("K80", 1)], speeds)
    assert replay(world, "fifo").summary.cost is None
    priced = replace(world, cluster=replace(world.cluster, price=(6.0, 1.0, 1.0)))
    assert replay(priced, "fifo").summary.cost == pytest.approx(3 + 1)


def test_deadlines_count_of_the_jobs_that_have_one() -> None:
    # One after the other on one V100: 10, 20, 30 s. The first has no deadline, the second is in time.
    jobs = [Steps(0, "a", 100), Steps(0, "a", 100), Steps(0, "a", 100)]
    due = {"utility_due_s": [None, 20.0, 29.0]}
    summary = replay(measured_world(jobs, [("V100", 1)], SPEEDS, columns=due), "fifo").summary
    assert summary.figures_as(MeasuredFigures) == MeasuredFigures(
        restart_share=0.0, deadlines=DeadlineMisses(late=1, never=0, share=0.5)
    )
