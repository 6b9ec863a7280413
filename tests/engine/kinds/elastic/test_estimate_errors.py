"""What policies believe of their jobs, against what is true.

A step of the job of `tests.training.profile` trains 100 samples in 10.8 s of a worker beside its parameter
server; it has 2000.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.kinds.elastic.decision import ElasticDecision, Estimates
from ray_sim.engine.run import run_world
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.view import View
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.errors import InfeasibleDecisionError
from ray_sim.model.result import RunResult
from ray_sim.model.units import NEVER_US
from ray_sim.reports.tables import summary_rows
from tests.elastic_worlds import elastic_world
from tests.figures import elastic_of
from tests.scripted import EVENTS, scripted
from tests.training import profile
from tests.worlds import Job, world_of

SAMPLES, SPEED = 2000.0, 100 / 10.8
NAN = np.nan
PAIR = [(0, WORKER, 1), (0, PARAMETER_SERVER, 1)]
Beliefs = Callable[[View], Estimates]


def estimates(jobs: Sequence[int], speed: Sequence[float], work_left: Sequence[float]) -> Estimates:
    return Estimates(np.array(jobs, dtype=np.int64), np.array(speed), np.array(work_left))


def believing(beliefs: Beliefs, wake: Wake = EVENTS) -> Policy:
    """Every job gets a pair when it comes; the policy is asked again at 54 s, half of a lone job's epoch."""

    def decide(view: View) -> Decision:
        decision = ElasticDecision.of(dict.fromkeys(view.arrived.tolist(), PAIR))
        later = 54_000_000 if view.now_us == 0 else decision.review_us
        return replace(decision, estimates=beliefs(view), review_us=later)

    return scripted(decide, wake=wake | Wake.REVIEW, visible=frozenset({"work_left"}), elastic=True)


def lone_world(restart_cost_s: float = 0.0) -> World:
    return elastic_world([0], [profile()], [4], {"restart_cost_s": restart_cost_s})


def errors_at(result: RunResult) -> list[tuple[object, ...]]:
    return result.timeline.select("time_s", "speed_error", "convergence_error").rows()


@pytest.mark.parametrize(("factor", "error"), [(1.0, 0.0), (2.0, 1.0), (0.25, 0.75), (0.0, 1.0)])
def test_errors_are_those_when_the_decision_takes_effect(factor: float, error: float) -> None:
    """Five steps of twenty are over at 54 s. Speeds hold as soon as the job has what they are for.

    Errors of the work left are relative to all twenty steps.
    """

    def beliefs(view: View) -> Estimates:
        if len(view.running) + len(view.arrived) == 0:
            return estimates([], [], [])
        left = SAMPLES - SPEED * view.now_us / 1e6
        return estimates([0], [factor * SPEED], [factor * left])

    result = run_world(lone_world(), believing(beliefs))
    near, later = pytest.approx(error, abs=1e-9), pytest.approx(error * 15 / 20, abs=1e-9)
    assert errors_at(result) == [(0.0, near, near), (54.0, near, later), (216.0, None, None)]
    assert elastic_of(result).speed_error == pytest.approx(error)
    assert elastic_of(result).convergence_error == pytest.approx(error * (20 + 15) / 40)


def test_little_or_nothing_left_in_truth_is_no_large_error() -> None:
    """A microsecond before the end 9e-6 of 2000 samples are left; 500 are expected, a quarter of the job."""

    def decide(view: View) -> Decision:
        decision = ElasticDecision.of(dict.fromkeys(view.arrived.tolist(), PAIR))
        beliefs = estimates([0], [NAN], [500.0]) if view.reviewed else NOTHING
        return replace(decision, estimates=beliefs, review_us=215_999_999 if view.now_us == 0 else NEVER_US)

    result = run_world(lone_world(), scripted(decide, wake=EVENTS | Wake.REVIEW, elastic=True))
    assert result.jobs["finish_s"][0] == 216.0
    assert elastic_of(result).convergence_error == pytest.approx(500 / 2000)


def test_the_mean_is_over_all_that_was_estimated() -> None:
    """Two jobs at 0 s, one speed estimated; both of one at 54 s: (1 + 0) / 2, and (1 + 3 + 0) / 3."""

    def beliefs(view: View) -> Estimates:
        if view.now_us == 0:
            return estimates([0, 1], [2 * SPEED, NAN], [2 * SAMPLES, 4 * SAMPLES])
        return estimates([1], [SPEED], view.work_left(np.array([1])).tolist()) if view.reviewed else NOTHING

    world = elastic_world([0, 0], [profile(), profile()], [4])
    result = run_world(world, believing(beliefs))
    first, second = errors_at(result)[:2]
    assert first == pytest.approx((0, 1, 2))
    assert second == pytest.approx((54, 0, 0))
    assert elastic_of(result).speed_error == pytest.approx(1 / 2)
    assert elastic_of(result).convergence_error == pytest.approx(4 / 3)
    shown = dict(summary_rows(result.summary))
    assert shown["relative error of expected speeds"] == elastic_of(result).speed_error
    assert shown["error of expected work left over all work of a job"] == elastic_of(result).convergence_error


NOTHING = estimates([], [], [])


