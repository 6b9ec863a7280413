from __future__ import annotations

import zlib

import numpy as np

from ray_sim.model.streams import Streams


def draws(streams: Streams, purpose: str, *entity: int) -> list[float]:
    return list(streams.generator(purpose, *entity).random(8))


def test_asking_again_gives_the_same_draws_however_many_were_taken_elsewhere() -> None:
    streams = Streams(3)
    first = draws(streams, "parameter-server", 5, 2)
    streams.generator("tries", 5, 2).random(1000)
    streams.generator("parameter-server", 5, 3).random(1000)
    assert draws(streams, "parameter-server", 5, 2) == first
    assert draws(Streams(3), "parameter-server", 5, 2) == first


def test_streams_of_other_seeds_purposes_and_entities_are_others() -> None:
    kinds = [
        (Streams(seed), purpose, entity)
        for seed in (0, 1)
        for purpose in ("a", "b")
        for entity in ((), (0,), (1,), (0, 0), (0, 1), (1, 0))
    ]
    seen = {tuple(draws(streams, purpose, *entity)) for streams, purpose, entity in kinds}
    assert len(seen) == len(kinds) == 24


def test_a_stream_is_keyed_by_the_purposes_checksum_in_every_process() -> None:
    # CRC-32 of "a" is 0xe8b7be43; Python's own hash would differ between processes.
    assert zlib.crc32(b"a") == 0xE8B7BE43
    expected = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(0xE8B7BE43, 4)))
    assert draws(Streams(7), "a", 4) == list(expected.random(8))


def mixed(bits: int) -> int:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ bits >> shift) * factor % 2**64
    return bits ^ bits >> 31


def test_states_of_many_entities_are_mixed_as_in_splitmix64() -> None:
    golden = 0x9E3779B97F4A7C15
    assert mixed(golden) == 0xE220A8397B1DCDAF  # the published generator's first number from seed 0
    first = int(np.random.SeedSequence(3, spawn_key=(zlib.crc32(b"a"),)).generate_state(1, np.uint64)[0])
    states = Streams(3).states("a", np.array([0, 5]))
    assert states.tolist() == [mixed(first ^ mixed(entity + golden)) for entity in (0, 5)]


def test_numbers_of_many_entities_depend_on_no_other_entity() -> None:
    streams = Streams(3)
    whole = streams.uniforms("a", np.arange(1000), np.full(1000, 7))
    some = np.array([999, 3, 500])
    np.testing.assert_array_equal(streams.uniforms("a", some, np.full(3, 7)), whole[some])


def test_numbers_of_many_entities_differ_by_seed_purpose_and_entity() -> None:
    one, two = np.arange(500), np.arange(500) + 500
    seen = [
        streams.uniforms(purpose, *entity)
        for streams in (Streams(0), Streams(1))
        for purpose in ("a", "b")
        for entity in ((one,), (two,), (one, two), (two, one))
    ]
    assert len(np.unique(np.concatenate(seen))) == 2 * 2 * 4 * 500


def test_numbers_of_many_entities_are_even_and_independent() -> None:
    # 100,000 in 100 cells: chi-square of 99 degrees, below 148.2 with probability 0.999. Correlations of
    # independent numbers are about 1 / sqrt(100,000) = 0.003.
    entities = np.arange(100_000)
    a, b = Streams(0).uniforms("a", entities), Streams(0).uniforms("b", entities)
    assert 0 <= a.min() < a.max() < 1
    cells = np.bincount((a * 100).astype(np.int64), minlength=100)
    assert ((cells - 1000) ** 2 / 1000).sum() < 148.2
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.015
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 0.015
