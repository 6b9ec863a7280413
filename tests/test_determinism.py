"""The same bytes from any process: without compilation, and under any hash seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import python

ROOT = Path(__file__).parents[1]

SCENARIO = """
import hashlib, sys
from ray_sim.contract.elastic_worlds import busy_elastic
from tests.toys import Dealer, chunked
from tests.worlds import Job, fingerprint, replay, world_of

jobs = [
    Job(submit_s, gpus, duration_s, vc)
    for submit_s in (0, 0, 3, 7.5) for gpus in (0.25, 1, 5) for duration_s in (0, 2.5, 11)
    for vc in ("a", "b")
]
world = world_of(
    jobs, [4, 2, 8, 1], vc=["a", "b", "a", "b"], speed=[1, 0.5, 2, 1], params={"restart_cost_s": 0.5}
)
digest = hashlib.sha256()
for loop in ("auto", "general"):
    for name, params in (
        ("fifo", {"backfill": True}), ("sjf", {}), ("srtf", {}), ("las", {"limits_gpu_s": (4, 9), "knob": 2}),
    ):
        for placement in ("pooled", "consolidate", "spread"):
            result = replay(world, name, loop=loop, placement=placement, **params)
            digest.update(str(fingerprint(result)).encode())
chunks = [1 + i % 3 for i in range(9)]
chunk_jobs = [Job(i // 2, 1, 1 + i % 4) for i in range(9)]
for policy in (Dealer(), "chunk_fifo", "chunk_spt", "a_online", "chunk_earliest_finish", "chunk_las"):
    result = replay(chunked(chunk_jobs, chunks, 3), policy, sites=2)
    digest.update(str(fingerprint(result)).encode())
for policy in ("drf", "tetris", "dorm"):
    digest.update(str(fingerprint(replay(busy_elastic(12), policy))).encode())
compiled = hasattr(sys.modules["ray_sim.kernels.core.replay"].replay, "nopython_signatures")
print(digest.hexdigest(), hash("differs under another seed"), "compiled" if compiled else "plain")
"""


def outcome(**environment: str) -> list[str]:
    """The scenario's digest, a string's hash and the kind of kernels, in a process of its own."""
    return python("-c", SCENARIO, cwd=ROOT, PYTHONPATH=str(ROOT), **environment).split()


@pytest.mark.slow
def test_another_hash_seed_and_plain_kernels_give_the_same_bytes() -> None:
    first, second = outcome(PYTHONHASHSEED="1"), outcome(PYTHONHASHSEED="2", NUMBA_DISABLE_JIT="1")
    assert first[1] != second[1]
    assert (first[2], second[2]) == ("compiled", "plain")
    assert first[0] == second[0]
