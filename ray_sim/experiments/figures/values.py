"""Values of a figure's runs from the store: the metric by series, x and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ray_sim.experiments.figures.cells import Cell
from ray_sim.experiments.results.result_files import read_summary, read_timing
from ray_sim.experiments.results.store import ResultStore
from ray_sim.model.errors import UnknownNameError
from ray_sim.reports.shape_samples import Samples, X

TIMING = "timing."
"""Beginning of the metrics that are wall-clock figures, from timing.json."""


def figure_samples(cells: Sequence[Cell], xs: Sequence[X], metric: str, store: ResultStore) -> Samples:
    """Values of a metric in the finished runs; runs without the metric are left out.

    Parameters
    ----------
    xs : all values of x of the figure; a run that belongs to every x counts at each

    Raises
    ------
    UnknownNameError : runs are finished, and none has the metric
    """
    values: dict[tuple[str, X], dict[int | None, float]] = {}
    known: set[str] = set()
    for cell in cells:
        content_hash = cell.configuration.entry.content_hash
        if not store.has(content_hash):
            continue
        numbers = _numbers(store.run_directory(content_hash), timing=metric.startswith(TIMING))
        known |= numbers.keys()
        # The summary omits a reason that no job has; it counts as 0.
        value = numbers.get(metric, 0.0 if metric.startswith("reasons.") else None)
        if value is None:
            continue
        for x in xs if cell.everywhere else [cell.x]:
            values.setdefault((cell.series, x), {})[cell.seed] = value
    if known and not values:
        raise UnknownNameError("metric", metric, known)
    return Samples(values)


def _numbers(directory: Path, *, timing: bool) -> Mapping[str, float]:
    return dict(_flat(TIMING[:-1], read_timing(directory))) if timing else read_summary(directory).flat()


def _flat(prefix: str, value: object) -> list[tuple[str, float]]:
    if isinstance(value, Mapping):
        return [pair for key, inner in value.items() for pair in _flat(f"{prefix}.{key}", inner)]
    return [(prefix, float(value))] if isinstance(value, int | float) else []
