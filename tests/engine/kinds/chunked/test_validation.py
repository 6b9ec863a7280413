"""What a decision about jobs in chunks may not do, and which worlds are for which policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ray_sim.engine.decision import Decision, Wake
from ray_sim.engine.kinds.chunked.decision import ChunkedDecision, Dispatch, NewKeys
from ray_sim.engine.simulation import Simulation
from ray_sim.engine.world import World
from ray_sim.kernels.core.arrays import PARAMETER_SERVER, WORKER
from ray_sim.model.errors import InfeasibleDecisionError, InvalidScenarioError
from ray_sim.model.units import IntArray
from tests.chunk_worlds import PLAIN, ChunkJob, Row, Script, Server, chunk_world, dispatch_of
from tests.scripted import at_times, scripted
from tests.worlds import Job, column_of, replay, world_of

J1, J2, J3 = 0, 1, 2
ENDINGS: dict[str, Callable[[IntArray], Decision]] = {
    "reject": lambda jobs: Decision(reject=jobs),
    "evict": lambda jobs: Decision(evict=jobs),
}
TWO = (Server(), Server())


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(2, 0, 0, 0)], ["J3", "not in the system"]),
        ([(9, 0, 0, 0)], ["job number 9", "a job that does not exist"]),
        ([(-1, 0, 0, 0)], ["job number -1", "a job that does not exist"]),
        ([(J1, 2, 0, 0)], ["chunk 2 of job J1", "does not have it"]),
        ([(J1, -1, 0, 0)], ["chunk -1 of job J1", "does not have it"]),
        ([(J1, 0, 2, 0)], ["chunk 0 of job J1", "worker 2", "no such worker", "0 to 1"]),
        ([(J1, 0, -1, 0)], ["chunk 0 of job J1", "worker -1", "no such worker"]),
        ([(J2, 0, 0, 0)], ["chunk 0 of job J2", "worker 0", "outside the job's partition"]),
        ([(J1, 0, 0, 0), (J1, 0, 0, 0)], ["chunk 0 of job J1", "second time"]),
    ],
)
def test_a_dispatch_that_breaks_a_rule_is_refused_by_name(rows: Sequence[Row], words: Sequence[str]) -> None:
    jobs = [ChunkJob(0, 2, 3, vc="a"), ChunkJob(0, 1, 3, vc="b"), ChunkJob(5, 1, 3, vc="a")]
    world = chunk_world(jobs, [Server(vc="a"), Server(vc="b")], partition="vc")
    refused(world, ChunkedDecision(dispatch=dispatch_of(rows)), words)


def refused(world: World, decision: Decision, words: Sequence[str]) -> None:
    """The first decision of a run is refused with these words, and nothing has changed by it."""
    simulation = Simulation(world, Script({}))
    assert simulation.advance() is not None
    before = simulation.state()
    with pytest.raises(InfeasibleDecisionError) as refusal:
        simulation.apply(decision)
    assert all(word in str(refusal.value) for word in words), str(refusal.value)
    after = simulation.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([(0, WORKER, 1)], ["J1 the role of a worker", "dispatch"]),
        ([(0, PARAMETER_SERVER, 2)], ["J1 more than one parameter server"]),
        ([(0, PARAMETER_SERVER, 1), (1, PARAMETER_SERVER, 1)], ["J1 more than one parameter server"]),
        ([(2, PARAMETER_SERVER, 1)], ["exceeds capacity for job J1 on server s2", "1 ps too many of 0"]),
        ([(3, PARAMETER_SERVER, 1)], ["J1 on server number 3, of 3"]),
    ],
)
def test_a_job_holds_one_parameter_server_where_there_is_one(
    rows: list[tuple[int, int, int]], words: Sequence[str]
) -> None:
    world = chunk_world([ChunkJob(0, 1, 3)], [Server(), Server(), Server(ps=0)])
    refused(world, Decision.of({J1: rows}), words)


def test_in_whole_slots_parameter_servers_change_between_slots() -> None:
    world = chunk_world([ChunkJob(0, 1, 3), ChunkJob(1, 1, 3)], slot_s=2)
    simulation = Simulation(world, Script({}))
    assert simulation.advance() is not None
    simulation.apply(Decision.of({J1: [(0, PARAMETER_SERVER, 1)]}))
    assert simulation.advance() is not None
    with pytest.raises(InfeasibleDecisionError, match=r"at 1 s: .* within a slot of 2 s"):
        simulation.apply(Decision.of({J1: []}))


def test_a_chunk_is_dispatched_once() -> None:
    twice = {
        0.0: ChunkedDecision(dispatch=dispatch_of([(J1, 0, 0, 0)])),
        1.0: ChunkedDecision(dispatch=dispatch_of([(J1, 0, 1, 0)])),
    }
    policy = scripted(at_times(twice), wake=Wake.ARRIVAL | Wake.REVIEW, chunks=True)
    with pytest.raises(InfeasibleDecisionError, match=r"^at 1 s: .* chunk 0 of job J1 .* second time$"):
        replay(chunk_world([ChunkJob(0, 2, 3)], TWO), policy)


def test_columns_of_a_dispatch_have_one_length() -> None:
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    refused(
        chunk_world([ChunkJob(0, 1, 3)]),
        ChunkedDecision(dispatch=Dispatch(one, one, two, one)),
        ["1, 1, 2 and 1 values"],
    )


@pytest.mark.parametrize(
    ("jobs", "keys", "words"),
    [
        ([J1], [], ["1 jobs 0 new keys"]),
        ([J2, J1], [0, 0], ["not sorted"]),
        ([J1, J1], [0, 0], ["or twice"]),
        ([J3], [0], ["J3", "not in the system"]),
        ([9], [0], ["do not exist: [9]"]),
    ],
)
def test_new_keys_are_for_jobs_in_the_system_once_each(
    jobs: list[int], keys: list[int], words: Sequence[str]
) -> None:
    world = chunk_world([ChunkJob(0, 1, 3), ChunkJob(0, 1, 3), ChunkJob(5, 1, 3)], TWO)
    refused(world, ChunkedDecision(keys=NewKeys(np.array(jobs), np.array(keys, dtype=np.int64))), words)


def test_in_whole_slots_keys_change_between_slots() -> None:
    policy = Script({0.0: [(J1, 0, 0, 0)]}, keys={1.0: [(J1, 3)]})
    with pytest.raises(InfeasibleDecisionError, match=r"at 1 s: .* new keys within a slot of 2 s"):
        replay(chunk_world([ChunkJob(0, 1, 4)], slot_s=2), policy)


def test_only_chunked_jobs_have_chunks() -> None:
    policy = scripted(lambda view: ChunkedDecision(dispatch=dispatch_of([(0, 0, 0, 0)])))
    with pytest.raises(InfeasibleDecisionError, match="with dispatch, keys, which is about jobs of another"):
        replay(world_of([Job(0, 1, 3)], [1]), policy)


@pytest.mark.parametrize(
    ("ending", "slot_s", "words"),
    [
        ("reject", None, "rejects job J1, which has chunks on workers .*; evict it instead"),
        ("evict", 2, "evicts job J1, which has chunks on workers .* within a slot of 2 s"),
    ],
)
def test_a_job_with_chunks_on_workers_is_evicted_and_in_whole_slots_between_slots(
    ending: str, slot_s: float | None, words: str
) -> None:
    simulation = Simulation(chunk_world([ChunkJob(0, 2, 3), ChunkJob(1, 1, 1)], slot_s=slot_s), Script({}))
    assert simulation.advance() is not None
    simulation.apply(ChunkedDecision(dispatch=dispatch_of([(J1, 0, 0, 0)])))
    assert simulation.advance() is not None
    simulation.apply(Decision())
    assert simulation.advance() is not None
    with pytest.raises(InfeasibleDecisionError, match=words):
        simulation.apply(ENDINGS[ending](np.array([J1])))


@pytest.mark.parametrize("ending", ["evict", "reject"])
def test_a_job_without_chunks_on_workers_can_be_ended(ending: str) -> None:
    policy = scripted(lambda view: ENDINGS[ending](view.arrived), chunks=True)
    result = replay(chunk_world([ChunkJob(0, 2, 3)]), policy)
    assert column_of(result, "status") == {"J1": f"{ending}ed"}


def test_policies_and_worlds_are_for_the_same_kind_of_jobs() -> None:
    with pytest.raises(InvalidScenarioError, match="fifo is for rigid, elastic, measured jobs, but truth=a"):
        replay(chunk_world([ChunkJob(0, 1, 3)]), "fifo")
    with pytest.raises(
        InvalidScenarioError, match=r"policy chunk_spt is for chunked jobs, .*: set -w truth=a_online"
    ):
        replay(world_of([Job(0, 1, 3)], [1]), "chunk_spt")


def test_a_job_whose_partition_has_no_worker_never_fits() -> None:
    jobs = [ChunkJob(0, 1, 3, vc="a"), ChunkJob(0, 1, 3, vc="b"), ChunkJob(0, 1, 3, vc="c")]
    servers = [Server(vc="a"), Server(workers=0, vc="b", kind=PLAIN)]
    world = chunk_world(jobs, servers, slot_s=1, partition="vc")
    result = replay(world, "chunk_fifo")
    assert column_of(result, "reason") == {"J1": None, "J2": "never_fits", "J3": "never_fits"}
