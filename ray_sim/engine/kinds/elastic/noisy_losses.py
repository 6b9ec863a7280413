"""Observed losses of elastic jobs: the curve of each job with noise drawn once for each of its epochs."""

from __future__ import annotations

import numpy as np

from ray_sim.model.job import LossProfile
from ray_sim.model.loss import loss
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray

_NO_NOISE: FloatArray = np.empty(0)


class NoisyLosses:
    """Loss at the end of each epoch; the noise of epoch e of a job is draw e of the job's stream.

    Draws are kept until `forget`: a policy may ask for the same epochs at each decision. They follow from the
    streams, so snapshots leave them out.
    """

    def __init__(self, curves: LossProfile, streams: Streams) -> None:
        self._curves = curves
        self._streams = streams
        self._drawn: dict[int, tuple[np.random.Generator, FloatArray]] = {}

    def at(self, jobs: IntArray, first: IntArray, counts: IntArray) -> FloatArray:
        """Losses of ``counts`` epochs of each job from epoch ``first`` on, one job after the other."""
        curves, which = self._curves, np.repeat(np.arange(len(jobs)), counts)
        job = jobs[which]
        epoch = first[which] + np.arange(len(job)) - np.repeat(np.cumsum(counts) - counts, counts)
        exact = loss(
            curves.loss_b0[job],
            curves.loss_b1[job],
            curves.loss_b2[job],
            epoch.astype(np.float64),
            curves.loss_drop[job],
            curves.loss_drop_epoch[job],
        )
        noise = curves.loss_noise[job]
        if not noise.any():
            return exact
        draws = [
            self._noise(number, start, count) if curves.loss_noise[number] > 0.0 else np.zeros(count)
            for number, start, count in zip(jobs.tolist(), first.tolist(), counts.tolist(), strict=True)
        ]
        noisy = np.maximum(exact + noise * np.concatenate(draws), 0.0)
        return np.where(noise > 0.0, noisy, exact)

    def forget(self, jobs: IntArray) -> None:
        """Drop the draws of jobs that have ended."""
        for job in jobs.tolist():
            self._drawn.pop(job, None)

    def _noise(self, job: int, first: int, count: int) -> FloatArray:
        """Standard normal numbers of epochs ``first``, ``first`` + 1, ..."""
        last = first + count - 1
        generator, drawn = self._drawn.get(job, (None, _NO_NOISE))
        if len(drawn) < last:
            generator = self._streams.generator("loss", job) if generator is None else generator
            drawn = np.concatenate([drawn, generator.standard_normal(last - len(drawn))])
            self._drawn[job] = generator, drawn
        return drawn[first - 1 : last]
