"""Page of an arena: a table and a picture for each question, what knowledge is worth, and what holds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from ray_sim.model.readable import in_seconds, number, text_of
from ray_sim.reports.arena import LEVEL_WITH_BEST, QUESTIONS, Question
from ray_sim.reports.compare import completion_notes
from ray_sim.reports.page import Cell, Page, Picture, Section, Table, frame_table, number_cell
from ray_sim.reports.plots import heat_map_svg

MOST_NAMES = 4
"""Number of policies that a cell of a table of the best names; the rest are counted."""
MOST_CONCLUSIONS = 20
"""Number of conclusions that a table of the page has; all are in the command's JSON."""

_TITLES = {question.key: question.title for question in QUESTIONS}


def arena_page(
    name: str,
    scores: pl.DataFrame,
    planned: Mapping[str, int],
    changed: Collection[str],
    standings: pl.DataFrame,
    knowledge: pl.DataFrame,
    conclusions: pl.DataFrame,
    knows: Mapping[str, str],
) -> Page:
    """Build the page; frames as in `ray_sim.reports.arena`.

    `planned` are numbers of runs, finished or not. Tables of places that are changed, which change an
    assumption of another place, follow those of the others. `knows` is what each policy is told.
    """
    changes = pl.col("place").is_in(list(changed))
    parts = [part for part in (standings.filter(~changes), standings.filter(changes)) if part.height]
    told = tuple((Cell(policy), Cell(what)) for policy, what in knows.items())
    return Page(
        title=f"Who is best where: {name}",
        subtitle=f"{scores.height:,} of {sum(planned.values()):,} runs",
        sections=(
            *_missing(missing_runs(scores, planned), planned),
            Section("Who is best where", tables=tuple(best_table(part, most=MOST_NAMES) for part in parts)),
            *_completions(scores),
            *(_question(question, parts) for question in QUESTIONS),
            Section("What the policies are told", tables=(Table(("policy", "is told"), told),)),
            Section("What knowledge is worth", tables=(_knowledge(knowledge),)),
            Section("Conclusions under changed assumptions", tables=_conclusions(conclusions)),
        ),
    )


def best_table(
    standings: pl.DataFrame, questions: Sequence[Question] = QUESTIONS, most: int | None = None
) -> Table:
    """The best policies of each place by question, and those level with them; a cell names at most `most`."""
    rows = []
    for (place,), here in standings.group_by("place", maintain_order=True):
        cells = [Cell(str(place))]
        for question in questions:
            level = here.filter(pl.col("question") == question.key, pl.col("verdict").is_in(LEVEL_WITH_BEST))
            names = level.sort("rank")["policy"].to_list()
            rest = "" if most is None or len(names) <= most else f" and {len(names) - most} more"
            cells.append(Cell((", ".join(names[:most]) or "-") + rest))
        rows.append(tuple(cells))
    return Table(
        ("place", *(question.title for question in questions)),
        tuple(rows),
        note="The best mean first, then policies whose difference to it is not significant (5 % after Holm).",
    )


def _completions(scores: pl.DataFrame) -> tuple[Section, ...]:
    """Remarks on the places whose policies complete different numbers of jobs."""
    notes: dict[str, str] = completion_notes(
        scores.select("place", "policy", "seed", "completed").iter_rows()
    )
    facts = tuple(notes.items())
    return (Section("Jobs that did not complete", facts=facts),) if facts else ()


def _question(question: Question, parts: Sequence[pl.DataFrame]) -> Section:
    tables, pictures = [], []
    for number_of_part, part in enumerate(parts):
        here = part.filter(question=question.key)
        places = here["place"].unique(maintain_order=True).to_list()
        policies = here["policy"].unique(maintain_order=True).to_list()
        by_key = {(row["place"], row["policy"]): row for row in here.iter_rows(named=True)}
        rows = [
            (
                Cell(policy),
                *(_cell(by_key.get((place, policy)), question) for place in places),
                _gap_cell(here, policy),
            )
            for policy in policies
        ]
        tables.append(Table(("policy", *places, "gap to the bound"), tuple(rows), _note(question)))
        ratios = {
            policy: [_ratio(by_key.get((place, policy)), question) for place in places] for policy in policies
        }
        if any(ratio for row in ratios.values() for ratio in row):
            svg = heat_map_svg(ratios, places, f"arena-{question.key}-{number_of_part}")
            caption = f"{question.title}: how many times worse than the best of the place"
            pictures.append(Picture(svg, caption, whole=True))
    return Section(question.title, tables=tuple(tables), pictures=tuple(pictures))


