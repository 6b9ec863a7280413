"""Page of reproduced figures: the answer to each, its plot, our numbers and the paper's, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ray_sim.model.readable import number
from ray_sim.reports.figure_plot import figure_svg
from ray_sim.reports.figure_result import FigureResult, seeds_text
from ray_sim.reports.interval_text import interval_text
from ray_sim.reports.page import Cell, Page, Picture, Section, Table
from ray_sim.reports.shapes import JudgedCheck, ShapeVerdict

_UNDER = tuple(each for each in ShapeVerdict if each is not ShapeVerdict.DEPENDS)
"""Verdicts under an alternative."""

RULE = (
    "Values are paired by seed. A comparison counts if its sign-flip test, after Holm's correction over the "
    "check, gives p of at most 5 % and the 95 % interval leaves out the end of the statement."
)
"""Rule of the verdict in one paragraph."""


def figures_page(results: Sequence[FigureResult]) -> Page:
    """Build the page of these figures, in order."""
    done, planned = sum(each.done for each in results), sum(each.planned for each in results)
    figures = "1 figure" if len(results) == 1 else f"{len(results)} figures"
    return Page(
        title="Published figures on our runs",
        subtitle=f"{figures}, {done:,} of {planned:,} runs",
        sections=(
            Section("Verdicts", tables=(verdict_table(results),)),
            *(_figure(index, each) for index, each in enumerate(results)),
        ),
    )


def verdict_table(results: Sequence[FigureResult]) -> Table:
    """One row per figure: its checks by verdict, and a remark on missing runs or data; then their sums."""

    def row(name: str, counts: Iterable[int], remark: str) -> tuple[Cell, ...]:
        return (Cell(name), *(Cell(number(count), is_number=True) for count in counts), Cell(remark))

    rows = [
        row(each.name, (each.count(verdict) for verdict in ShapeVerdict), each.remark) for each in results
    ]
    if len(results) > 1:
        sums = (sum(each.count(verdict) for each in results) for verdict in ShapeVerdict)
        rows.append(row("all", sums, ""))
    return Table(("figure", *(str(verdict) for verdict in ShapeVerdict), "remark"), tuple(rows))


def check_table(check: JudgedCheck) -> Table:
    """One row per comparison of a check."""
    rows = tuple(
        (
            Cell(each.text),
            Cell(" / ".join(map(number, each.means)) or "-", is_number=True),
            Cell(number(each.estimate), is_number=True),
            Cell(interval_text(each.interval, each.seeds), is_number=True),
            Cell(number(each.seeds), is_number=True),
            Cell(number(each.p_holm), is_number=True),
            Cell(str(each.finding)),
        )
        for each in check.comparisons
    )
    columns = ("comparison", "means", "estimate", "95 % interval", "seeds", "p (Holm)", "statement")
    return Table(columns, rows, note=check_note(check))


def check_note(check: JudgedCheck) -> str:
    """Verdict with the paper's numbers, the seeds that would decide it, what has no test, and the reason."""
    parts = [f"{check.name}: {check.verdict}{', ' if check.turned_by else ''}{', '.join(check.turned_by)}."]
    parts += [
        f"{each.choice}, {each.name}: {each.verdict}."
        for each in check.alternatives
        if each.choice in check.turned_by
    ]
    if check.open_alternatives:
        parts.append(f"Undecided under {check.open_alternatives} of {len(check.alternatives)} alternatives.")
    if check.published is not None:
        parts.append(f"Published: {check.published}.")
    if check.verdict is ShapeVerdict.UNDECIDED:
        parts.append(f"{check.seeds} seeds; {seeds_text(check.seeds_needed)}.")
    if untested := [each.text for each in check.comparisons if each.untested]:
        parts.append(f"Without a test, as a mean to divide by is not above 0: {'; '.join(untested)}.")
    if check.verdict is not ShapeVerdict.APPEARS and check.because is not None:
        parts.append(f"Reason: {check.because}")
    return " ".join(parts)


def _figure(index: int, result: FigureResult) -> Section:
    drawn = [Picture(figure_svg(result, f"figure-{index}"), _caption(result))] if result.points else []
    tables = [_points(result)] if result.points else []
    return Section(
        f"{result.name}: {result.title}",
        text=(result.answer, *([RULE] if result.checks and not index else [])),
        facts=(
            ("source", result.source),
            ("command", f"ray-sim reproduce {result.given}"),
            ("runs", f"{result.done:,} of {result.planned:,}"),
            *(("published", fact) for fact in result.facts),
        ),
        pictures=tuple(drawn),
        pictures_first=True,
        tables=(*tables, *_choices(result), *map(check_table, result.checks)),
    )


def _choices(result: FigureResult) -> list[Table]:
    """One row per alternative of a choice: the statements by their verdict under it."""
    rows = []
    for choice in result.choices:
        for name in choice.alternatives:
            under = [
                found
                for check in result.checks
                for found in check.alternatives
                if (found.choice, found.name) == (choice.id, name)
            ]
            counts = [sum(each.verdict is verdict for each in under) for verdict in _UNDER]
            numbers = (Cell(number(count), is_number=True) for count in counts)
            rows.append((*map(Cell, (choice.id, choice.ours, name)), *numbers, Cell(choice.source)))
    columns = ("choice", "ours", "alternative", *map(str, _UNDER), "source of the doubt")
    return [Table(columns, tuple(rows))] if rows else []


def _caption(result: FigureResult) -> str:
    printed = any(point.published is not None for point in result.points)
    parts = ["Means with 95 % intervals" + ("; hollow markers: published" if printed else "")]
    if hidden := len(result.off_scale):
        parts.append(
            f"{hidden:,} of {len(result.points):,} points are not above 0, so a logarithmic axis lacks them"
        )
    parts += [f"{', '.join(group)}: the same curve" for group in result.coinciding]
    return ". ".join(parts)


def _points(result: FigureResult) -> Table:
    rows = tuple(
        (
            Cell(point.series),
            Cell(number(point.x), is_number=True),
            Cell(number(point.mean), is_number=True),
            Cell(interval_text(point.interval, point.seeds), is_number=True),
            Cell(number(point.seeds), is_number=True),
            Cell(number(point.published), is_number=True),
        )
        for point in result.points
    )
    return Table(("series", result.x.title, result.y.title, "95 % interval", "seeds", "published"), rows)
