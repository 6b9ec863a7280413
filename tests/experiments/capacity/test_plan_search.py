"""Search for the cheapest mix: equal to trying all under monotony, and in few tests."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from ray_sim.experiments.capacity.plan import cheapest, contradictions, first, witnesses
from ray_sim.experiments.capacity.request import Axis, Choices, Mix, within

PRICES = st.sampled_from([0.5, 1.0, 2.0, 3.0])


@st.composite
def monotone(draw: st.DrawFn) -> tuple[Choices, set[Mix]]:
    """Choices of up to three kinds of servers, and the mixes that hold one of a few least ones."""
    axes = [
        Axis(f"k{i}", low := draw(st.integers(0, 2)), low + draw(st.integers(0, 4)), draw(PRICES))
        for i in range(draw(st.integers(1, 3)))
    ]
    choices = Choices(tuple(axes), ())
    mixes = choices.mixes()
    least = draw(st.lists(st.sampled_from(mixes), max_size=3)) if mixes else []
    return choices, {mix for mix in mixes if any(within(one, mix) for one in least)}


@given(monotone())
def test_the_search_finds_a_mix_of_the_least_price(world: tuple[Choices, set[Mix]]) -> None:
    choices, passing = world
    mixes = choices.mixes()
    tested: list[Mix] = []

    def passes(mix: Mix) -> bool:
        tested.append(mix)
        return mix in passing

    found = cheapest(mixes, passes)
    expected = next((mix for mix in mixes if mix in passing), None)
    assert found == expected
    assert len(set(tested)) == len(tested)
    assert first(mixes, lambda batch: [mix in passing for mix in batch], 3) == expected


def test_one_kind_of_server_is_searched_by_bisection() -> None:
    mixes = Choices((Axis("server", 10, 200),), ()).mixes()  # 191 numbers: at most 8 tests, 2^8 > 191
    for least in range(10, 202):
        tested: list[Mix] = []

        def passes(mix: Mix, least: int = least, tested: list[Mix] = tested) -> bool:
            tested.append(mix)
            return mix[0] >= least

        assert cheapest(mixes, passes) == ((least,) if least <= 200 else None)
        assert len(tested) <= math.ceil(math.log2(len(mixes) + 1))


def test_mixes_come_by_price_then_by_number_and_hold_a_server() -> None:
    choices = Choices((Axis("a100", 0, 1, 3.0), Axis("v100", 0, 3, 1.0)), ())
    assert choices.mixes() == [(0, 1), (0, 2), (1, 0), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert [choices.price(mix) for mix in choices.mixes()] == [1, 2, 3, 3, 4, 5, 6]


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 5), max_size=8))
def test_contradictions_are_all_pairs_in_which_more_servers_are_worse(values: dict[Mix, float]) -> None:
    found = set(contradictions(values, falls=True))
    pairs = itertools.permutations(values, 2)
    assert found == {(a, b) for a, b in pairs if within(a, b) and values[b] > values[a]}
    risen = set(contradictions({mix: -value for mix, value in values.items()}, falls=False))
    assert risen == found


def test_an_infinite_value_is_worse_and_equal_to_itself() -> None:
    inf = math.inf
    assert list(contradictions({(1,): inf, (2,): inf, (3,): 5.0}, falls=True)) == []
    assert list(contradictions({(1,): 5.0, (2,): inf}, falls=True)) == [((1,), (2,))]


def test_the_assumption_is_checked_at_neighbours_and_beyond() -> None:
    mixes = [(n,) for n in range(1, 31)]
    assert {mix[0] for mix in witnesses((10,), mixes)} == {1, 8, 9, 11, 12, 16, 23, 30}
    assert {mix[0] for mix in witnesses(None, mixes)} == {16, 30}
