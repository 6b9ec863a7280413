"""Mixes of servers with which no policy meets the goal, as far as bounds prove it."""

from __future__ import annotations

from ray_sim.experiments.capacity.choices import Mix
from ray_sim.experiments.capacity.proof import Bound, Proofs
from ray_sim.experiments.capacity.request import PlanRequest
from ray_sim.experiments.capacity.search import within


class Exclusions:
    """Bounds of mixes, each computed once."""

    def __init__(self, request: PlanRequest, proofs: Proofs) -> None:
        self._request = request
        self._proofs = proofs
        self._bounds: dict[Mix, Bound | None] = {}

    @property
    def reason(self) -> str | None:
        """Reason why there are no proofs; None where there are some."""
        return self._proofs.reason

    def bound(self, mix: Mix) -> Bound | None:
        """Bound of a mix; None where nothing bounds the metric."""
        if mix not in self._bounds:
            self._bounds[mix] = self._proofs.bound(self._request.cluster(mix))
        return self._bounds[mix]

    def excluded(self, mix: Mix) -> bool:
        """Whether it is proven that no policy meets the goal with these servers."""
        if self.implied(mix):
            return True
        bound = self.bound(mix)
        return bound is not None and bound.excluded

    def implied(self, mix: Mix) -> bool:
        """Whether the mix is within an excluded one: a schedule on fewer servers is one on more, too."""
        return any(
            bound is not None and bound.excluded and within(mix, larger)
            for larger, bound in self._bounds.items()
        )
