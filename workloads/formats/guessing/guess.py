"""Guess the mapping of unknown tables from names and values; called by `ray-sim convert --guess`.

Nothing is guessed silently: each entry has its evidence, and what the evidence does not decide is a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import polars as pl
from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from workloads.formats.guessing.names import INSTANTS, Said, said_by, words_of
from workloads.formats.guessing.proposal import Proposal
from workloads.formats.guessing.reading import add_reading
from workloads.formats.guessing.values import (
    SECONDS,
    Read,
    absent_words,
    amounts,
    instants,
    lengths,
    numbers,
    share,
)
from workloads.formats.tables.expressions import quoted
from workloads.formats.tables.files import open_table
from workloads.formats.tables.mapping import ColumnMapping, parse_mapping, require_fit
from workloads.formats.tables.table import REQUIRED, read
from workloads.formats.text import BLANK_WORDS, TableSource, collect_text
from workloads.progress import Meter, silent
from workloads.rows import height
from workloads.schema import BY_NAME
from workloads.status import ENDED, UNDECIDED
from workloads.trace_format import ConvertOptions

_PART = 2000
"""Records of the head, the middle and the tail of a file."""

_LEAST = 0.5
"""Share of a column's values that must read as its name says."""

_ALIKE = 0.95
"""Share of the rows by which two columns say the same."""

_STEP = r"\.(batch|extern|interactive|[0-9]+)$"

_NOT_ENDED = (
    *("pending", "running", "suspended", "requeued", "configuring", "completing", "queued", "waiting"),
    *("resizing", "scheduled", "created", "submitted", "starting"),
)

_POWERS = [0.0, *(2.0**power for power in range(11))]
"""Numbers of GPUs by which a column is known whose name says nothing."""


@dataclass(frozen=True, slots=True)
class Guess:
    """What tables are taken for."""

    preset: str | None
    """The preset that they fit; None where there is none."""
    proposal: Proposal
    rows: int
    """Rows that were looked at."""
    told: list[str]
    """Their columns that are read."""
    left: list[str]
    """Their columns that are not."""

    @property
    def missing(self) -> list[str]:
        """Required columns that are not found."""
        found = {ours for ours, *_ in self.proposal.rows()}
        return [name for name in REQUIRED if name not in found]


def guess_mapping(
    paths: Sequence[Path], folder: Path, time_zone: str | None, presets: Mapping[str, Path]
) -> Guess:
    """What tables of one kind are taken for.

    Parameters
    ----------
    folder : for copies of packed and recoded files
    time_zone : of dates without an offset from UTC; None if unknown, which is a doubt
    presets : mapping files by name, one of which the tables may fit

    Raises
    ------
    InvalidWorkloadError : a file is missing, unreadable, or of no form of records
    """
    proposal = Proposal()
    add_reading(proposal, paths[0], folder)
    found = proposal.mapping.read
    for name, path in presets.items():
        mapping = parse_mapping(path)[0]
        form = mapping.read.separator or ",", len(mapping.read.header or ()), mapping.read.records
        alike = form == (found.separator or ",", len(found.header or ()), found.records)
        if alike and (sources := _fitting(path, mapping, paths, folder)):
            one = _Guess(_sample(sources), Proposal(), time_zone)
            one.take_over(name, mapping.fitted(sources), sources[0])
            return one.result(name)
    one = _Guess(_sample([open_table(path, found, folder) for path in paths]), proposal, time_zone)
    one.decide()
    return one.result(None)


def _fitting(path: Path, preset: ColumnMapping, paths: Sequence[Path], folder: Path) -> list[TableSource]:
    """The tables, where they have what a preset reads, and it can read most rows; empty where not."""
    try:
        sources = [open_table(each, preset.read, folder) for each in paths]
        mapping = preset.fitted(sources)
        require_fit(mapping, [], path, sources)
        meter = Meter({each: each.name for each in paths}, silent)
        tried = read(paths, ConvertOptions(), folder, meter, preset=path, first=_PART)
    except (InvalidInputError, InvalidWorkloadError):
        return []
    frame = _sample(sources)
    words = [(column, [*cell.values]) for column, cell in mapping.cells.items() if cell.values]
    known = all(frame[column].is_in(texts).any() for column, texts in words)
    sound = height(tried.jobs) + sum(tried.left_out.values()) >= _LEAST * tried.read
    return sources if known and sound else []


