"""Quotas: the formulas, and six states of three teams on 32 GPUs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ray_sim.model.teams import Quota, Team
from ray_sim.policies.batch.quotas import Quotas, available, new_quotas, share
from tests.policies.batch.staged import Held, decision, team, teams


def holding(declared: tuple[Team, ...], *held: int) -> Quotas:
    """Teams that hold so many GPUs, and a job of one GPU."""
    quotas = new_quotas(declared, ("gpu",), np.array([[1000]]))
    quotas.held[:, 0] = 1000 * np.array(held)
    return quotas


def test_what_a_team_may_still_hold() -> None:
    # vision holds 16, text 4, of 16, 8 (speech) and 8: the pool of 32 has 12 left.
    assert available(holding(teams(), 16, 0, 4), 0, 0) == 12_000
    assert available(holding(teams(vision={"borrow": 4}), 16, 0, 4), 0, 0) == 4_000
    # text lends 2 of its 8: the pool has 26, of which vision holds 16; text's own 6 have 2 left.
    lending = holding(teams(text={"lend": 2}), 16, 0, 4)
    assert available(lending, 0, 0) == 10_000
    assert available(lending, 2, 0) == 12_000


def test_the_share_is_the_largest_over_the_resources_and_over_the_weight() -> None:
    # 10 GPU and 128 CPU of quotas 8 and 64, in pools of 16 and 256: max(2 / 16, 64 / 256).
    a = Team("a", (Quota("gpu", 8, None, 8), Quota("cpu", 64, None, 64)), weight=2.0)
    b = Team("b", (Quota("gpu", 8, None, 8), Quota("cpu", 192, None, 192)))
    c = Team("c", (Quota("gpu", 0, None, 0),), weight=0.0)
    quotas = new_quotas((a, b, c), ("gpu", "cpu"), np.array([[1, 0]]))
    quotas.held[:] = [[10, 128], [0, 0], [1, 99]]
    assert [share(quotas, m, 0, 0) for m in range(3)] == [0.25 / 2, 0, math.inf]
    assert share(quotas, 0, 0, 1) == 0.25 / 2  # 3 / 16 is less
    assert share(quotas, 2, 0, -1) == 0  # without its GPU it borrows nothing; its quota names no CPU


BORROWING = {
    "v1": Held("vision", 8),
    "v2": Held("vision", 8),
    "v3": Held("vision", 4),
    "v4": Held("vision", 4),
    "t": Held("text", 4),
}


def stopped(jobs: dict[str, Held], ask: Held, **params: Any) -> list[str]:
    """Whom the last job stops; nobody if it does not start."""
    found = decision({**jobs, "ask": ask}, ["ask"], **params)
    assert (found.started == ["ask"]) == bool(found.stopped)
    return found.stopped


def test_a_team_reclaims_its_quota_from_the_latest_job_of_one_that_borrows() -> None:
    # vision holds 24 of 16, 4 GPUs are free. 8 is speech's quota, 9 would borrow.
    assert stopped(BORROWING, Held("speech", 8)) == ["v4"]
    assert stopped(BORROWING, Held("speech", 8), reclaim="lower") == []
    assert stopped(BORROWING, Held("speech", 8, 1), reclaim="lower") == ["v4"]
    assert stopped(BORROWING, Held("speech", 8), reclaim="never") == []
    assert stopped(BORROWING, Held("speech", 9)) == []


OTHERS = {"s": Held("speech", 8), "t": Held("text", 8)}


def test_a_victim_that_is_not_needed_is_given_back() -> None:
    # Full. v1 is removed first, as the lowest, then v2; 6 are enough.
    jobs = {"v1": Held("vision", 2, -1), "v2": Held("vision", 6), "v3": Held("vision", 8, 1)} | OTHERS
    assert stopped(jobs, Held("vision", 6, 1), preempt="lower") == ["v2"]


def test_what_a_team_does_not_lend_needs_no_reclaiming() -> None:
    # text's own 6 are free, the pool of 16 + 8 + 2 is full: 8, its quota, take the later vision job.
    jobs = {"v1": Held("vision", 16), "v2": Held("vision", 8), "s": Held("speech", 2)}
    assert stopped(jobs, Held("text", 8), declared=teams(text={"lend": 2})) == ["v2"]


def test_within_the_team_lower_or_newer_jobs_are_stopped() -> None:
    jobs = {"v1": Held("vision", 4), "v2": Held("vision", 6, -1), "v3": Held("vision", 6, -1)} | OTHERS
    assert stopped(jobs, Held("vision", 8), preempt="never") == []
    assert stopped(jobs, Held("vision", 8), preempt="lower") == ["v2", "v3"]
    between = dict(list(jobs.items())[:2]) | {"ask": Held("vision", 6, -1)} | dict(list(jobs.items())[2:])
    assert decision(between, ["ask"], preempt="lower").stopped == []
    assert decision(between, ["ask"], preempt="lower_or_newer") == (["ask"], ["v3"])


def fair_state(names: str) -> dict[str, Held]:
    return {"v": Held("vision", 16)} | {f"s{i}": Held("speech", 4) for i in names}


def test_fair_sharing_takes_from_the_larger_share_down_to_the_own() -> None:
    # Shares 0, 8 / 32, 0. With 4 more vision has 4 / 32, speech without a job too. With 6 it has 6 / 32, more
    # than 4 / 32, less than 8 / 32: one job may go, and 4 GPUs are not enough.
    state = fair_state("1234")
    assert stopped(state, Held("vision", 4)) == []  # first come: vision is not below its quota
    assert stopped(state, Held("vision", 4), sharing="fair") == ["s4"]
    assert stopped(state, Held("vision", 6), sharing="fair") == []
    heavier = (team("vision", 16, weight=2.0), team("speech", 8), team("text", 8))
    assert stopped(state, Held("vision", 6), sharing="fair", declared=heavier) == ["s3", "s4"]  # 3 / 32
    # The stopped job cannot come back: 8 / 32 is more than vision's 4 / 32.
    after = {"v": Held("vision", 16), "w": Held("vision", 4)} | fair_state("123")
    assert stopped(after, Held("speech", 4), sharing="fair") == []


@pytest.mark.parametrize("sharing", ["first_come", "fair"])
def test_a_job_that_need_not_borrow_has_its_turn_first(sharing: str) -> None:
    # 8 GPUs are free. v came first and would borrow; t is within its quota. Then v has 4 left, too few.
    jobs = {"x": Held("vision", 16), "s": Held("speech", 8), "v": Held("vision", 8), "t": Held("text", 4)}
    assert decision(jobs, ["v", "t"], sharing=sharing) == (["t"], [])
    lone = {name: jobs[name] for name in "xsv"}
    assert decision(lone, ["v"], sharing=sharing) == (["v"], [])


def test_the_least_share_has_its_turn_first_if_fair() -> None:
    # 8 GPUs are free, both borrow: v with 8 / 32, s with 4 / 32.
    jobs = {"x": Held("vision", 16), "y": Held("speech", 8), "v": Held("vision", 8), "s": Held("speech", 4)}
    assert decision(jobs, ["v", "s"]).started == ["v"]
    assert decision(jobs, ["v", "s"], sharing="fair").started == ["s"]


def test_without_backfilling_a_job_beyond_its_quota_blocks_its_team_only() -> None:
    limited = teams(vision={"borrow": 0})
    jobs = {"x": Held("vision", 12), "v1": Held("vision", 6), "v2": Held("vision", 1), "t": Held("text", 4)}
    asks = ["v1", "v2", "t"]
    assert decision(jobs, asks, limited, backfill=False).started == ["t"]
    assert decision(jobs, asks, limited).started == ["v2", "t"]
