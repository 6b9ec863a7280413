"""Entries, priorities and deficits of Gavel's rounds."""

from __future__ import annotations

import numpy as np
import pytest

from ray_sim.model.units import FloatArray, IntArray
from ray_sim.policies.gavel.ledger import Ledger, LiveJobs


def jobs(rows: list[int], gpus: list[int]) -> LiveJobs:
    """Jobs of speed 1 on one type."""
    ones = np.ones(len(rows))
    return LiveJobs(np.array(rows), 10.0 * np.array(rows), np.array(gpus), ones, ones, ones[:, None])


def pair_speed(pairs: IntArray) -> FloatArray:
    """Ten times the row of the first, and of the second."""
    return pairs[:, :, None].astype(np.float64) * 10


def test_a_job_is_followed_by_its_pairs_with_earlier_jobs_of_equally_many_gpus() -> None:
    ledger = Ledger(1, 180.0, 0.0, pair_speed)
    ledger.add(jobs([3, 4], [1, 2]))
    ledger.add(jobs([5, 7, 8], [1, 1, 2]))
    assert ledger.entries.member.tolist() == [
        [3, -1],
        [4, -1],
        *([5, -1], [3, 5]),
        *([7, -1], [3, 7], [5, 7]),
        *([8, -1], [4, 8]),
    ]
    assert ledger.entries.gpus.tolist() == [1, 2, 1, 1, 1, 1, 1, 2, 2]
    assert ledger.entries.received_s[:, 0].tolist() == [180, 180, 180, 0, 180, 0, 0, 180, 0]

    now = ledger.now(100.0, np.array([6]))
    assert now.job.tolist() == [3, 4, 5, 7, 8]
    assert now.pairs.tolist() == [[0, 2], [0, 3], [2, 3], [1, 4]]
    assert now.pair_speed[:, :, 0].tolist() == [[30, 50], [30, 70], [50, 70], [40, 80]]
    assert now.age_s.tolist() == [70, 60, 50, 30, 20]

    assert ledger.remove(np.array([5])).tolist() == [0, 1, -1, -1, 2, 3, -1, 4, 5]
    assert ledger.entries.member.tolist() == [[3, -1], [4, -1], [7, -1], [3, 7], [8, -1], [4, 8]]


def test_a_priority_is_the_share_over_the_fraction_received() -> None:
    """Two jobs: 180 s each are received by both, 360 s by the type. Job 0 runs 360 s: .5/(540/720) = .667.

    Job 1 has .25/(180/720) = 1. After 1,000 s job 0 is owed 500 - 360 s, job 1 250 s; counts start anew.
    """
    ledger = Ledger(1, 180.0, 180.0, None)
    ledger.add(jobs([0, 1], [1, 1]))
    assert ledger.priority().tolist() == [[0], [0]]
    ledger.take(np.array([[0.5], [0.25]]), elapsed_s=0.0)
    assert ledger.priority().tolist() == [[1.0], [0.5]]
    entry, once = np.array([0]), np.array([False])
    ledger.book(entry, np.array([0]), np.array([360.0]), failed=once, order=entry)
    assert ledger.priority()[:, 0] == pytest.approx([2 / 3, 1], rel=1e-15)
    ledger.take(np.array([[0.5], [0.5]]), elapsed_s=1000.0)
    assert ledger.entries.deficit_s[:, 0].tolist() == [140, 250]
    assert ledger.priority()[:, 0].tolist() == [1, 1]


def test_a_new_pair_is_owed_180_s_only_as_published() -> None:
    for new_pair_s, owed_s in ((180.0, 0.0), (0.0, 180.0)):
        ledger = Ledger(1, 180.0, new_pair_s, pair_speed)
        ledger.add(jobs([0, 1], [1, 1]))
        ledger.take(np.zeros((3, 1)), elapsed_s=500.0)
        assert ledger.entries.deficit_s[:, 0].tolist() == [0, 0, owed_s]
        assert ledger.type_received_s.tolist() == [3 * 180]


def test_where_nobody_received_time_priorities_are_shares_times_a_billion() -> None:
    ledger = Ledger(1, 0.0, 0.0, None)
    ledger.add(jobs([0, 1], [1, 1]))
    ledger.take(np.array([[0.5], [0.0]]), elapsed_s=0.0)
    assert ledger.priority().tolist() == [[5e8], [0]]