def _sample(sources: Sequence[TableSource]) -> pl.DataFrame:
    """Texts of head, middle and tail of each file, in the columns that all have."""
    common = [name for name in sources[0].header if all(name in each.header for each in sources)]
    wanted = {f"text {place}": name for place, name in enumerate(common)}
    parts = []
    for source in sources:
        rows, first = source.rows(wanted), source.first_line
        last = collect_text(source.path, rows.select(pl.col("line").max()))["line"].item() or 0
        begins = (first, (first + last - _PART) // 2, last - _PART + 1)
        near = pl.any_horizontal(pl.col("line").is_between(begin, begin + _PART - 1) for begin in begins)
        chosen = collect_text(source.path, rows.filter(near & pl.col("fault").is_null()))
        parts.append(chosen.select(pl.col(text).alias(name) for text, name in wanted.items()))
    return pl.concat(parts)


class _Taken(NamedTuple):
    """A column of theirs for one of ours, or for an instant."""

    name: str
    said: Said
    read: Read


class _Guess:
    """One pass over our columns, each of which takes one of theirs."""

    def __init__(self, frame: pl.DataFrame, proposal: Proposal, time_zone: str | None) -> None:
        self._raw, self._proposal, self._zone = frame, proposal, time_zone
        self._texts = {each.name: each.set(each.is_in(BLANK_WORDS), None) for each in frame}
        self._said = {name: [*said_by(name)] for name in frame.columns if not re.search(r"[*\[`]", name)}
        self._used: set[str] = set()
        self._at: dict[str, _Taken] = {}
        self._decimal = "."

    def result(self, preset: str | None) -> Guess:
        told = [name for name in self._raw.columns if name in self._used]
        left = [name for name in self._raw.columns if name not in self._used]
        return Guess(preset, self._proposal, self._raw.height, told, left)

    def take_over(self, preset: str, mapping: ColumnMapping, source: TableSource) -> None:
        """Propose the entries of a preset that the tables fit."""
        self._used |= mapping.used(source)
        theirs = mapping.columns["submit_s"][0]
        at = _Taken(theirs, Said("submit_s"), instants(self._texts[theirs], "s", "."))
        doubts = {("columns", "submit_s"): self._zone_doubts(at)}
        unsaid = {"about", "optional"}
        content = mapping.model_dump(mode="json", exclude_defaults=True, exclude=unsaid, by_alias=True)
        if words := content.pop("null_values", None):
            self._proposal.add("", "null_values", words, f"preset {preset}")
        for section, entries in content.items():
            named = entries if isinstance(entries, dict) else {str(each): each for each in entries}
            for key, value in named.items():
                why = f"preset {preset}"
                if section == "columns" and value in self._raw.columns:
                    texts = self._raw[value].drop_nulls()
                    many = f"in {len(texts):,} of {self._raw.height:,} rows"
                    why += f", such as {next(iter(texts), '')}; {many}"
                text = value["expression"] if section == "derived" else value
                dated = (section, key) in doubts and at.read.dated in ("date", "local")
                unsure = doubts.get((section, key), ())
                self._proposal.add(section, key, text, why, *unsure, dated=dated)

    def decide(self) -> None:
        """Propose an entry for each of our columns that is found."""
        self._decide_decimal()
        for role in INSTANTS:
            if found := self._take(role):
                self._at[role] = found
        if not self._at:
            self._take_dates_by_values()
        if at := self._at.get("submit_s") or self._at.get("start"):
            start = ["the start is taken for the submission, as there is none"]
            self._add("submit_s", at, *self._zone_doubts(at), *(start if "submit_s" not in self._at else []))
        self._add_run_time()
        if "wait_s" not in self._raw.columns and self._between("start", "submit_s") is not None:
            self._add_difference("wait_s", "start", "submit_s")
        tasks = self._add_gpus()
        for ours in ("cpu_per_task", "memory_gib_per_task"):
            self._add_demand(ours, tasks)
        self._add_status()
        self._add_ids()
        for ours in ("user", "vc"):
            if found := self._take(ours):
                self._add(ours, found)
        for name in self._raw.columns:
            if name in BY_NAME and name not in self._used:
                self._used.add(name)
                self._proposal.add("columns", name, name, "the name is ours")

    def _decide_decimal(self) -> None:
        """Propose a decimal comma, where some number has one that separates no thousands."""
        plain, comma, sure = r"^-?[0-9]+(,[0-9]+)?$", ",", r"^-?0,|,([0-9]{1,2}|[0-9]{4,})$|[0-9]{4,},"
        whole = [each for each in self._texts.values() if each.drop_nulls().str.contains(plain).all()]
        found = {each.name: each.filter(each.str.contains(comma).fill_null(value=False)) for each in whole}
        certain = [name for name, texts in found.items() if texts.str.contains(sure).any()]
        if certain:
            self._decimal = ","
            others = [name for name, texts in found.items() if len(texts) and name not in certain]
            doubts = [f"may {name} have thousands, as in {found[name][0]}?" for name in others]
            why = f"such as {found[certain[0]][0]} in {certain[0]}"
            self._proposal.add("read", "decimal", ",", why, *doubts)

    def _take(self, role: str) -> _Taken | None:
        """The first column that a role's name names, and whose values read as such."""
        named = [(name, said) for name, found in self._said.items() for said in found if said.role == role]
        for name, said in sorted(named, key=lambda each: not each[1].sure):
            if name not in self._used and self._texts[name].count():
                found = self._read(role, name, said)
                if share(found.read.values, self._texts[name]) >= _LEAST:
                    self._used.add(name)
                    return found
        return None

    def _read(self, role: str, name: str, said: Said) -> _Taken:
        """Values of a column, without its own words for an absent value."""
        column = BY_NAME.get(role)
        if column is not None and not column.is_number:
            times = self._texts[name].str.contains(r"^-?[0-9]+\.[0-9]+$")  # such as waits in a column `queue`
            return _Taken(name, said, Read(_where(~times), "texts"))
        reader = instants if role in INSTANTS or column is None else lengths
        if reader is lengths and column is not None and column.unit != "s":
            reader = partial(amounts, dimension=column.unit)
        words = absent_words(self._raw[name], numbers(self._raw[name], self._decimal))
        found = reader(self._texts[name], said.unit, self._decimal)
        if found.dated == "epoch":  # 0 is no job of 1970
            words += sorted({*self._texts[name].filter(found.values == 0)})
        if words:
            self._texts[name] = self._texts[name].set(self._raw[name].is_in(words), None)
            found = reader(self._texts[name], said.unit, self._decimal)
        absent: dict[str, JsonValue] = {"null_values": [*words]} if words else {}
        return _Taken(name, said, found._replace(cell=found.cell | absent))

    def _add(self, ours: str, taken: _Taken, *doubts: str) -> None:
        """Propose a column, with its unit and its cells."""
        name, _, found = taken
        sound = self._texts[name].filter(found.values.is_not_null())
        why = f"{found.said}, such as {next(iter(sound), '')}; {len(sound):,} of {self._raw.height:,} rows"
        dated = found.dated in ("date", "local")
        self._proposal.add("columns", ours, name, why, *found.doubts, *doubts, dated=dated)
        self._add_reading(ours, taken)

    def _add_reading(self, ours: str, *taken: _Taken) -> None:
        """Propose the unit and the cells of what one of our columns is read from."""
        for name, _, found in taken:
            if found.unit is not None and found.unit != BY_NAME[ours].unit.lower():
                self._proposal.add("units", ours, found.unit, found.said)
            if found.cell:
                self._proposal.add("cells", name, found.cell, found.said)

    def _zone_doubts(self, at: _Taken) -> list[str]:
        """Propose the zone of dates, or doubt it where they have no offset."""
        if self._zone is not None:
            self._proposal.add("", "time_zone", self._zone, "as given")
        elif at.read.dated == "local" and "utc" not in words_of(at.name):
            return ["dates have no offset from UTC and are read as UTC; say their zone with --time-zone"]
        return []

    def _take_dates_by_values(self) -> None:
        """Take columns of dates whose names say nothing for instants, in the order of their times."""
        unnamed = [self._read("at", name, Said("at")) for name, said in self._said.items() if not said]
        sure = [each for each in unnamed if each.read.dated and not each.read.doubts]
        dated = [each for each in sure if share(each.read.values, self._texts[each.name]) >= _ALIKE]
        dated.sort(key=lambda each: float(each.read.values.sum()) / each.read.values.count())
        roles = INSTANTS[-len(dated) :] if 1 < len(dated) <= len(INSTANTS) else INSTANTS[:1]
        for role, taken in zip(roles, dated, strict=False):
            self._used.add(taken.name)
            doubts = (f"column {taken.name} is taken for {role} by its values only",)
            self._at[role] = taken._replace(read=taken.read._replace(doubts=doubts))

    def _between(self, late: str, early: str) -> pl.Series | None:
        """Seconds between two instants of one kind; None without them."""
        if late not in self._at or early not in self._at:
            return None
        a, b = self._at[late].read, self._at[early].read
        return a.values - b.values if (a.dated, a.unit) == (b.dated, b.unit) else None

    def _unsure(self, *roles: str) -> list[str]:
        """Doubts of instants besides the submission's, which has them itself."""
        reads = [self._at[role].read for role in roles if role != "submit_s"]
        return [*dict.fromkeys(doubt for found in reads for doubt in found.doubts)]

    def _add_difference(self, ours: str, late: str, early: str, *doubts: str) -> None:
        """Propose the time between two instants."""
        between = self._between(late, early)
        assert between is not None
        text = f"{quoted(self._at[late].name)} - {quoted(self._at[early].name)}"
        sample, count = next(iter(between.drop_nulls()), 0.0), int((between >= 0).sum())
        why = f"{late} - {early}, such as {sample:,.10g} s; {count:,} of {self._raw.height:,} rows"
        self._proposal.add("derived", ours, text, why, *doubts, *self._unsure(late, early))
        self._add_reading(ours, self._at[late], self._at[early])

    def _add_run_time(self) -> None:
        """Propose the run time: end - start, or a column, which may contain the queue."""
        ran, whole = self._between("end", "start"), self._between("end", "submit_s")
        taken = self._take("duration_s")
        if taken is None and ran is None and whole is None:
            taken = self._by_values("duration_s", "s")
        unit = None if taken is None or ran is None else _same(taken.read, ran)
        queued = []
        if taken is not None and whole is not None and unit is None and _same(taken.read, whole):
            queued = [f"{taken.name} equals end - submission: it contains the queue"]
        if ran is not None and (taken is None or queued):
            self._add_difference("duration_s", "end", "start", *queued)
        elif taken is None and whole is not None:
            text = "no column has the start: contains the time in the queue"
            self._add_difference("duration_s", "end", "submit_s", text)
        elif taken is not None and unit is not None:
            doubts = [] if taken.said.unit == unit else self._unsure("end", "start")
            if taken.said.unit not in (None, unit):
                doubts.append(f"the name says {taken.said.unit}, but in {unit} it equals end - start")
            found = taken.read._replace(unit=unit, doubts=(), said=f"equal to end - start in {unit}")
            self._add("duration_s", taken._replace(read=found), *doubts)
        elif taken is not None:
            doubts = [] if ran is None else ["is neither end - start nor end - submission"]
            self._add("duration_s", taken, *doubts, *queued)

    def _add_gpus(self) -> pl.Series | None:
        """Propose tasks and GPUs; returns the tasks of each row, None where they are unknown."""
        tasks = self._take("num_tasks")
        count = None if tasks is None else tasks.read.values
        if tasks is not None:
            self._add("num_tasks", tasks)
        taken = self._take("num_gpus")
        if taken is None and self._add_tres():
            return count
        if taken is None and (taken := self._by_values("num_gpus", "gpu")) is None:
            return count
        name, said, found = taken
        doubts, per_task = [], said.whole is False
        if per_task and tasks is None:
            doubts.append(f"{name} is that of a task, and no column has the tasks")
        if count is not None and (count > 1).any() and said.whole is None:
            per_task = bool((found.values % count > 0).any())
            if per_task or name != "num_gpus":
                doubts.append(
                    f"is {name} of the job, or of a task? Taken as of {'a task' if per_task else 'the job'}"
                )
        if blank := self._texts[name].null_count():
            doubts.append(f"blank in {blank:,} rows, which are taken as 0")
            taken = taken._replace(read=found._replace(cell={**found.cell, "default": 0}))
        self._add("num_gpus", taken, *doubts)
        if per_task and tasks is not None:
            self._proposal.add("per_task", "num_gpus", "num_gpus", "multiplied by the tasks")
        return found.values if count is None else count

    def _add_tres(self) -> bool:
        """Propose the GPUs of a column of Slurm's trackable resources; False where there is none."""
        for name in self._said:
            rows = self._texts[name].str.contains("gres/gpu=")
            if rows.any():
                why = f"gres/gpu= in {int(rows.sum()):,} of {self._raw.height:,} rows of {name}, 0 in others"
                self._used.add(name)
                self._proposal.add("derived", "num_gpus", "first(gres_gpus, 0)", why)
                pattern: list[JsonValue] = ["(?:^|,)gres/gpu=(?P<gres_gpus>[0-9]+)"]
                self._proposal.add("cells", name, {"pattern": pattern}, why)
                return True
        return False

    def _by_values(self, role: str, unit: str) -> _Taken | None:
        """GPUs (powers of 2) or run times (clocks) of a column whose name says nothing."""
        for name in (name for name, said in self._said.items() if not said and name not in self._used):
            taken = self._read(role, name, Said(role, unit=unit))
            values = taken.read.values.drop_nulls()
            powers = values.is_in(_POWERS).all() and 1 < values.n_unique() < len(values)
            clocks = taken.read.cell.get("as") == "duration"
            if (powers if role == "num_gpus" else clocks) and len(values) == self._texts[name].count() > 0:
                self._used.add(name)
                doubts = (*taken.read.doubts, f"column {name} is taken for {role} by its values only")
                return taken._replace(read=taken.read._replace(doubts=doubts))
        return None

    def _add_demand(self, ours: str, tasks: pl.Series | None) -> None:
        """Propose a demand, of the whole job unless the name says that of a task."""
        if (taken := self._take(ours)) is None:
            return
        several = tasks is None or bool((tasks > 1).any())
        unsure = several and taken.said.whole is None
        text = f"is {taken.name} of the job, or of a task? Taken as of the job, and divided by its tasks"
        doubts = [text] if unsure else []
        if (
            several
            and taken.said.whole is False
            and ours != taken.name
            and ("columns", "num_tasks") not in self._proposal.entries
        ):
            doubts = ["is that of a task; without a column of tasks, a job of n GPUs is n tasks"]
        self._add(ours, taken, *doubts)
        if unsure or taken.said.whole:
            self._proposal.add("per_job", ours, ours, "divided by the tasks")

    def _add_status(self) -> None:
        """Propose the column of words of an end; rows that had not ended are left out."""
        named = [name for name, found in self._said.items() if any(said.role == "status" for said in found)]
        unnamed = [name for name, found in self._said.items() if not found and name not in self._used]
        for name in (*named, *unnamed):
            word = self._texts[name].str.to_lowercase()
            known = word.is_in([*ENDED, *UNDECIDED, *_NOT_ENDED]) | word.str.contains("^cancell?ed by ")
            if share(_where(known), word) < (_ALIKE if name in unnamed else _LEAST / 2):
                continue
            self._used.add(name)
            self._add("status", _Taken(name, Said("status"), Read(_where(known), "words of an end")))
            still = word.is_in(_NOT_ENDED)
            if "end" in self._at:
                still &= self._at["end"].read.values.is_null()
            words = sorted({*word.filter(still).drop_nulls()})
            self._leave_out("not_ended", name, still, f"(?i)^({'|'.join(words)})$")
            return

    def _leave_out(self, what: str, name: str, rows: pl.Series, pattern: str) -> None:
        if rows.any():
            rule = {"left_out": what, "column": name, "matches": pattern}
            self._proposal.add("where", what, {**rule}, f"{int(rows.sum()):,} rows")

    def _add_ids(self) -> None:
        """Propose job_id by names, of several one that hardly repeats; steps of jobs are left out."""
        free = [name for name in self._said if name not in self._used and not self._texts[name].null_count()]
        sure = {name: each.sure for name in free for each in self._said[name] if each.role == "job_id"}
        rows, distinct = self._raw.height, {name: self._texts[name].n_unique() for name in sure}
        named = sorted(sure, key=lambda name: (distinct[name] < _ALIKE * rows, not sure[name]))
        for name in [name for name in named if sure[name] or distinct[name] >= _ALIKE * rows][:1]:
            self._used.add(name)
            texts, whole = self._texts[name], self._raw.unique().height == distinct[name]
            again = not whole and distinct[name] < rows * (_LEAST if sure[name] else 1)
            doubts = ["of rows with one id, one is kept: are they one job?"] if again else []
            found = Read(_where(texts.is_not_null()), f"{distinct[name]:,} values")
            self._add("job_id", _Taken(name, Said("job_id"), found), *doubts)
            steps = texts.str.contains(_STEP) & texts.str.replace(_STEP, "").is_in(texts.implode())
            self._leave_out("step", name, steps, _STEP)


def _where(rows: pl.Series) -> pl.Series:
    """1 in some rows, else null."""
    return rows.cast(pl.Float64).set(~rows.fill_null(value=False), None)


def _same(found: Read, seconds: pl.Series) -> str | None:
    """Unit in which lengths equal those in seconds, the column's own before others; None for none."""
    raw = found.values / SECONDS[found.unit or "s"]
    both = raw.is_not_null() & (seconds >= 0)
    raw, wanted = raw.filter(both), seconds.filter(both)
    total = float(wanted.sum())
    for unit in dict.fromkeys((found.unit or "s", *SECONDS)):
        away = raw * SECONDS[unit] - wanted
        near = int((away.abs() <= SECONDS[unit] + 1).sum()) >= _ALIKE * len(away)
        if total and near and abs(float(away.sum())) <= (1 - _ALIKE) * total:
            return unit
    return None