def test_what_is_in_truth_nothing_is_left_out() -> None:
    """A job that waits has no speed, whatever is believed of it."""
    policy = scripted(lambda view: ElasticDecision(estimates=estimates([0], [5], [NAN])), elastic=True)
    result = run_world(lone_world(), policy)
    assert errors_at(result) == [(0.0, None, None)]
    assert (elastic_of(result).speed_error, elastic_of(result).convergence_error) == (None, None)


def test_a_restart_pause_is_no_part_of_the_speed() -> None:
    def decide(view: View) -> Decision:
        if view.now_us == 0:
            return replace(Decision.of({0: PAIR}), review_us=54_000_000)
        if view.reviewed:
            again = {0: [(1, WORKER, 1), (1, PARAMETER_SERVER, 1)]}
            return ElasticDecision.of(again, estimates=estimates([0], [SPEED], [SAMPLES * 3 / 4]))
        return Decision()

    world = elastic_world([0], [profile()], [4, 4], {"restart_cost_s": 30})
    result = run_world(world, scripted(decide, wake=EVENTS | Wake.REVIEW, elastic=True))
    assert result.jobs["restarts"][0] == 1
    assert elastic_of(result).speed_error == pytest.approx(0, abs=1e-9)
    assert elastic_of(result).convergence_error == pytest.approx(0, abs=1e-9)


def test_estimates_change_nothing_else() -> None:
    world = elastic_world([0, 30], [profile(), profile()], [4])
    wild = run_world(
        world, believing(lambda view: estimates(view.running.tolist(), *2 * [len(view.running) * [7.0]]))
    )
    tame = run_world(world, believing(lambda view: NOTHING))
    assert wild.jobs.equals(tame.jobs)
    assert wild.events.equals(tame.events)
    assert elastic_of(wild).speed_error is not None
    own = replace(elastic_of(wild), speed_error=None, convergence_error=None)
    assert replace(wild.summary, figures=own) == tame.summary


def test_policies_that_tell_nothing_have_no_errors() -> None:
    result = run_world(lone_world(), believing(lambda view: NOTHING))
    assert result.timeline["speed_error"].is_null().all()
    assert result.summary.flat().keys().isdisjoint({"speed_error", "convergence_error"})
    rigid = run_world(world_of([Job(0, 1, 10)], [4]), scripted(lambda view: Decision()))
    assert "speed_error" not in rigid.timeline.columns


@pytest.mark.parametrize("stop", [1, 2])
def test_errors_survive_a_snapshot(stop: int) -> None:
    def guess(view: View) -> Estimates:
        return estimates([0], [3.0], [1000.0]) if len(view.running) + len(view.arrived) else NOTHING

    whole = run_world(lone_world(), believing(guess))
    stopped, policy = Simulation(lone_world(), believing(guess)), believing(guess)
    for _ in range(stop):
        view = stopped.advance()
        assert view is not None
        stopped.apply(policy.decide(view))
    again = Simulation(lone_world(), believing(guess))
    again.restore(stopped.state())
    while (view := again.advance()) is not None:
        again.apply(policy.decide(view))
    assert again.result().timeline.equals(whole.timeline)
    assert json.dumps(again.result().summary.to_dict()) == json.dumps(whole.summary.to_dict())


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (estimates([0], [-1.0], [NAN]), "tells speed -1 of job J1; tell a number >= 0, or NaN for none"),
        (estimates([0], [NAN], [np.inf]), "tells work_left inf of job J1"),
        (
            estimates([0], [1.0, 2.0], [1.0]),
            r"tells estimates job, speed and work_left of shapes \(1,\), \(2,\), \(1,\); give one number",
        ),
        (estimates([0, 0], [1.0, 1.0], [1.0, 1.0]), "tells an estimate of job J1 twice or out of order"),
        (estimates([1], [1.0], [1.0]), "tells an estimate of job J2 which is not in the system then"),
        (estimates([2], [1.0], [1.0]), "tells an estimate of job .*which is not in the system then"),
        (estimates([-1], [1.0], [1.0]), "tells an estimate of job .*which is not in the system then"),
    ],
)
def test_beliefs_that_cannot_be_are_refused_by_name(wrong: Estimates, text: str) -> None:
    world = elastic_world([0, 99], [profile(), profile()], [4])
    with pytest.raises(InfeasibleDecisionError, match=f"at 0 s: policy scripted {text}"):
        run_world(world, scripted(lambda view: ElasticDecision(estimates=wrong), elastic=True))


def test_beliefs_that_are_no_arrays_are_refused_by_name() -> None:
    lists = Estimates(job=[0], speed=[1.0], work_left=[1.0])  # type: ignore[arg-type]  # a user's mistake
    with pytest.raises(
        InfeasibleDecisionError, match="estimates whose job is list; expected an array of whole"
    ):
        run_world(lone_world(), scripted(lambda view: ElasticDecision(estimates=lists), elastic=True))


def test_jobs_that_end_by_the_decision_get_no_estimates() -> None:
    ended = ElasticDecision(evict=np.array([0]), estimates=estimates([0], [1.0], [1.0]))
    with pytest.raises(InfeasibleDecisionError, match="which is not in the system then"):
        run_world(lone_world(), scripted(lambda view: ended, elastic=True))


def test_only_elastic_jobs_get_estimates() -> None:
    policy = scripted(lambda view: ElasticDecision(estimates=estimates([0], [1.0], [1.0])))
    with pytest.raises(InfeasibleDecisionError, match="with estimates, which is about jobs of another kind"):
        run_world(world_of([Job(0, 1, 10)], [4]), policy)
