"""Training speeds of Optimus in closed form: the models that its fits are to find again."""

from __future__ import annotations

from dataclasses import dataclass

from ray_sim.model.units import FloatArray


@dataclass(frozen=True, slots=True)
class SyncSpeed:
    """Steps per second of a synchronous job, 1 / (th0 M / w + th1 + th2 w / p + th3 w + th4 p).

    Source: Peng et al., Optimus, EuroSys 2018, section 3.2.
    """

    batch: FloatArray
    """M, samples of a step of all workers."""
    theta: FloatArray
    """(..., 5), >= 0."""

    def steps_per_s(self, workers: FloatArray, ps: FloatArray) -> FloatArray:
        """At w, p >= 1 of any shape that broadcasts."""
        th = self.theta
        seconds: FloatArray = (
            th[..., 0] * self.batch / workers
            + th[..., 1]
            + th[..., 2] * workers / ps
            + th[..., 3] * workers
            + th[..., 4] * ps
        )
        return 1 / seconds


@dataclass(frozen=True, slots=True)
class AsyncSpeed:
    """Steps per second of all workers of an asynchronous job, w / (th0 + th1 w / p + th2 w + th3 p).

    Source: as `SyncSpeed`.
    """

    theta: FloatArray
    """(..., 4), >= 0."""

    def steps_per_s(self, workers: FloatArray, ps: FloatArray) -> FloatArray:
        """At w, p >= 1 of any shape that broadcasts."""
        th = self.theta
        seconds: FloatArray = th[..., 0] + th[..., 1] * workers / ps + th[..., 2] * workers + th[..., 3] * ps
        return workers / seconds
