"""HTML report in one self-contained file: sections of facts, tables and pictures.

The reports build a `Page` and pass it to `render`. The template ``report.html`` reads the fields of `Page`,
`Section`, `Table`, `Cell` and `Picture` by name: rename a field in both. An unknown field raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ray_sim.model.text import shown
from ray_sim.reports.text import number

Facts = Sequence[tuple[str, object]]
"""Pairs (label, value) of a section, in the order shown; `fact_texts` formats the values."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table; `best` marks it as the best of its column."""

    text: str
    is_number: bool = False
    best: bool = False


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
class Section:
    """A part of the page under a heading; collapsed if `folded`."""

    heading: str
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    folded: bool = False
    text: tuple[str, ...] = ()
    """Paragraphs below the heading."""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]


def fact_texts(facts: Iterable[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    """Pairs (label, text) of the facts, for `Section.facts`; `number` formats each value."""
    return tuple((label, number(value)) for label, value in facts)


def frame_table(
    frame: pl.DataFrame,
    headings: Mapping[str, str],
    best: Callable[[pl.Series], float | None] = lambda _: None,
    note: str = "",
) -> Table:
    """Table of a frame: one row per row of the frame, columns in the order of `headings`.

    Parameters
    ----------
    headings : heading by column name; names that the frame lacks are skipped
    best : function from a column to its best value, None to mark no cell; every cell equal to it is marked
    """
    present = [name for name in headings if name in frame.columns]
    columns = [_cells(frame[name], best(frame[name])) for name in present]
    return Table(
        tuple(headings[name] for name in present), tuple(zip(*columns, strict=True)) if columns else (), note
    )


def render(page: Page) -> bytes:
    """HTML of the page in UTF-8.

    All texts are escaped, except `Picture.svg`; so are characters that control a terminal or hide others.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ray_sim.reports"),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(page=page).encode()


def _visible(value: object) -> object:
    """A text as `ray_sim.model.text.shown` has it; markup of our own stays."""
    return value if hasattr(value, "__html__") else shown(value, lines=True)


def _cells(values: pl.Series, best: float | None) -> list[Cell]:
    is_number = values.dtype.is_numeric()
    return [Cell(number(value), is_number, best is not None and value == best) for value in values]
