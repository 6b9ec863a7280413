"""How parameter blocks are dealt out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.model.dealt_loads import DealtLoads
from ray_sim.model.job import BlockProfile
from ray_sim.model.parameter_blocks import (
    MOST_BLOCKS,
    MOST_PARAMETERS,
    Assignment,
    BlockRule,
    assign,
    mxnet,
    paa,
    parse_blocks,
    tensorflow,
)
from ray_sim.model.streams import Streams

BLOCKS = st.lists(st.integers(0, 3 * 10**6) | st.integers(0, 100), min_size=1, max_size=60)
SERVERS = st.integers(1, 12)


def sizes(found: Assignment) -> list[Fraction | int]:
    """Parameters on each server."""
    return list(found.sizes)


def test_example_3c() -> None:
    """In tenths, average 1000: 1000 to server 0, 500 to 40 to server 1, 4, 3, 3 where requests are few."""
    found = paa([1000, 500, 300, 150, 40, 4, 3, 3], 2)
    assert sizes(found) == [1010, 990]
    assert found.requests == (4, 4)
    assert (found.size_difference, found.total_requests, found.request_difference) == (20, 8, 0)
    assert found.skew == 1010 / 1000


def test_the_example_cuts_no_block_but_one_above_the_average() -> None:
    """150 + 30 over two: average 90; 90 and 60 of the large one, then 30 where it fits."""
    found = paa([30, 150], 2)
    assert sizes(found) == [90, 90]
    assert found.requests == (1, 2)


def test_blocks_in_turn_and_cut_blocks() -> None:
    in_turn = tensorflow([5, 1, 5, 1], 2)
    assert sizes(in_turn) == [10, 2]
    assert in_turn.requests == (2, 2)
    cut = mxnet([4 * 10**6 + 1], 4, Streams(0))
    assert sizes(cut) == [10**6 + Fraction(1, 4)] * 4
    assert cut.requests == (1, 1, 1, 1)
    whole = mxnet([10**6 - 1], 4, Streams(0))
    assert sorted(whole.requests) == [0, 0, 0, 1]


def test_the_random_servers_of_mxnet_depend_on_seed_blocks_and_number_of_servers_alone() -> None:
    first = mxnet([7] * 50, 4, Streams(3))
    assert first == mxnet([7] * 50, 4, Streams(3))
    assert first != mxnet([7] * 50, 4, Streams(4))
    assert first.requests != mxnet([8] * 50, 4, Streams(3)).requests


@pytest.mark.parametrize("servers", [1, 2, 5, 300])
def test_one_giant_block_is_whole_with_tensorflow_and_even_with_the_others(servers: int) -> None:
    """All on one of p servers is p times the average."""
    found = {rule: assign(rule, [10**9], servers, Streams(0)) for rule in BlockRule}
    assert found[BlockRule.TENSORFLOW].skew == servers
    assert found[BlockRule.PAA].skew == found[BlockRule.MXNET].skew == 1.0
    assert found[BlockRule.PAA].total_requests == servers


@given(blocks=BLOCKS, servers=SERVERS, rule=st.sampled_from(BlockRule))
def test_every_rule_deals_out_all_parameters(blocks: list[int], servers: int, rule: BlockRule) -> None:
    found = assign(rule, blocks, servers, Streams(1))
    assert sum(found.sizes) == sum(blocks)
    assert found.total_requests >= len([size for size in blocks if size])
    assert len(found.sizes) == len(found.requests) == servers
    assert 1.0 <= found.skew <= servers


@given(blocks=BLOCKS, servers=SERVERS)
def test_paa_is_even_to_an_average_load_and_cuts_little(blocks: list[int], servers: int) -> None:
    """A piece, or a block that fits nowhere, is at most the average, and goes to the least loaded server."""
    found = paa(blocks, servers)
    average = sum(blocks) / servers
    small = sum(size for size in blocks if size < average / 100)
    assert found.size_difference <= average + small
    assert found.total_requests <= len(blocks) + servers


def test_paa_needs_a_request_for_each_block_of_a_model_of_many() -> None:
    """157 blocks in the manner of ResNet-50, 25 million parameters, over ten servers."""
    blocks = [2_048_000, *([2_359_296] * 3), *([1_048_576] * 6), *([262_144] * 20), *([65_536] * 27)]
    blocks += [512] * (157 - len(blocks))
    one, other, third = paa(blocks, 10), mxnet(blocks, 10, Streams(0)), tensorflow(blocks, 10)
    assert one.total_requests <= 160 < other.total_requests
    assert one.size_difference < min(other.size_difference, third.size_difference)
    assert one.size_difference < 0.1 * sum(blocks) / 10
    assert one.skew < 1.05


def test_no_load_is_too_large_to_count() -> None:
    """The most parameters on as many servers as a job may have: a load is counted times 2^20."""
    found = tensorflow([MOST_PARAMETERS], 2**20)
    assert found.loads[0] == MOST_PARAMETERS * 2**20


def test_a_model_without_servers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        paa([1], 0)


def test_the_skew_of_jobs_is_that_of_their_blocks_on_their_servers() -> None:
    """Blocks 3, 1 in turn: on one server 4 of 4, on two 3 of 2, on four 3 of 1. No servers, no blocks: 1."""
    profile = BlockProfile(lists=((3, 1), (2, 2)), of_job=np.array([1, 0, -1]))
    loads = DealtLoads(profile, BlockRule.TENSORFLOW, Streams(0))
    jobs, ps = np.array([1, 1, 1, 1, 0, 0, 2]), np.array([0, 1, 2, 4, 2, 4, 4])
    found = loads.of(jobs, ps)
    assert found.skew.tolist() == [1.0, 1.0, 1.5, 3.0, 1.0, 2.0, 1.0]
    # Two blocks are two requests, both to one server or one each; without blocks one to each server.
    assert found.most_requests.tolist() == [0, 2, 1, 1, 1, 1, 1]
    assert found.requests.tolist() == [0, 2, 2, 2, 2, 2, 4]
    assert loads.of(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).skew.tolist() == []


def test_blocks_are_written_with_repetitions() -> None:
    assert parse_blocks("9408 2*64 2*(3*16 4)") == (9408, 64, 64, 16, 16, 16, 4, 16, 16, 16, 4)
    assert parse_blocks("7") == (7,)


@given(blocks=st.lists(st.integers(1, 10**12), min_size=1, max_size=4))
def test_a_list_of_sizes_is_read_as_it_is(blocks: list[int]) -> None:
    assert parse_blocks(" ".join(map(str, blocks))) == tuple(blocks)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cannot read ''"),
        ("64, 64", "cannot read '64, 64'"),
        ("6.4", "cannot read '6.4'"),
        ("-5", "cannot read '-5'"),
        ("2*(3 2*(4))", r"cannot read '2\*\(3 2\*\(4\)\)'"),
        ("2*()", "cannot read ''"),
        ("64 0", "at least 1 parameter, not '0'"),
        ("0*64", "at least 1 block"),
        ("900000*(900000*1)", f"more than {MOST_BLOCKS:,} blocks"),
        ("2*4000000000000", f"at most {MOST_PARAMETERS:,} are possible"),
    ],
)
def test_what_is_no_list_of_blocks_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_blocks(text)
