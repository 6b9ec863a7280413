"""Observed losses against a job-by-job computation that draws all epochs anew at each query."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.engine.kinds.elastic.noisy_losses import NoisyLosses
from ray_sim.model.job import LossProfile
from ray_sim.model.streams import Streams

NOISE = (0.0, 0.01, 0.5)
CURVES = LossProfile(
    loss_b0=np.array([0.1, 0.2, 0.05]),
    loss_b1=np.array([1.0, 1.5, 0.5]),
    loss_b2=np.array([0.0, 0.1, 0.2]),
    loss_drop=np.array([0.0, 0.5, 0.0]),
    loss_drop_epoch=np.array([0.0, 3.0, 0.0]),
    loss_noise=np.array(NOISE),
    loss_threshold=np.full(3, 0.01),
    loss_patience=np.full(3, 3.0),
)


def naive(job: int, first: int, count: int, seed: int) -> list[float]:
    """The formula of docs/training.md, one epoch after the other."""
    draws = Streams(seed).generator("loss", job).standard_normal(first + count - 1)
    found = []
    for epoch in range(first, first + count):
        above = 1 / (CURVES.loss_b0[job] * epoch + CURVES.loss_b1[job])
        if epoch >= CURVES.loss_drop_epoch[job]:
            above *= 1 - CURVES.loss_drop[job]
        exact = above + CURVES.loss_b2[job]
        found.append(exact if NOISE[job] == 0 else max(0.0, exact + NOISE[job] * draws[epoch - 1]))
    return found


QUERY = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6), st.integers(0, 5)), max_size=4)


@given(queries=st.lists(st.tuples(QUERY, st.booleans()), max_size=4), seed=st.integers(0, 5))
def test_any_queries_in_any_order_see_the_same_losses(
    queries: list[tuple[list[tuple[int, int, int]], bool]], seed: int
) -> None:
    losses = NoisyLosses(CURVES, Streams(seed))
    for query, forget in queries:
        jobs, first, counts = (
            (np.array(column, dtype=np.int64) for column in zip(*query, strict=True))
            if (query)
            else (np.empty(0, dtype=np.int64),) * 3
        )
        expected = [value for job, start, count in query for value in naive(job, start, count, seed)]
        np.testing.assert_allclose(losses.at(jobs, first, counts), expected, rtol=1e-12)
        if forget:
            losses.forget(jobs)
