"""Page of a reproduced figure: what its plot cannot show is told below it."""

from __future__ import annotations

from dataclasses import replace

from ray_sim.reports.curves import Axis, Point
from ray_sim.reports.figure_page import FigureResult, figures_page

CURVES = {"fifo": (3.0, 1.0), "sjf": (3.0, 1.0), "srtf": (3.0, 0.5), "las": (0.0, 0.5)}
"""Means at 0 and at 10 servers; nobody waits under LAS at 0."""

RESULT = FigureResult(
    name="mine",
    given="mine.yaml",
    title="Delay",
    source="figure 1",
    x=Axis("servers"),
    y=Axis("delay", "s"),
    xs=(0, 10),
    series=tuple(CURVES),
    points=tuple(
        Point(series, x, 1, mean, None, None)
        for series, means in CURVES.items()
        for x, mean in zip((0, 10), means, strict=True)
    ),
    checks=(),
    facts=(),
    planned=8,
    done=8,
    missing={},
)


def caption(result: FigureResult) -> str:
    """Text below the plot."""
    (picture,) = figures_page([result]).sections[1].pictures
    return picture.caption


def test_curves_that_hide_each_other_are_named() -> None:
    assert caption(RESULT) == "Means with 95 % intervals. fifo, sjf: the same curve"


def test_points_without_a_place_on_a_logarithmic_axis_are_counted() -> None:
    on_y = caption(replace(RESULT, y=Axis("delay", "s", log=True)))
    assert "1 of 8 points are not above 0, so a logarithmic axis lacks them" in on_y
    on_x = caption(replace(RESULT, x=Axis("servers", log=True)))
    assert "4 of 8 points are not above 0" in on_x


def test_the_answer_says_that_series_complete_different_numbers_of_jobs() -> None:
    answer = replace(RESULT, completions="At x = 2: different numbers of completed jobs").answer
    assert answer.endswith("no verdict. At x = 2: different numbers of completed jobs.")
