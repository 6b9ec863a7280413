"""Report of a sweep: policies side by side for each workload, cluster and setting.

`ray_sim.experiments.report` fills a table by `CONFIGURATIONS_SCHEMA` and writes the page from stored results;
`notebook_tables` shows durations by `DURATIONS`. Titles and order of the sections are free to change:
docs/reports.md describes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from ray_sim.model.units import FloatArray
from ray_sim.reports.findings import PlaceComparison, certificate_text, findings
from ray_sim.reports.page import Page, Picture, Section, Table, frame_table, without_constants
from ray_sim.reports.plots import bars_svg, jct_cdf_svg
from ray_sim.reports.sweep_sections import (
    OWNERS,
    PlaceData,
    class_pictures,
    fairness_table,
    place_charts,
    reject_table,
    verdict_table,
)
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

Places = Iterable[tuple[Place, PlaceData]]
"""Results by place, read one after the other, so that memory holds those of one place."""

DURATIONS = (
    "jct_s.mean",
    "jct_s.median",
    "jct_s.p90",
    "jct_s.p99",
    "queue_s.mean",
    "makespan_s",
    "certificate.bound_s",
)
"""Columns in seconds that tables show in the largest unit that fits, such as 2.4 h."""

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


def sweep_page(
    name: str,
    rows: Sequence[RunRow],
    comparisons: Mapping[Place, PlaceComparison],
    places: Places,
    configurations: pl.DataFrame,
) -> Page:
    """Build the report of a sweep.

    Parameters
    ----------
    rows : finished runs of the sweep
    comparisons : comparison of ``rows`` at each place, by `ray_sim.reports.findings.compare_places`
    places : results of these runs, place by place
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
            *(
                _place(index, place, means, rows, comparisons[place], data)
                for index, (place, data) in enumerate(places)
            ),
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


def _place(
    index: int,
    place: Place,
    means: pl.DataFrame,
    rows: Sequence[RunRow],
    compared: PlaceComparison,
    data: PlaceData,
) -> Section:
    here = means.filter(workload=place[0], cluster=place[1], setting=place[2])
    runs = [row for row in rows if (row.workload, row.cluster, row.setting) == place]
    headings = {name: text.removesuffix(" s") for name, text in sweep_headings(here).items()}
    ranked = _same_seeds(runs)
    table = without_constants(
        frame_table(
            here,
            {"policy": "policy", **headings},
            best_value if ranked else lambda _: None,
            durations=DURATIONS,
            note="Means over seeds. The best of a column is marked where policies differ."
            if ranked
            else "Means over each policy's own seeds, which differ: no best is marked.",
        )
    )
    jobs = data.jobs
    fairness = [] if jobs is None else [fairness_table(jobs, owner) for owner in OWNERS]
    tables = (verdict_table(compared), table, reject_table(runs), *fairness)
    return Section(
        place_title(place),
        text=tuple(filter(None, [" ".join(findings(compared)), certificate_text(here)])),
        tables=tuple(each for each in tables if each is not None),
        charts=tuple(place_charts(data)),
        pictures=(
            *_pictures(f"{index}", here, data.jct_s),
            *([] if jobs is None else class_pictures(f"{index}", jobs)),
        ),
    )


def _same_seeds(runs: Sequence[RunRow]) -> bool:
    """Whether all policies whose runs depend on a seed have finished the same seeds."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        if run.seed is not None:
            seeds.setdefault(run.policy, set()).add(run.seed)
    return len(set(map(frozenset, seeds.values()))) < 2


def _pictures(name: str, means: pl.DataFrame, jct_s: Mapping[str, FloatArray]) -> tuple[Picture, ...]:
    bars = {"queue_s.mean": ("Mean queueing delay", "hours", 3600)}
    bars |= {
        column: (f"Utilisation, {resource}", "used over offered", 1)
        for column, resource in columns_in_use(means, "utilisation.").items()
    }
    return (
        Picture(jct_cdf_svg(jct_s, f"jct-{name}"), "Job completion times"),
        *(
            Picture(
                bars_svg(
                    dict(zip(means["policy"], means[column] / divisor, strict=True)), unit, f"{column}-{name}"
                ),
                caption,
            )
            for column, (caption, unit, divisor) in bars.items()
        ),
    )


def _listing(configurations: pl.DataFrame) -> Table:
    return frame_table(configurations, {**_CONFIGURATION, "hash": "hash", "directory": "directory"})
