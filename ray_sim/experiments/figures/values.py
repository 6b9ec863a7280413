"""Values of a figure's runs from the store: the metric by series, x and seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ray_sim.experiments.figures.cells import Cell, flat_entries
from ray_sim.experiments.results.result_files import read_summary, read_timing
from ray_sim.experiments.results.store import ResultStore
from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.reports.shape_samples import Samples, X
from ray_sim.reports.statistics import metric_range

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
    InvalidInputError : the metric is null in all finished runs
    """
    values: dict[tuple[str, X], dict[int | None, float]] = {}
    known: set[str] = set()
    nulls: set[str] = set()
    for cell in cells:
        content_hash = cell.configuration.entry.content_hash
        if not store.has(content_hash):
            continue
        entries = _entries(store.run_directory(content_hash), timing=metric.startswith(TIMING))
        numbers = {key: float(each) for key, each in entries.items() if isinstance(each, int | float)}
        known |= numbers.keys()
        nulls |= {key for key, each in entries.items() if each is None}
        # The summary omits a reason that no job has; it counts as 0.
        value = numbers.get(metric, 0.0 if metric.startswith("reasons.") else None)
        if value is None:
            continue
        for x in xs if cell.everywhere else [cell.x]:
            values.setdefault((cell.series, x), {})[cell.seed] = value
    if not values and any(key == metric or metric.startswith(f"{key}.") for key in nulls):
        raise InvalidInputError(f"metric '{metric}' is null in all runs")
    if known and not values:
        raise UnknownNameError("metric", metric, known)
    return Samples(values, metric_range(metric))


def _entries(directory: Path, *, timing: bool) -> dict[str, object]:
    """Entries of the summary or of timing.json by metric, with nulls."""
    if timing:
        return flat_entries(TIMING[:-1], read_timing(directory))
    parts = read_summary(directory).to_dict()
    return {name: each for key, part in parts.items() for name, each in flat_entries(key, part).items()}
