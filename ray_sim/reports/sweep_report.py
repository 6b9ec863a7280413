"""Report of a sweep: policies side by side for each workload, cluster and setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from ray_sim.model.units import FloatArray
from ray_sim.reports.page import Page, Picture, Section, Table, frame_table
from ray_sim.reports.plots import bars_svg, jct_cdf_svg
from ray_sim.reports.tables import (
    KEYS,
    Place,
    RunRow,
    best_value,
    columns_in_use,
    first_warnings,
    place_title,
    sweep_headings,
    sweep_table,
)

Curves = Iterable[tuple[Place, Mapping[str, FloatArray]]]
"""JCTs by place and policy, all seeds together, ascending, in seconds."""

CONFIGURATIONS_SCHEMA = {
    **{key: pl.String() for key in KEYS},
    "seed": pl.Int64(),
    "state": pl.String(),
    "hash": pl.String(),
    "directory": pl.String(),
    "error": pl.String(),
}
"""Columns of the table of a sweep's configurations; `state` is done, failed or missing.

`directory` is relative to the sweep's results; `error` is null unless failed.
"""

_CONFIGURATION = {**{key: key for key in KEYS}, "seed": "seed", "state": "state"}


def sweep_page(name: str, rows: Sequence[RunRow], curves: Curves, configurations: pl.DataFrame) -> Page:
    """Build the report of a sweep.

    Parameters
    ----------
    rows : finished runs of the sweep
    configurations : one line per configuration, columns as in `CONFIGURATIONS_SCHEMA`
    """
    states = dict(configurations.group_by("state").len().iter_rows())
    counts = [f"{states[state]} {state}" for state in ("done", "failed", "missing") if state in states]
    means = sweep_table(rows)
    return Page(
        title=f"Sweep {name}",
        subtitle=f"{len(configurations)} configurations: {', '.join(counts)}",
        sections=(
            *_failures(configurations),
            *_warnings(rows),
            *(_place(index, place, means, jct_s) for index, (place, jct_s) in enumerate(curves)),
            Section("Configurations", tables=(_listing(configurations),), folded=True),
        ),
    )


def _failures(configurations: pl.DataFrame) -> tuple[Section, ...]:
    failed = configurations.filter(pl.col("state") == "failed")
    if failed.is_empty():
        return ()
    headings = {**_CONFIGURATION, "error": "error"}
    del headings["state"]
    return (Section("Failed configurations", tables=(frame_table(failed, headings),)),)


def _warnings(rows: Sequence[RunRow]) -> tuple[Section, ...]:
    first = tuple(first_warnings(rows).items())
    return (Section("Warnings, the first of each policy", facts=first),) if first else ()


def _place(index: int, place: Place, means: pl.DataFrame, jct_s: Mapping[str, FloatArray]) -> Section:
    here = means.filter(workload=place[0], cluster=place[1], setting=place[2])
    table = frame_table(
        here,
        {"policy": "policy", **sweep_headings(here)},
        best_value,
        note="Means over seeds. The best of a column is marked where policies differ.",
    )
    return Section(place_title(place), tables=(table,), pictures=_pictures(f"{index}", here, jct_s))


def _pictures(name: str, means: pl.DataFrame, jct_s: Mapping[str, FloatArray]) -> tuple[Picture, ...]:
    bars = {"queue_s.mean": ("Mean queueing delay", "seconds")}
    bars |= {
        column: (f"Utilisation, {resource}", "used over offered")
        for column, resource in columns_in_use(means, "utilisation.").items()
    }
    return (
        Picture(jct_cdf_svg(jct_s, f"jct-{name}"), "Job completion times"),
        *(
            Picture(
                bars_svg(dict(zip(means["policy"], means[column], strict=True)), unit, f"{column}-{name}"),
                caption,
            )
            for column, (caption, unit) in bars.items()
        ),
    )


def _listing(configurations: pl.DataFrame) -> Table:
    return frame_table(configurations, {**_CONFIGURATION, "hash": "hash", "directory": "directory"})
