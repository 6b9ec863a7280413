"""Clauses: decisions do not depend on undeclared columns, run times or future jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

import numpy as np

from ray_sim.contract.job_tables import (
    of_progress,
    permuted,
    undeclared,
    with_jobs,
    with_others_from,
    with_rows,
)
from ray_sim.contract.outcome import BrokenError, NotCheckedError
from ray_sim.contract.reachable_values import content_of
from ray_sim.contract.subject import Subject
from ray_sim.engine.contract import Policy
from ray_sim.engine.decision import Decision
from ray_sim.engine.kinds.chunked.jobs import CHUNKED
from ray_sim.engine.policy_calls import named_failures
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.states import arrays_of
from ray_sim.engine.visible_columns import WHOLE_TRACE
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import Changes
from ray_sim.model.streams import Streams
from ray_sim.model.units import NEVER_US, US_PER_S, BoolArray, IntArray

_TELLS_RUN_TIMES = frozenset(
    {"duration_s", "work_left", "chunk_profile", "worker_load"}
    | {"training_profile", "training_speed", "losses", "steps"}
)


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision and what was known when it was made."""

    at_us: int
    content: object
    placed: BoolArray
    """(J,) jobs that an earlier decision has given servers or workers."""
    ended: BoolArray
    """(J,) jobs that have come and gone."""

    def like(self, other: RecordedDecision) -> bool:
        """Whether the other decides the same at the same instant."""
        return (self.at_us, self.content) == (other.at_us, other.content)


def _decisions(world: World, policy: Policy, until_us: int = NEVER_US) -> Iterator[RecordedDecision]:
    """Yield the decisions of the policy before ``until_us``."""
    simulation = Simulation(world, policy)
    with named_failures(policy):
        policy.start(simulation.world, simulation.streams)
    placed = np.zeros(len(world.table), dtype=np.bool_)
    while (view := simulation.advance()) is not None and view.now_us < until_us:
        with named_failures(policy):
            decision = policy.decide(view)
        ended = np.arange(len(placed)) < view.arrivals
        ended[view.waiting] = ended[view.running] = False
        simulation.apply(decision)
        yield RecordedDecision(view.now_us, _content(decision), placed.copy(), ended)
        placed[sorted(decision.served)] = True


def _content(decision: Decision) -> object:
    """All that a decision says, to compare with ``==``; without unused room in its buffers."""
    if decision.changes is not None:
        n = int(decision.changes.size[0])
        rows = int(decision.changes.ptr[n])
        used = {"job": n, "ptr": n + 1, "order": n, "size": 1}
        arrays = arrays_of(decision.changes)
        parts = {name: array[: used.get(name, rows)] for name, array in arrays}
        decision = replace(decision, changes=Changes(**parts))
    return content_of(decision)


def _same_decisions(one: Iterable[RecordedDecision], other: Iterable[RecordedDecision], what: str) -> None:
    """Two runs decide alike as long as both go on."""
    for a, b in zip_longest(one, other):
        if a is None or b is None or not a.like(b):
            at = min(recorded.at_us for recorded in (a, b) if recorded is not None)
            raise BrokenError(f"{what}: the decision at {at / US_PER_S:g} s is another")


def blind_to_columns(subject: Subject) -> str:
    """Decide alike when columns that it does not declare are permuted between jobs."""
    world = subject.busy()
    hidden = undeclared(world.table, subject.new().sees)
    hidden = [name for name in hidden if name not in of_progress(hidden)]
    if not hidden:
        raise NotCheckedError("it declares every column")
    other = with_jobs(world, permuted(world.table, hidden, _shuffle(world)))
    _same_decisions(
        _decisions(world, subject.new()),
        _decisions(other, subject.new()),
        f"with columns permuted that it does not declare ({', '.join(hidden)})",
    )
    return f"permuting {', '.join(hidden)} changes nothing"


def _shuffle(world: World) -> IntArray:
    order: IntArray = Streams(1).generator("contract-permutation").permutation(len(world.table))
    return order


def blind_to_run_times(subject: Subject) -> str:
    """Decide alike up to an instant whatever run times are that nothing has shown by then."""
    tells = sorted(subject.new().sees & _TELLS_RUN_TIMES)
    if tells:
        raise NotCheckedError(f"it declares {', '.join(tells)}, which tell run times")
    crowded = subject.busy()
    at_once = replace(crowded.table, submit_us=np.zeros_like(crowded.table.submit_us))
    hidden = of_progress(undeclared(crowded.table, subject.new().sees))
    for world in (crowded, with_jobs(crowded, at_once)):
        recorded = list(_decisions(world, subject.new()))
        for last in np.unique(np.linspace(0, len(recorded) - 1, _CUTS).astype(np.int64)).tolist():
            for changed in _with_unknown_run_times(subject, world, recorded[last], hidden):
                other = islice(_decisions(changed, subject.new()), last + 1)
                what = f"with other run times ({', '.join(hidden)}), which nothing has shown by then"
                _same_decisions(recorded[: last + 1], other, what)
    return f"run times that nothing has shown at {_CUTS} times change no decision ({', '.join(hidden)})"


def _with_unknown_run_times(
    subject: Subject, world: World, recorded: RecordedDecision, hidden: list[str]
) -> Iterator[World]:
    """Worlds in which the same happens up to this decision.

    Jobs that were never placed have the columns of others of them. Whole jobs that have not ended run for
    longer; of chunked ones, whose chunks end one by one, those that were never placed.
    """
    fresh, order = np.flatnonzero(~recorded.placed), np.arange(len(world.table))
    order[fresh] = Streams(1).generator("contract-permutation").permutation(fresh)
    yield with_jobs(world, permuted(world.table, hidden, order))
    yield subject.kind.with_longer_run_times(
        world, ~(recorded.placed if subject.new().schedules == CHUNKED else recorded.ended)
    )


def blind_to_the_future(subject: Subject) -> str:
    """Decide alike when later jobs are left out, or are others."""
    if WHOLE_TRACE in subject.new().sees:
        raise NotCheckedError(f"it declares {WHOLE_TRACE}: it uses columns of jobs that are still to come")
    world = subject.busy()
    submit, table = world.table.submit_us, world.table
    recorded = list(_decisions(world, subject.new()))
    fresh = np.flatnonzero(np.diff(submit) > 0) + 1
    for first in fresh[np.linspace(0, len(fresh) - 1, _CUTS).astype(np.int64)].tolist():
        alone = list(_decisions(with_jobs(world, with_rows(table, np.arange(first))), subject.new()))
        known = [sum(one.at_us < submit[first] for one in each) for each in (recorded, alone)]
        what = f"the jobs that arrive from {submit[first] / US_PER_S:g} s on"
        _same_decisions(recorded[: known[0]], alone[: known[1]], f"without {what}")
        later = with_jobs(world, with_others_from(table, first, _LATER_US))
        beside = _decisions(later, subject.new(), int(submit[first]) + _LATER_US)
        beside = islice(beside, len(alone))  # alone it may be found to ask for ever
        _same_decisions(alone, beside, f"with others, much later, for {what}")
    return f"jobs still to come, left out or changed in all columns at {_CUTS} times, change no decision"


_CUTS = 6
"""Times at which the future, or what is unknown, is changed."""
_LATER_US = 10**7 * US_PER_S
"""By then all earlier jobs have ended."""
