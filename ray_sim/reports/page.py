"""HTML report in one self-contained file: sections of facts, tables, pictures and charts.

The reports build a `Page` and pass it to `render`. The template ``report.html`` reads the fields of `Page`,
`Section`, `Table`, `Cell`, `Picture` and `Chart` by name: rename a field in both. An unknown field raises an
error.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import polars as pl

from ray_sim.model.readable import constant_columns, number, text_of
from ray_sim.model.text import shown
from ray_sim.model.units import FloatArray
from ray_sim.reports.plots import thin_steps
from ray_sim.reports.submission_times import last_end_s

Facts = Sequence[tuple[str, object]]
"""Pairs (label, value) of a section, in the order shown; `fact_texts` formats the values."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table; `best` marks it as the best of its column."""

    text: str
    is_number: bool = False
    best: bool = False


def number_cell(value: object, *, best: bool = False) -> Cell:
    """A cell aligned as a number; `number` formats the value, a text stays."""
    return Cell(number(value), is_number=True, best=best)


@dataclass(frozen=True, slots=True)
class Table:
    """A table: each row has one cell per column; `note` appears below the table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG element and its caption. `svg` is not escaped: it must never contain text from outside."""

    svg: str
    caption: str
    whole: bool = False
    """Whether it takes the whole width of the page."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture that the script of the page draws and the reader can zoom; `data` becomes JSON.

    ``data["kind"]`` is ``gantt`` or ``gantts`` (`ray_sim.reports.history.gantt`), ``lines`` or ``rows``
    (`ray_sim.reports.charts`). Names in it are shown as text.
    """

    caption: str
    data: Mapping[str, object]
    note: str = ""

    @property
    def packed(self) -> str:
        """Base64 of the deflated JSON."""
        text = json.dumps(self.data, separators=(",", ":"), allow_nan=False)
        return base64.b64encode(zlib.compress(text.encode(), 6)).decode()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page under a heading; collapsed if `folded`."""

    heading: str
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    pictures_first: bool = False
    """Whether the pictures and charts stand above the tables, not below."""
    charts: tuple[Chart, ...] = ()
    folded: bool = False
    text: tuple[str, ...] = ()
    """Paragraphs below the heading."""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    refresh_s: int = 0
    """Seconds after which a browser loads the page again; 0 for never."""


def fact_texts(facts: Iterable[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    """Pairs (label, text) of the facts, for `Section.facts`; `number` formats each value."""
    return tuple((label, number(value)) for label, value in facts)


def frame_table(
    frame: pl.DataFrame,
    headings: Mapping[str, str],
    best: Callable[[pl.Series], float | None] = lambda _: None,
    note: str = "",
) -> Table:
    """Table of a frame: one row per row of the frame, columns in the order of `headings`, cells by `text_of`.

    Parameters
    ----------
    headings : heading by column name; names that the frame lacks are skipped
    best : function from a column to its best value, None to mark no cell; every cell equal to it is marked
    """
    present = [name for name in headings if name in frame.columns]
    columns = [_cells(frame[name], best(frame[name]), text_of(name)) for name in present]
    return Table(tuple(headings[name] for name in present), tuple(zip(*columns, strict=True)), note)


def without_constants(table: Table) -> Table:
    """The table without its `constant_columns`, which are in the note instead."""
    constant = constant_columns([[cell.text for cell in row] for row in table.rows])
    if not constant:
        return table
    same = ", ".join(f"{table.columns[index]} {table.rows[0][index].text}" for index in constant)
    others = [index for index in range(len(table.columns)) if index not in constant]
    return Table(
        tuple(table.columns[index] for index in others),
        tuple(tuple(row[index] for index in others) for row in table.rows),
        f"{table.note} In all rows: {same}.".lstrip(),
    )


def render(page: Page) -> bytes:
    """HTML of the page in UTF-8.

    All texts are escaped, except `Picture.svg`; so are characters that control a terminal or hide others.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("ray_sim.reports"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (files("ray_sim.reports") / "templates" / "charts.js").read_text(encoding="utf-8")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    used = Markup(script) if any(section.charts for section in page.sections) else ""
    template = environment.get_template("report.html")
    return template.render(page=page, script=used, script_sha256=allowed).encode()


def _visible(value: object) -> object:
    """A text as `ray_sim.model.text.shown` has it; markup of our own stays."""
    return value if hasattr(value, "__html__") else shown(value, lines=True)


def _cells(values: pl.Series, best: float | None, text: Callable[[Any], str]) -> list[Cell]:
    is_number = values.dtype.is_numeric()
    return [Cell(text(value), is_number, best is not None and value == best) for value in values]


MOST_POINTS = 1500
"""Largest number of points of a line in a page."""

Line = tuple[FloatArray, FloatArray]
"""Times in seconds of the workload, increasing, and values; NaN where there is none."""


def line_chart(caption: str, unit: str, lines: Mapping[str, Line], *, focus_s: float | None = None) -> Chart:
    """Step lines over time by name, whose values are in `unit`.

    `focus_s` ends the interesting part, e.g. the last submission; a long rest is out of view at first.
    """
    series = [{"name": shown(name), **line_points(line)} for name, line in lines.items()]
    return Chart(caption, {**STEPS, "x": "time", "y_title": unit, "focus_s": focus_s, "series": series})


STEPS: Mapping[str, object] = {"kind": "lines", "note": "", "x_title": ""}
"""What the script reads of a chart of step lines, beside its lines and their axes."""


def timeline_to_end(timeline: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The timeline with a row at the end of the run, where jobs wait or hold servers after its last event."""
    end_s = last_end_s(jobs)
    last = timeline.tail(1)
    if last.is_empty() or end_s is None or end_s <= last["time_s"][0]:
        return timeline
    return pl.concat([timeline, last.with_columns(time_s=pl.lit(end_s))])


def timeline_lines(timeline: pl.DataFrame, columns: Mapping[str, str]) -> dict[str, Line]:
    """Lines of columns of a timeline by their label; nulls are NaN."""
    time_s = timeline["time_s"].to_numpy()
    return {
        label: (time_s, timeline[column].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        for column, label in columns.items()
    }


def line_points(line: Line, most: int = MOST_POINTS) -> dict[str, object]:
    """At most so many points of a line that keep its shape."""
    time_s, values = line
    kept = thin_steps(time_s, np.nan_to_num(values, nan=-np.inf), most)
    return {
        "x": np.round(time_s[kept], 3).tolist(),
        "y": [None if np.isnan(value) else float(f"{value:.6g}") for value in values[kept].tolist()],
    }
