"""Two jobs on one GPU, by worked examples: their speeds, and who holds the GPU when one of them ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.build_world import build_world
from ray_sim.engine.run import run_world
from ray_sim.engine.world import World
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.measured_speeds import PairRow
from ray_sim.policy_api import NO_JOBS, WORKER, Guests, MeasuredDecision, Policy, View
from tests.measured_worlds import Steps, measured_world, speed_table
from tests.worlds import DOWN, UP, availability, column_of, events_of, times_of

SPEEDS = speed_table(
    {("a", 1): {"V100": 10.0}, ("b", 1): {"V100": 4.0}, ("a", 2): {"V100": 20.0}},
    [
        PairRow("V100", "a", None, "a", None, 6.0, 6.0),
        PairRow("V100", "a", None, "b", None, 5.0, 3.0),
        PairRow("V100", "b", None, "b", None, 0.0, 0.0),
    ],
)

Rows = dict[int, list[tuple[int, int, int]]]
Script = dict[float, tuple[Rows, dict[int, int]]]


class Scripted(Policy):
    """Decides what is written for an instant in seconds: placements, then guests and their hosts."""

    schedules = "measured"
    unchanging = frozenset({"_script"})

    def __init__(self, script: Script) -> None:
        self._script = script

    def decide(self, view: View) -> MeasuredDecision:
        placed, hosts = self._script.get(view.now_us / 1e6, ({}, {}))
        later = [round(at * 1e6) for at in self._script if at * 1e6 > view.now_us]
        guests = np.array(sorted(hosts), dtype=np.int64)
        host = np.array([hosts[job] for job in sorted(hosts)], dtype=np.int64)
        return MeasuredDecision.of(placed, guests=Guests(guests, host), review_us=min(later, default=2**62))


def whole(server: int = 0, tasks: int = 1) -> list[tuple[int, int, int]]:
    return [(server, WORKER, tasks)]


GUEST = [(0, WORKER, 0)]


def world(jobs: list[Steps], gpus: int = 1, **params: object) -> World:
    return measured_world(jobs, [("V100", gpus)], SPEEDS, {"packing": True, **params})


def about(seconds: float) -> object:
    """A time but for the rounding of a few instants to microseconds."""
    return pytest.approx(seconds, abs=2e-6)


def test_a_guest_goes_on_alone_when_its_host_ends() -> None:
    # Both do 6 steps a second. The host ends after 100/6 s; then the guest does its other 100 at 10 a second.
    jobs = [Steps(0, "a", 100), Steps(0, "a", 200)]
    result = run_world(world(jobs), Scripted({0.0: ({0: whole(), 1: GUEST}, {1: 0})}))
    assert times_of(result) == {
        "J1": (0.0, about(100 / 6)),
        "J2": (0.0, about(100 / 6 + 10)),
    }
    assert column_of(result, "gpu_s") == {
        "J1": about(100 / 6),
        "J2": about(10),
    }
    assert column_of(result, "restarts") == {"J1": 0, "J2": 0}
    assert result.timeline["used_gpu"].max() == 1.0


def test_a_host_goes_on_alone_when_its_guest_ends() -> None:
    # a does 5 a second beside b, b 3 beside a: b ends at 10 s, when a has 50 of 100 steps left.
    jobs = [Steps(0, "a", 100), Steps(0, "b", 30)]
    result = run_world(world(jobs), Scripted({0.0: ({0: whole(), 1: GUEST}, {1: 0})}))
    assert times_of(result) == {
        "J1": (0.0, about(15)),
        "J2": (0.0, about(10)),
    }
    assert column_of(result, "gpu_s") == {"J1": about(15), "J2": 0.0}


def test_a_guest_takes_the_gpu_of_a_host_that_is_suspended() -> None:
    # At 10 s the host has done 60 steps and is suspended; the guest ends alone at 10 + 40/10 s.
    jobs = [Steps(0, "a", 100), Steps(0, "a", 100)]
    script: Script = {0.0: ({0: whole(), 1: GUEST}, {1: 0}), 10.0: ({0: []}, {}), 20.0: ({0: whole()}, {})}
    result = run_world(world(jobs), Scripted(script))
    assert times_of(result)["J2"] == (0.0, about(14))
    assert times_of(result)["J1"] == (0.0, about(24))


def test_pairs_can_change() -> None:
    # J1 beside J2 for 10 s, then J2 holds the GPU and J3 is its guest, while J1 waits.
    jobs = [Steps(0, "a", 60), Steps(0, "a", 120), Steps(0, "b", 30)]
    script: Script = {
        0.0: ({0: whole(), 1: GUEST}, {1: 0}),
        5.0: ({0: [], 1: whole(), 2: GUEST}, {2: 1}),
        15.0: ({0: whole(), 1: []}, {}),
    }
    result = run_world(world(jobs), Scripted({**script, 18.0: ({1: whole()}, {})}))
    # At 5 s 30 steps are done of each; at 15 s J2 has done 80 and J3 all of its 30; J1 ends at 18 s.
    assert times_of(result) == {
        "J1": (0.0, about(18)),
        "J2": (0.0, about(22)),
        "J3": (5.0, about(15)),
    }


REFUSED = [
    ({0: whole(), 1: GUEST}, {}, "gives 0 tasks to job J2: all 1 or, as a guest, none"),
    ({0: whole(), 1: GUEST, 2: GUEST}, {1: 0, 2: 0}, "places two guests beside job J1"),
    ({0: whole(), 3: GUEST}, {3: 0}, "places job J4 beside job J1 without speed"),
    ({2: whole(), 4: GUEST}, {4: 2}, "places job J5 beside job J3 without speed"),
    ({1: GUEST}, {1: 0}, "places job J2, a guest, where its host holds no GPU"),
    ({0: whole(), 1: whole()}, {1: 0}, "gives 1 tasks to job J2: guests hold no task"),
]


@pytest.mark.parametrize(("placed", "hosts", "text"), REFUSED)
def test_guests_that_cannot_be_are_refused(placed: Rows, hosts: dict[int, int], text: str) -> None:
    jobs = [
        Steps(0, "a", 100),
        Steps(0, "a", 100),
        Steps(0, "b", 100),
        Steps(0, "a", 100, gpus=2),
        Steps(0, "b", 9),
    ]
    with pytest.raises(InfeasibleDecisionError, match=text):
        run_world(world(jobs, gpus=2), Scripted({0.0: (placed, hosts)}))


def test_no_gpu_is_shared_without_packing() -> None:
    jobs = [Steps(0, "a", 100), Steps(0, "a", 100)]
    with pytest.raises(InfeasibleDecisionError, match="number of tasks that is not 1"):
        run_world(world(jobs, packing=False), Scripted({0.0: ({0: whole(), 1: GUEST}, {1: 0})}))


def test_the_gpu_of_a_guest_whose_host_leaves_is_not_free() -> None:
    jobs = [Steps(0, "a", 100), Steps(0, "a", 100), Steps(0, "a", 100)]
    script: Script = {0.0: ({0: whole(), 1: GUEST}, {1: 0}), 5.0: ({0: [], 2: whole()}, {})}
    with pytest.raises(InfeasibleDecisionError, match="takes the GPU of job J2, a guest whose host leaves"):
        run_world(world(jobs), Scripted(script))


def test_a_guest_costs_nothing_beside_its_host() -> None:
    # Both do 6 steps a second for 10 s, on a GPU of 3,600 an hour.
    shared = world([Steps(0, "a", 60), Steps(0, "a", 60)])
    priced = replace(shared, cluster=replace(shared.cluster, price=(3600.0,)))
    script: Script = {0.0: ({0: whole(), 1: GUEST}, {1: 0})}
    assert run_world(priced, Scripted(script)).summary.cost == about(10.0)


class AtTheEndOfTheHost(Policy):
    """Places J1 with J2 as its guest, and moves J2 to the other server at the instant at which J1 ends."""

    schedules = "measured"

    def decide(self, view: View) -> MeasuredDecision:
        if 0 in view.completed:
            return MeasuredDecision.of({1: whole(1)})
        first = {0: whole(), 1: GUEST} if 0 in view.arrived else {}
        guests = [np.array([1]), np.array([0])] if first else [NO_JOBS, NO_JOBS]
        return MeasuredDecision.of(first, guests=Guests(*guests))


def test_a_guest_that_moves_as_its_host_ends_holds_one_gpu() -> None:
    # The host ends at 100/6 s; the guest has 100 steps left, at 10 a second on the other server.
    jobs = [Steps(0, "a", 100), Steps(0, "a", 200)]
    servers = [("V100", 1), ("V100", 1)]
    result = run_world(measured_world(jobs, servers, SPEEDS, {"packing": True}), AtTheEndOfTheHost())
    assert column_of(result, "gpu_s") == {"J1": about(100 / 6), "J2": about(10)}
    assert [row[1:] for row in events_of(result, "J2")] == [
        ("submit", None, 0),
        ("start", "s0", 0),
        ("move", "s1", 1),
        ("finish", None, 0),
    ]


class Evicting(Scripted):
    """Also evicts the job that is written for an instant."""

    unchanging = frozenset({"_script", "_evicted"})

    def __init__(self, script: Script, evicted: dict[float, int]) -> None:
        super().__init__(script)
        self._evicted = evicted

    def decide(self, view: View) -> MeasuredDecision:
        gone = self._evicted.get(view.now_us / 1e6)
        return replace(super().decide(view), evict=NO_JOBS if gone is None else np.array([gone]))


def test_a_guest_that_is_placed_as_its_host_is_evicted_holds_one_gpu() -> None:
    # At 10 s each has done 60 steps; the guest does its other 40 at 10 a second.
    jobs = [Steps(0, "a", 100), Steps(0, "a", 100)]
    script = Evicting({0.0: ({0: whole(), 1: GUEST}, {1: 0}), 10.0: ({1: whole()}, {})}, {10.0: 0})
    result = run_world(world(jobs), script)
    assert times_of(result) == {"J1": (0.0, 10.0), "J2": (0.0, about(14))}
    assert column_of(result, "gpu_s") == {"J1": 10.0, "J2": about(4)}


def test_a_guest_takes_the_place_of_one_that_is_evicted() -> None:
    jobs = [Steps(0, "a", 200), Steps(0, "a", 100), Steps(0, "b", 30)]
    placed: Script = {0.0: ({0: whole(), 1: GUEST}, {1: 0}), 10.0: ({2: GUEST}, {2: 0})}
    result = run_world(world(jobs), Evicting(placed, {10.0: 1}))
    # At 10 s J1 has 140 steps left; it does 50 beside J3 until 20 s, and the other 90 alone.
    assert times_of(result) == {"J1": (0.0, about(29)), "J2": (0.0, 10.0), "J3": (10.0, about(20))}


def test_a_host_moves_to_a_type_on_which_the_pair_would_have_no_speed() -> None:
    # At 10 s the host has 40 steps left, at 2 a second on K80; the guest does its 40 alone at 10 a second.
    speeds = speed_table(
        {("a", 1): {"V100": 10.0, "K80": 2.0}}, [PairRow("V100", "a", None, "a", None, 6, 6)]
    )
    jobs = [Steps(0, "a", 100), Steps(0, "a", 100)]
    both = measured_world(jobs, [("V100", 1), ("K80", 1)], speeds, {"packing": True})
    script: Script = {0.0: ({0: whole(), 1: GUEST}, {1: 0}), 10.0: ({0: whole(1)}, {})}
    assert times_of(run_world(both, Scripted(script))) == {"J1": (0.0, about(30)), "J2": (0.0, about(14))}


def test_a_guest_that_could_not_run_alone_is_refused() -> None:
    alone = {("a", 1): {"V100": 10.0}, ("b", 1): {"K80": 4.0}}
    speeds = speed_table(alone, [PairRow("V100", "a", None, "b", None, 6, 6)])
    servers = [("V100", 1), ("K80", 1)]
    pair = measured_world([Steps(0, "a", 9), Steps(0, "b", 9)], servers, speeds, {"packing": True})
    with pytest.raises(InfeasibleDecisionError, match=r"J2 \(b\) on V100: it has no speed there"):
        run_world(pair, Scripted({0.0: ({0: whole(), 1: GUEST}, {1: 0})}))


def test_a_guest_has_no_checkpoint_when_its_host_leaves() -> None:
    # Checkpoints every 9 s of run time: at 9 s the guest has done 5 x 6 + 4 x 10 of 200 steps; the server is
    # lost at 16 s. From 20 s it does the other 130.
    jobs = [Steps(0, "a", 100), Steps(0, "a", 200)]
    there = world(jobs)
    lost = build_world(
        there.table,
        replace(there.cluster, availability=availability([(16, 0, DOWN), (20, 0, UP)])),
        params={"truth": "measured", "packing": True, "checkpoint_s": 9},
    )
    script: Script = {0.0: ({0: whole(), 1: GUEST}, {1: 0}), 5.0: ({0: []}, {}), 20.0: ({1: whole()}, {})}
    assert times_of(run_world(lost, Scripted(script)))["J2"] == (0.0, about(33))
