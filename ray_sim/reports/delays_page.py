"""Page of simulated against real queueing delays."""

from __future__ import annotations

import numpy as np
import polars as pl

from ray_sim.reports.delays import (
    PART_HEADINGS,
    WAITED_HEADINGS,
    DelayComparison,
    DelayPart,
    delay_pairs,
    parts_frame,
)
from ray_sim.reports.page import Facts, Page, Picture, Section, Table, fact_texts, frame_table
from ray_sim.reports.plots import delay_cdf_svg, hexagons_svg

NOTE = (
    "Delays are in seconds, from submission to first start. Brackets are 95 % bootstrap intervals over "
    "groups. The constant is the mean real delay of each priority."
)
"""Note below the tables of delays."""


def delays_page(title: str, subtitle: str, facts: Facts, found: DelayComparison, jobs: pl.DataFrame) -> Page:
    """Build the page of a comparison.

    Parameters
    ----------
    facts : inputs and settings of the run
    jobs : those of which `found` is the comparison
    """
    counts: Facts = [("jobs of the run", found.jobs), *found.left_out.items()]
    waited = frame_table(pl.DataFrame(found.waited), WAITED_HEADINGS)
    return Page(
        title,
        subtitle,
        (
            Section("Jobs", facts=fact_texts(counts), pictures=_pictures(jobs)),
            *(Section(title, tables=(_table(parts),)) for title, parts in found.tables().items()),
            Section("Jobs that waited", tables=(waited,)),
            Section("What ran", facts=fact_texts(facts)),
        ),
    )


def _table(parts: tuple[DelayPart, ...]) -> Table:
    return frame_table(parts_frame(parts), PART_HEADINGS, note=NOTE)


def _pictures(jobs: pl.DataFrame) -> tuple[Picture, ...]:
    pairs = delay_pairs(jobs).filter(pl.col("submit_s") > 0)
    if pairs.is_empty():
        return ()
    real_s, simulated_s = (pairs[column].to_numpy() for column in ("real_s", "simulated_s"))
    curves = {"real": np.sort(real_s), "simulated": np.sort(simulated_s)}
    axes = "real delay", "simulated delay"
    return (
        Picture(delay_cdf_svg(curves, "delays"), "Queueing delays of all jobs but those of second 0"),
        Picture(hexagons_svg(real_s, simulated_s, axes, "pairs"), "Pairs of delays; darker is more jobs"),
    )
