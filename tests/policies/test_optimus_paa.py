"""How parameter blocks are dealt out."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_sim.model.streams import Streams
from ray_sim.policies.optimus.paa import Assignment, mxnet, paa, tensorflow

BLOCKS = st.lists(st.integers(0, 3 * 10**6) | st.integers(0, 100), min_size=1, max_size=60)
SERVERS = st.integers(1, 12)


def test_example_3c() -> None:
    """In tenths, average 1000: 1000 to server 0, 500 to 40 to server 1, 4, 3, 3 where requests are few."""
    found = paa([1000, 500, 300, 150, 40, 4, 3, 3], 2)
    assert found == Assignment((Fraction(1010), Fraction(990)), (4, 4))
    assert (found.size_difference, found.total_requests, found.request_difference) == (20, 8, 0)


def test_the_example_cuts_no_block_but_one_above_the_average() -> None:
    """150 + 30 over two: average 90; 90 and 60 of the large one, then 30 where it fits."""
    assert paa([30, 150], 2) == Assignment((Fraction(90), Fraction(90)), (1, 2))


def test_blocks_in_turn_and_cut_blocks() -> None:
    assert tensorflow([5, 1, 5, 1], 2) == Assignment((Fraction(10), Fraction(2)), (2, 2))
    cut = mxnet([4 * 10**6], 4, Streams(0))
    assert cut == Assignment((Fraction(10**6),) * 4, (1, 1, 1, 1))
    whole = mxnet([10**6 - 1], 4, Streams(0))
    assert sorted(whole.requests) == [0, 0, 0, 1]
    assert mxnet([7] * 50, 4, Streams(3)) == mxnet([7] * 50, 4, Streams(3))


@given(blocks=BLOCKS, servers=SERVERS)
def test_every_rule_deals_out_all_parameters(blocks: list[int], servers: int) -> None:
    for found in (paa(blocks, servers), tensorflow(blocks, servers), mxnet(blocks, servers, Streams(1))):
        assert sum(found.sizes) == sum(blocks)
        assert found.total_requests >= len([size for size in blocks if size])
        assert len(found.sizes) == len(found.requests) == servers


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


def test_a_model_without_servers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        paa([1], 0)
