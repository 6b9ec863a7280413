"""Remark on policies that complete different numbers of jobs, wherever a mean completion time is shown."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import numpy as np

from ray_sim.model.readable import number
from ray_sim.model.units import FloatArray
from ray_sim.reports.shape_samples import Samples

PlaceT = TypeVar("PlaceT", bound=Hashable)


def paired_by_seed(values: Mapping[str, Mapping[int | None, float]]) -> dict[str, FloatArray]:
    """Values of each label over the seeds that all labels have; the value of seed None pairs with each."""
    cells = [(label, (None,)) for label in values]
    samples = Samples({(label, None): by_seed for label, by_seed in values.items()})
    return dict(zip(values, samples.paired(*cells), strict=True))


def completion_note(runs: Iterable[tuple[str, int | None, float]]) -> str | None:
    """Remark where policies complete different numbers of jobs over common seeds; None where equal ones.

    Parameters
    ----------
    runs : policy, or another label, seed, None if the run depends on none, and number of completed jobs
    """
    completed: dict[str, dict[int | None, float]] = {}
    for label, seed, jobs in runs:
        completed.setdefault(label, {})[seed] = jobs
    counts = paired_by_seed(completed)
    if len(np.unique(np.array([*counts.values()]), axis=0)) < 2:
        return None
    means = {label: float(each.mean()) for label, each in counts.items()}
    least, most = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    return (
        f"different numbers of completed jobs, on average {number(means[least])} ({least}) to "
        f"{number(means[most])} ({most}); times are over completed jobs only"
    )


def completion_notes(runs: Iterable[tuple[PlaceT, str, int | None, float]]) -> dict[PlaceT, str]:
    """`completion_note` of the runs of each place, or value of x; those without a remark are left out."""
    places: dict[PlaceT, list[tuple[str, int | None, float]]] = {}
    for place, label, seed, completed in runs:
        places.setdefault(place, []).append((label, seed, completed))
    return {place: note for place, here in places.items() if (note := completion_note(here))}
