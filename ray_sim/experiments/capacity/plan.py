"""Plan: the cheapest servers with which each policy meets a goal, and what no policy could do with fewer.

The search assumes monotony, and checks it: a mix passes if a smaller one does. A mix is within another if it
has at most as many servers of every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ray_sim.experiments.capacity.evaluation import PlanEndedError, PlanRuns, RunOptions
from ray_sim.experiments.capacity.goal import SAME
from ray_sim.experiments.capacity.proof import Proofs
from ray_sim.experiments.capacity.report import PlanReport, Point, PolicyPlan
from ray_sim.experiments.capacity.request import Mix, PlanRequest, within
from ray_sim.experiments.fanout.connection import check_address
from ray_sim.experiments.rehearsal import Rehearsal
from ray_sim.experiments.results.result_files import json_bytes
from ray_sim.experiments.run_identity import SHORT, HashedInputs
from workloads.files import refuse_url, replacing


def cheapest(mixes: Sequence[Mix], passes: Callable[[Mix], bool]) -> Mix | None:
    """The cheapest mix that passes, under the assumption of monotony; None if none does.

    The middle one of the mixes left is tested. If it passes, dearer ones are left out, otherwise those within
    it. With one kind of server this is bisection.

    Parameters
    ----------
    mixes : cheapest first
    """
    left, best = list(mixes), None
    while left:
        middle = len(left) // 2
        mix = left[middle]
        if passes(mix):
            best, left = mix, left[:middle]
        else:
            left = [other for other in left if not within(other, mix)]
    return best


def first(mixes: Sequence[Mix], passes: Callable[[Sequence[Mix]], Sequence[bool]], batch: int) -> Mix | None:
    """The first mix that passes, without any assumption; None if none does."""
    for begin in range(0, len(mixes), batch):
        tested = mixes[begin : begin + batch]
        for mix, passed in zip(tested, passes(tested), strict=True):
            if passed:
                return mix
    return None


def witnesses(found: Mix | None, mixes: Sequence[Mix]) -> list[Mix]:
    """Mixes whose values check the assumption after a search: neighbours of the result, and points beyond.

    Two servers fewer and more of each kind, the mixes at one and two thirds of the way from the result to the
    dearest one, the dearest and the cheapest one.
    """
    if found is None:
        return [mixes[len(mixes) // 2], mixes[-1]]
    there = set(mixes)
    steps = [(k, step) for k in range(len(found)) for step in (-2, -1, 1, 2)]
    near = [(*found[:k], found[k] + step, *found[k + 1 :]) for k, step in steps]
    at, last = mixes.index(found), len(mixes) - 1
    beyond = [mixes[at + (last - at) * part // 3] for part in (1, 2, 3)]
    return [*(mix for mix in near if mix in there), *beyond, mixes[0]]


def contradictions(values: Mapping[Mix, float], *, falls: bool) -> Iterator[tuple[Mix, Mix]]:
    """Pairs of mixes, the first within the second, of which the second is worse; small is good if `falls`."""
    for small, value in values.items():
        for large, other in values.items():
            if small == large or not within(small, large) or value == other:
                continue
            worse = other > value if falls else other < value
            if worse and not abs(other - value) <= SAME * abs(value):
                yield small, large


_BATCH = 4
"""Mixes whose runs are submitted together where every mix is tried."""


class PolicySearch:
    """Search for one policy; the points that it has evaluated survive an early end."""

    def __init__(self, request: PlanRequest, policy: str, runs: PlanRuns, proofs: Proofs) -> None:
        self._request = request
        self._policy = policy
        self._runs = runs
        self._proofs = proofs
        self._points: dict[Mix, Point] = {}
        self._assumed = False
        self._contradiction: tuple[Mix, Mix] | None = None
        self._found: Mix | None = None

    def search(self, mixes: Sequence[Mix], *, assumed: bool) -> None:
        """Find the cheapest mix that meets the goal.

        Parameters
        ----------
        mixes : cheapest first
        assumed : whether more servers may be assumed not to make the metric worse. The assumption is checked;
            if an evaluated pair contradicts it, every mix that may be cheaper is tried.

        Raises
        ------
        PlanEndedError : a run failed, or the plan was stopped
        """
        self._assumed = assumed
        if not mixes:
            return
        if not assumed:
            self._found = first(mixes, self._met, _BATCH)
            return
        found = cheapest(mixes, lambda mix: self._met([mix])[0])
        self._met(witnesses(found, mixes))
        self._contradiction = next(self._contradictions(), None)
        if self._contradiction is not None:
            cheaper = mixes if found is None else mixes[: mixes.index(found) + 1]
            found = first(cheaper, self._met, _BATCH)
        self._found = found

    def _contradictions(self) -> Iterator[tuple[Mix, Mix]]:
        means = {mix: point.mean for mix, point in self._points.items()}
        return contradictions(means, falls=self._request.goal.falls)

    def result(self) -> PolicyPlan:
        """Answer so far."""
        worse = {large for _, large in self._contradictions()}
        order = {mix: index for index, mix in enumerate(self._request.choices.mixes())}
        return PolicyPlan(
            policy=self._policy,
            best=None if self._found is None else self._points[self._found],
            assumed=self._assumed,
            contradiction=self._contradiction,
            not_monotone=tuple(sorted(worse, key=order.__getitem__)),
            points=tuple(self._points[mix] for mix in sorted(self._points, key=order.__getitem__)),
        )

    def _met(self, mixes: Sequence[Mix]) -> list[bool]:
        """Whether each mix meets the goal; those that the bounds exclude do not and are not run."""
        new = [mix for mix in dict.fromkeys(mixes) if mix not in self._points]
        todo = [mix for mix in new if not self._proofs.excluded(mix)]
        if todo:
            note = ", ".join(filter(None, [self._policy, *map(self._request.choices.label, todo)]))
            values = self._runs.values([self._request.at(self._policy, mix) for mix in todo], note)
            for mix, of_seeds in zip(todo, values, strict=True):
                bound = self._proofs.bound(mix)
                self._points[mix] = Point.of(self._request, mix, of_seeds, bound)
        return [mix in self._points and self._points[mix].met for mix in mixes]


PLAN_FILE = "plan.json"
"""Report in the directory of the results."""


def run_plan(
    request: PlanRequest, directory: Path | None = None, options: RunOptions | None = None
) -> PlanReport:
    """Find the cheapest servers with which each policy meets the goal, and the cheapest that bounds allow.

    A run that fails ends the plan, and the report has what is known so far.

    Parameters
    ----------
    directory : of the results; by default ``results/plan-HASH`` of the scenario

    Raises
    ------
    InvalidInputError : the goal is relative to a metric of the scenario that is infinite or below 0
    """
    options = options or RunOptions()
    check_address(options.address, or_none=True)
    inputs = HashedInputs()
    world = request.scenario.model_copy(update={"policy": "fifo", "params": {}})  # plans share its runs
    name = f"plan-{inputs.identify(world).scenario_hash[:SHORT]}"
    directory = directory or Path("results") / name
    refuse_url(directory)
    rehearsal = Rehearsal(inputs)
    for policy in request.policies:  # the errors that the runs would raise at their start
        rehearsal.set_up(request.at(policy, request.most))
    if request.goal.factor is not None:
        rehearsal.set_up(request.scenario)
    with PlanRuns(request, name, directory, inputs, options) as runs:
        try:
            if request.goal.factor is not None:
                [now] = runs.values([request.scenario], "now")
                request = replace(request, goal=request.goal.relative_to(now))
        except PlanEndedError:
            report = PlanReport(request, directory, (), None, "now is not known", False, runs.report)
        else:
            options.announce("bounding what any policy can reach")
            report = _searched(request, directory, runs, inputs)
    directory.mkdir(parents=True, exist_ok=True)
    with replacing(directory / PLAN_FILE) as temporary:
        temporary.write_bytes(json_bytes(report.to_dict()))
    return report


def _searched(request: PlanRequest, directory: Path, runs: PlanRuns, inputs: HashedInputs) -> PlanReport:
    """Bound what any policy can reach, and search for each policy, until a search ends early."""
    seeds = list(request.seeds)[: None if request.scenario.workload.uses_seed else 1]
    proofs = Proofs(request, seeds, inputs)
    mixes = request.choices.mixes()
    least = cheapest(mixes, lambda mix: not proofs.excluded(mix))
    allowed = [mix for mix in mixes if not proofs.implied(mix)]
    speed = inputs.cluster(request.cluster(request.most)).speed
    assumed = request.goal.helped_by_servers and bool((speed == speed[0]).all())
    plans: list[PolicyPlan] = []
    complete = True
    for policy in request.policies:
        search = PolicySearch(request, policy, runs, proofs)
        try:
            search.search(allowed, assumed=assumed)
        except PlanEndedError:
            complete = False
        plans.append(search.result())
        if not complete:
            break
    return PlanReport(
        request=request,
        directory=directory,
        plans=tuple(sorted(plans, key=lambda plan: plan.cost)),
        least=least,
        no_proof=proofs.reason,
        complete=complete,
        sweep=runs.report,
    )
