"""Results of reproduced figures, and their page: of each the answer, a plot, numbers and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ray_sim.model.readable import first_and_others, number
from ray_sim.reports.curves import Axis, Curves, Point, curves_svg
from ray_sim.reports.page import Cell, Page, Picture, Section, Table, number_cell
from ray_sim.reports.shape_samples import X
from ray_sim.reports.shapes import JudgedCheck, ShapeVerdict
from ray_sim.reports.statistics import interval_text


@dataclass(frozen=True, slots=True)
class FigureChoice:
    """A choice that the paper does not fix: the value of the figure, and its alternatives."""

    id: str
    ours: str
    source: str
    """Source of the doubt."""
    alternatives: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FigureResult:
    """A figure on our runs. Without verdicts if it is quick or has no runs."""

    name: str
    given: str
    """Text that names it on the command line."""
    title: str
    source: str
    x: Axis
    y: Axis
    xs: tuple[X, ...]
    series: tuple[str, ...]
    points: tuple[Point, ...]
    checks: tuple[JudgedCheck, ...]
    facts: tuple[str, ...]
    """Numbers of the paper that are not points."""
    planned: int
    """Number of runs of the figure."""
    done: int
    missing: Mapping[str, str]
    """Where each file comes from that is not here, by name; the figure did not run if there is any."""
    choices: tuple[FigureChoice, ...] = ()
    error: str | None = None
    """Why the figure cannot be judged."""
    completions: str | None = None
    """Remark on series that complete different numbers of jobs at the same x; null where there are none."""

    @property
    def curves(self) -> Curves:
        """Its plot."""
        return Curves(self.x, self.y, self.xs, self.series, self.points)

    @property
    def off_scale(self) -> tuple[Point, ...]:
        """Points at or below 0 on a logarithmic axis, which has no place for them."""
        return tuple(
            point
            for point in self.points
            if (self.y.log and point.mean <= 0)
            or (self.x.log and isinstance(point.x, int | float) and point.x <= 0)
        )

    @property
    def coinciding(self) -> tuple[tuple[str, ...], ...]:
        """Groups of two and more series with the same mean at every x, so that one curve hides the others."""
        same: dict[frozenset[tuple[X, float]], list[str]] = {}
        for series in self.series:
            curve = frozenset((point.x, point.mean) for point in self.points if point.series == series)
            if curve:
                same.setdefault(curve, []).append(series)
        return tuple(tuple(group) for group in same.values() if len(group) > 1)

    def count(self, verdict: ShapeVerdict) -> int:
        """Number of checks with a verdict."""
        return sum(check.verdict is verdict for check in self.checks)

    @property
    def answer(self) -> str:
        """The answer in a sentence or two."""
        if self.missing:
            sources = dict.fromkeys(self.missing.values())
            of = {each: [name for name in self.missing if self.missing[name] == each] for each in sources}
            where = "; ".join(f"{first_and_others(names)}: {source}" for source, names in of.items())
            return f"Not run, as data is missing. {where}"
        if self.error is not None:
            return f"Failed. {self.error}"
        remarks = [f"{self.completions}."] if self.completions else []
        if not self.checks:
            return " ".join([f"{self.done} of {self.planned} runs finished; no verdict.", *remarks])
        parts = [
            f"{verdict.capitalize()}: {'; '.join(names)}."
            for verdict in ShapeVerdict
            if (names := [_with_remark(check) for check in self.checks if check.verdict is verdict])
        ]
        if self.done < self.planned:
            parts.append(f"{self.planned - self.done} of {self.planned} runs are missing.")
        return " ".join([*parts, *remarks])

    @property
    def remark(self) -> str:
        """Remark on data, runs or verdicts that are missing; empty if all are there."""
        if self.missing:
            return f"not run: {first_and_others([*self.missing])} missing"
        if self.error is not None:
            return "failed: see its answer"
        missing = self.planned - self.done
        if missing:
            return f"{missing:,} of {self.planned:,} runs missing"
        return "" if self.checks else "no verdict"

    def to_dict(self) -> dict[str, object]:
        """Plain nested dict for JSON."""
        return {**asdict(self), "answer": self.answer}


def _with_remark(check: JudgedCheck) -> str:
    if check.verdict is ShapeVerdict.DEPENDS:
        return f"{check.name} ({', '.join(check.turned_by)})"
    if check.verdict is not ShapeVerdict.UNDECIDED:
        return check.name
    return f"{check.name} ({check.seeds} seeds; {seeds_text(check.seeds_needed)})"


def seeds_text(needed: int | None) -> str:
    """Number of seeds that would decide a check, in words."""
    return "no number of seeds is known to decide it" if needed is None else f"{needed:,} would decide it"


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
        return (Cell(name), *map(number_cell, counts), Cell(remark))

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
            number_cell(" / ".join(map(number, each.means)) or None),
            number_cell(each.estimate),
            number_cell(interval_text(each.interval, each.seeds)),
            number_cell(each.seeds),
            number_cell(each.p_holm),
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
    drawn = [Picture(curves_svg(result.curves, f"figure-{index}"), _caption(result))] if result.points else []
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
            begin = map(Cell, (choice.id, choice.ours, name))
            rows.append((*begin, *map(number_cell, counts), Cell(choice.source)))
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
    rows = []
    for point in result.points:
        interval = interval_text(point.interval, point.seeds)
        numbers = (point.x, point.mean, interval, point.seeds, point.published)
        rows.append((Cell(point.series), *map(number_cell, numbers)))
    columns = ("series", result.x.title, result.y.title, "95 % interval", "seeds", "published")
    return Table(columns, tuple(rows))
