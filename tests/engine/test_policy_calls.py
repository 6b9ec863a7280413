"""Whatever a policy does wrong in its own methods is one error that names the policy and the method."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import numpy.typing as npt
import pytest

from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision
from ray_sim.engine.policy_calls import report_of
from ray_sim.engine.run import run_world
from ray_sim.engine.view import View
from ray_sim.kernels.compile import kernel
from ray_sim.model.errors import InvalidInputError, RunFailedError
from ray_sim.policies.registry import create_policy
from tests.worlds import Job, world_of


class Odd(BaseException):
    """No Exception, and without a text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Tells(Policy):
    """Starts each job on server 0; tells what the test says."""

    def decide(self, view: View) -> Decision:
        return Decision.of({job: [(0, 0, 1)] for job in view.waiting.tolist()})


def leave() -> None:
    raise SystemExit(3)


def fail() -> None:
    raise Odd


def telling(method: str, answer: object) -> Policy:
    def tell(_: Policy) -> object:
        return answer() if callable(answer) else answer

    policy: Policy = type("Tells", (Tells,), {method: tell})()
    return policy


INSTANTS = np.array([0, 1])


@pytest.mark.parametrize(
    ("method", "answer", "text"),
    [
        ("counts", leave, r"policy Tells failed: SystemExit: 3 \(.*test_policy_calls.py, line"),
        ("warnings", fail, r"policy Tells failed: Odd \(its text cannot be read\)"),
        ("counts", None, r"counts\(\) must return a mapping by name, found NoneType"),
        ("counts", {1: 2}, r"counts\(\) must return a mapping by name, every name a str, found int 1"),
        ("counts", {"a": 1.0}, r"counts\(\) must give a whole number below 2\^63 as 'a', found float 1.0"),
        ("counts", {"a": 2**63}, "whole number below"),
        ("figures", {"a": float("nan")}, r"figures\(\) must give a finite number as 'a', found float nan"),
        ("figures", {"a": 10**400}, "a finite number"),
        ("figures", {"a": "1"}, "found str '1'"),
        ("warnings", "abc", r"warnings\(\) must return a list of sentences, found str 'abc'"),
        ("warnings", [None], r"each a str, found NoneType"),
        ("warnings", ["\ud800"], r"each a str, found str"),
        ("timeline_columns", {"a": 1}, r"timeline_columns\(\) must give a pair of arrays of one length"),
        ("timeline_columns", {"a": (INSTANTS, np.zeros(3))}, "of one length"),
        ("timeline_columns", {"a": (INSTANTS[::-1], np.zeros(2))}, "instants that rise"),
        ("timeline_columns", {"waiting": (INSTANTS, np.zeros(2))}, "that the timeline has not yet"),
    ],
)
def test_what_a_policy_tells_at_the_end_is_checked_and_named(method: str, answer: object, text: str) -> None:
    with pytest.raises(RunFailedError, match=text):
        run_world(world_of([Job(0, 1, 5)], [1]), telling(method, answer))


def test_a_column_of_the_kind_of_job_cannot_be_replaced() -> None:
    policy = telling("timeline_columns", {"welfare": (INSTANTS, np.zeros(2))})
    assert report_of(policy, ()).timeline_columns.keys() == {"welfare"}
    with pytest.raises(RunFailedError, match="under a name that the timeline has not yet as 'welfare'"):
        report_of(policy, ("welfare", "revenue"))


def test_numbers_of_numpy_are_taken_as_plain_ones() -> None:
    world = world_of([Job(0, 1, 5)], [1])
    counted = run_world(world, telling("counts", {"a": np.int64(3)})).summary.policy_counts
    assert counted == {"a": 3}
    assert type(counted["a"]) is int
    measured = run_world(world, telling("figures", {"a": np.float32(0.5), "b": 2})).summary.policy_figures
    assert measured == {"a": 0.5, "b": 2.0}


CLASSES: dict[str, Callable[[], type]] = {
    "must take view": lambda: type("P", (Tells,), {"decide": None}),
    "its declarations cannot be read: RuntimeError: none": lambda: type("P", (Tells,), {"sees": Raises()}),
    "cannot be constructed: Odd": lambda: type("P", (Tells,), {"__new__": lambda _: fail()}),
    "makes a int, not a Policy": lambda: type("P", (Tells,), {"__new__": lambda _: 1}),
    "cannot be read: Odd": lambda: type("P", (Tells,), {"__getattribute__": lambda *_: fail()}),
}


class Raises:
    """An attribute that cannot be read of an instance."""

    def __get__(self, policy: Policy | None, kind: type) -> frozenset[str]:
        if policy is None:
            return frozenset()
        raise RuntimeError("none")


@pytest.mark.parametrize("text", CLASSES)
def test_a_class_that_cannot_be_used_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "Made", CLASSES[text]())
    with pytest.raises(InvalidInputError, match=f"policy '{__name__}:Made'.*{text}"):
        create_policy(f"{__name__}:Made")


def test_an_odd_exception_in_decide_is_one_line() -> None:
    policy = type("P", (Tells,), {"decide": lambda self, view: fail()})()
    with pytest.raises(RunFailedError, match="policy P failed: Odd"):
        run_world(world_of([Job(0, 1, 5)], [1]), policy)


@kernel
def write_into(available: npt.NDArray[np.bool_]) -> None:
    available[0] = False


class WritesIntoTheView(Tells):
    """Calls a kernel that does not compile: what it sees of the servers is read-only."""

    def decide(self, view: View) -> Decision:
        write_into(view.available)
        return super().decide(view)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="kernels are plain Python")
def test_a_kernel_that_does_not_compile_is_no_failure_of_the_policy() -> None:
    text = r"(?s)^a kernel that policy \w+ calls does not compile: TypingError: .*readonly.*in decide\)$"
    with pytest.raises(RunFailedError, match=text):
        run_world(world_of([Job(0, 1, 1)], [1]), WritesIntoTheView())
