"""Search for the cheapest servers with which one policy meets the goal of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from ray_sim.experiments.capacity.choices import Mix
from ray_sim.experiments.capacity.evaluation import PlanRuns
from ray_sim.experiments.capacity.exclusions import Exclusions
from ray_sim.experiments.capacity.report import Point, PolicyPlan
from ray_sim.experiments.capacity.request import PlanRequest
from ray_sim.experiments.capacity.search import cheapest, contradictions, first, witnesses

_BATCH = 4
"""Mixes whose runs are submitted together where every mix is tried."""


class PolicySearch:
    """Search for one policy; the points that it has evaluated survive an early end."""

    def __init__(self, request: PlanRequest, policy: str, runs: PlanRuns, exclusions: Exclusions) -> None:
        self._request = request
        self._policy = policy
        self._runs = runs
        self._exclusions = exclusions
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
        means = {mix: point.mean for mix, point in self._points.items()}
        self._contradiction = next(contradictions(means, falls=self._request.goal.falls), None)
        if self._contradiction is not None:
            cheaper = mixes if found is None else mixes[: mixes.index(found) + 1]
            found = first(cheaper, self._met, _BATCH)
        self._found = found

    def result(self) -> PolicyPlan:
        """Answer so far."""
        order = {mix: index for index, mix in enumerate(self._request.choices.mixes())}
        return PolicyPlan(
            policy=self._policy,
            best=None if self._found is None else self._points[self._found],
            assumed=self._assumed,
            contradiction=self._contradiction,
            points=tuple(self._points[mix] for mix in sorted(self._points, key=order.__getitem__)),
        )

    def _met(self, mixes: Sequence[Mix]) -> list[bool]:
        """Whether each mix meets the goal; those that the bounds exclude do not and are not run."""
        new = [mix for mix in dict.fromkeys(mixes) if mix not in self._points]
        todo = [mix for mix in new if not self._exclusions.excluded(mix)]
        if todo:
            note = ", ".join(filter(None, [self._policy, *map(self._request.choices.label, todo)]))
            values = self._runs.values([self._request.at(self._policy, mix) for mix in todo], note)
            for mix, of_seeds in zip(todo, values, strict=True):
                bound = self._exclusions.bound(mix)
                self._points[mix] = Point.of(self._request, mix, of_seeds, bound)
        return [mix in self._points and self._points[mix].met for mix in mixes]
