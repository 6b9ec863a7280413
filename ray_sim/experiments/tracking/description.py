"""Description of a sweep's experiment in MLflow: its state, its findings in words, and its pages.

`ray_sim.experiments.tracking.overview` writes it when a sweep is logged. Its wording is free to change. A
description that a user edited stays: its SHA-256 is no longer the one that was stored beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ray_sim.experiments.tracking.views import CONFIGURATIONS_VIEW_TAG, VIEW_TAG, charts_path
from ray_sim.model.text import markdown_text
from ray_sim.reports.tables import Place, place_title

MOST_CHARACTERS = 4500
"""Largest length of a description; MLflow from 3.1 on takes 5,000 characters."""


_MORE = "\n\nMore findings: `ray-sim report`."


def description(
    name: str,
    experiment_id: str,
    state: str,
    findings: Mapping[Place, Sequence[str]],
    axis: str | None,
) -> str:
    """Description in Markdown; names from files and traces are text in it, never markup.

    Parameters
    ----------
    state : numbers of runs, such as ``1 of 2 runs done, 1 failed``
    findings : sentences by place; the text ends before the first one that would make it too long
    axis : name of the axis over which the first page has lines; None for bars
    """
    bold = f"**{markdown_text(name)}**"
    end = (
        "\n\nIn brackets: 95 % intervals over seeds. Verdicts as by `ray-sim compare`, at 5 % after Holm's "
        f"correction. The run {bold} has the table (comparison.csv); a sweep with log: full also has the "
        "pictures and the report there (report.html)."
    )
    # MLflow shows the first line only, until a reader unfolds the rest.
    text = f"Sweep {bold}: {state}. {_first(findings)}\n\n{_pages(experiment_id, axis)}"
    room = MOST_CHARACTERS - len(end) - len(_MORE)
    for line in (line for place, sentences in findings.items() for line in _place(place, sentences)):
        if len(text) + len(line) > room:
            return text + _MORE + end
        text += line
    return text + end


def _first(findings: Mapping[Place, Sequence[str]]) -> str:
    """The first finding, with its place if there are several."""
    for place, sentences in findings.items():
        where = f"{place_title(place)}: " if len(findings) > 1 else ""
        if sentences:
            return markdown_text(f"{where}{sentences[0]}")
    return ""


def _pages(experiment_id: str, axis: str | None) -> str:
    """Links to the prepared pages, as MLflow's pages have them."""
    if axis is None:
        return f"[Charts]({charts_path(experiment_id, VIEW_TAG)}): configurations, best first."
    return (
        f"[Lines over {markdown_text(axis)}]({charts_path(experiment_id, VIEW_TAG)}), "
        f"[configurations as bars]({charts_path(experiment_id, CONFIGURATIONS_VIEW_TAG)})."
    )


def _place(place: Place, sentences: Sequence[str]) -> Iterator[str]:
    """Yield the sentences as lines of a list, the first with the heading."""
    heading = f"\n\n**{markdown_text(place_title(place))}**\n"
    for each in sentences:
        yield f"{heading}\n- {markdown_text(each)}"
        heading = ""
