"""GPUs of one type, as a round gives them to entries; `Rounds` makes one for each type and round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class Room:
    """GPUs of one type: counted while entries are chosen, then given out by number.

    Parameters
    ----------
    servers : numbers of the GPUs of each server that is there, increasing
    sizes : an entry with one of these numbers of GPUs must have them on one server
    """

    def __init__(self, servers: Sequence[Sequence[int]], sizes: Sequence[int]) -> None:
        self._servers = servers
        self._free = {number for server in servers for number in server}
        self._places = {n: sum(len(server) // n for server in servers) for n in sizes}
        self._places[1] = len(self._free)

    @property
    def full(self) -> bool:
        """No GPU is left for another entry."""
        return self._places[1] == 0

    def count(self, gpus: int) -> bool:
        """Count the GPUs of one more entry, if they fit into what is left.

        On one server each, entries fit if for each size n the places of n GPUs suffice for those of n or more
        GPUs. This is exact where sizes divide each other; otherwise `give` may find no GPUs.
        """
        fits = all(left >= gpus // n for n, left in self._places.items() if n <= gpus)
        if fits:
            for n in self._places:
                self._places[n] -= gpus // n
        return fits

    def give(self, gpus: Sequence[int], had: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """GPUs of entries, in order: those that they had if these are untaken, else the lowest untaken ones.

        Entries of more GPUs choose first, and of equals those that keep theirs; () where none are found.

        Parameters
        ----------
        gpus : number that each entry takes
        had : GPUs that each had in the last round
        """
        given: list[tuple[int, ...]] = [()] * len(gpus)
        for n in sorted(set(gpus), reverse=True):
            same = [entry for entry, count in enumerate(gpus) if count == n]
            for entry in same:
                if self._free.issuperset(had[entry]):
                    given[entry] = had[entry]
                    self._free.difference_update(had[entry])
            spans = self._spans(n)
            for entry in same:
                given[entry] = given[entry] or next(spans, ())
        return given

    def _spans(self, gpus: int) -> Iterator[tuple[int, ...]]:
        """Groups of the lowest untaken GPUs, of ``gpus`` each."""
        apart = gpus not in self._places or gpus == 1
        for group in [[number for server in self._servers for number in server]] if apart else self._servers:
            free = [number for number in group if number in self._free]
            for start in range(0, len(free) - gpus + 1, gpus):
                span = tuple(free[start : start + gpus])
                self._free.difference_update(span)
                yield span
