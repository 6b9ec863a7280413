"""Search for the cheapest mix of servers that passes a test, and checks of its assumption.

The assumption is monotony: a mix passes if a smaller one does. A mix is within another if it has at most as
many servers of every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ray_sim.experiments.capacity.choices import Mix
from ray_sim.experiments.capacity.goal import SAME


def within(small: Mix, large: Mix) -> bool:
    """Whether a mix has at most as many servers of every kind as another."""
    return all(a <= b for a, b in zip(small, large, strict=True))


def cheapest(mixes: Sequence[Mix], passes: Callable[[Mix], bool]) -> Mix | None:
    """The cheapest mix that passes, under the assumption of monotony; None if none does.

    The middle one of the mixes left is tested. If it passes, dearer ones are left out, otherwise those within
    it. With one kind of server this is bisection.

    Parameters
    ----------
    mixes : cheapest first
    """
    left, best = list(mixes), None
    while left:
        middle = len(left) // 2
        mix = left[middle]
        if passes(mix):
            best, left = mix, left[:middle]
        else:
            left = [other for other in left if not within(other, mix)]
    return best


def first(mixes: Sequence[Mix], passes: Callable[[Sequence[Mix]], Sequence[bool]], batch: int) -> Mix | None:
    """The first mix that passes, without any assumption; None if none does.

    Parameters
    ----------
    passes : tests several mixes
    batch : number of mixes that are tested at a time
    """
    for begin in range(0, len(mixes), batch):
        tested = mixes[begin : begin + batch]
        for mix, passed in zip(tested, passes(tested), strict=True):
            if passed:
                return mix
    return None


def witnesses(found: Mix | None, mixes: Sequence[Mix]) -> list[Mix]:
    """Mixes whose values check the assumption after a search: neighbours of the result, and points beyond.

    Two servers fewer and more of each kind, the mixes at one and two thirds of the way from the result to the
    dearest one, the dearest and the cheapest one.

    Parameters
    ----------
    found : result of `cheapest`
    mixes : cheapest first
    """
    if found is None:
        return [mixes[len(mixes) // 2], mixes[-1]]
    there = set(mixes)
    steps = [(k, step) for k in range(len(found)) for step in (-2, -1, 1, 2)]
    near = [(*found[:k], found[k] + step, *found[k + 1 :]) for k, step in steps]
    at, last = mixes.index(found), len(mixes) - 1
    beyond = [mixes[at + (last - at) * part // 3] for part in (1, 2, 3)]
    return [*(mix for mix in near if mix in there), *beyond, mixes[0]]


def contradictions(values: Mapping[Mix, float], *, falls: bool) -> Iterator[tuple[Mix, Mix]]:
    """Pairs of mixes, the first within the second, of which the second has a worse value.

    Parameters
    ----------
    falls : whether smaller values are better
    """
    for small, value in values.items():
        for large, other in values.items():
            if small == large or not within(small, large) or value == other:
                continue
            worse = other > value if falls else other < value
            if worse and not abs(other - value) <= SAME * abs(value):
                yield small, large