def _note(question: Question) -> str:
    direction = "lower" if question.lower else "higher"
    unit = "" if in_seconds(question.key) else f" in {question.unit}"
    note = f"Mean over seeds{unit}, {direction} is better; in brackets the rank."
    note += " The best and those level with it are marked."
    if question.of_completed:
        note += " A policy without a rank completes fewer jobs than others."
    return note


def _cell(row: Mapping[str, object] | None, question: Question) -> Cell:
    if row is None or not isinstance(mean := row["mean"], float):
        return number_cell(None)
    rank = "" if row["rank"] is None else f" ({row['rank']})"
    return number_cell(f"{text_of(question.key)(mean)}{rank}", best=row["verdict"] in LEVEL_WITH_BEST)


def _gap_cell(here: pl.DataFrame, policy: str) -> Cell:
    """Range of the gaps of a policy over the places."""
    gaps = here.filter(policy=policy)["gap"].drop_nulls().to_list()
    return number_cell(f"{number(min(gaps))} to {number(max(gaps))}" if gaps else None)


def _ratio(row: Mapping[str, object] | None, question: Question) -> float | None:
    """Ratio of a policy's mean to the best mean of the place, at least 1; None if the policy has no rank."""
    if row is None or row["rank"] is None or not isinstance(percent := row["percent_to_best"], float):
        return None
    ratio = 1 + percent / 100
    if question.lower:
        return max(ratio, 1.0)
    return max(1 / ratio, 1.0) if ratio > 0 else None


def _knowledge(knowledge: pl.DataFrame) -> Table:
    shown = knowledge.with_columns(pl.col("question").replace(_TITLES))
    headings = {
        "what": "told of",
        "blind": "without",
        "told": "with",
        "question": "question",
        "place": "place",
        "percent": "change in %",
        "percent_low": "low",
        "percent_high": "high",
        "verdict": "verdict",
    }
    note = (
        "The same policy, or the same rule, with and without the knowledge, paired by seed; 95 % intervals."
    )
    return frame_table(shown, headings, note=note)


def _conclusions(conclusions: pl.DataFrame) -> tuple[Table, ...]:
    """Conclusions that hold in all variants, and those that do not, the largest differences first."""
    holding = conclusions.filter(pl.col("holds"))
    others = conclusions.filter(~pl.col("holds"))
    largest = pl.col("percent").abs()
    hold = f"{holding.height} of {conclusions.height} differences hold in all variants that compare them."
    turn = f"{others.height} do not: in a variant they turn round, or are not significant."
    return (
        _listed(holding.sort(largest, descending=True), hold),
        _listed(others.sort(pl.col("turns_in").list.len(), largest, descending=True), turn),
    )


def _listed(conclusions: pl.DataFrame, note: str) -> Table:
    shown = conclusions.head(MOST_CONCLUSIONS).with_columns(
        pl.col("question").replace(_TITLES), pl.col("fades_in", "turns_in", "absent_in").list.join(", ")
    )
    headings = {
        "question": "question",
        "better": "better",
        "worse": "than",
        "percent": "in %",
        "fades_in": "not significant in",
        "turns_in": "turns in",
        "absent_in": "not compared in",
    }
    return frame_table(shown, headings, note=note)


def missing_runs(scores: pl.DataFrame, planned: Mapping[str, int]) -> dict[str, int]:
    """Number of planned runs without a score, by place; places with all of their runs are left out."""
    finished = dict(scores.group_by("place").len().iter_rows())
    missing = {place: runs - finished.get(place, 0) for place, runs in planned.items()}
    return {place: runs for place, runs in missing.items() if runs}


def _missing(missing: Mapping[str, int], planned: Mapping[str, int]) -> tuple[Section, ...]:
    if not missing:
        return ()
    rows = tuple(
        (Cell(place), number_cell(runs), number_cell(planned[place])) for place, runs in missing.items()
    )
    note = "Ranks at these places compare the finished runs only; --resume runs the others."
    return (
        Section("Places with missing runs", tables=(Table(("place", "missing", "planned"), rows, note),)),
    )
