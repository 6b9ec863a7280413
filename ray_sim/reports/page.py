"""HTML report in one self-contained file: sections of facts, tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from ray_sim.reports.text import number

Facts = Sequence[tuple[str, object]]
"""Labels and values of a section."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table."""

    text: str
    is_number: bool = False
    best: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `note` appears below it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG element, inserted without escaping, and its description."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page under a heading; collapsed if `folded`."""

    heading: str
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]


def fact_texts(facts: Iterable[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    """Facts as texts of the page."""
    return tuple((label, number(value)) for label, value in facts)


def frame_table(
    frame: pl.DataFrame,
    headings: Mapping[str, str],
    best: Callable[[pl.Series], float | None] = lambda _: None,
    note: str = "",
) -> Table:
    """Table of a frame's columns under the given headings; columns that the frame lacks are left out.

    Parameters
    ----------
    best : value of a column to mark, if any
    """
    shown = [name for name in headings if name in frame.columns]
    columns = [_cells(frame[name], best(frame[name])) for name in shown]
    return Table(
        tuple(headings[name] for name in shown), tuple(zip(*columns, strict=True)) if columns else (), note
    )


def render(page: Page) -> bytes:
    """Render the page as HTML; texts are escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ray_sim.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(page=page).encode()


def _cells(values: pl.Series, best: float | None) -> list[Cell]:
    is_number = values.dtype.is_numeric()
    return [Cell(number(value), is_number, best is not None and value == best) for value in values]
