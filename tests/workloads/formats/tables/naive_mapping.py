"""Naive twin of mapping files: what docs/mapping.md says of a row, cell by cell in plain Python."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from workloads.formats.tables.mapping import UNITS
from workloads.formats.text import BLANK_WORDS
from workloads.schema import BY_NAME

ENDED = ("COMPLETED", "FAILED")
NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
THOUSANDS = r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?"
DURATIONS = (
    r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)",
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?",
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?",
)
"""Days, hours, minutes, seconds."""


class RejectedError(Exception):
    """The row is rejected; the text is the reason without the column."""


class Value(NamedTuple):
    """A number or date, or what has another number of dates in it, such as the sum of two."""

    first: float
    second: float
    """With a time of the clock that came twice in its second pass."""
    dates: float
    """Dates added, less those taken away; NaN of a product."""


class Outcome(NamedTuple):
    """What becomes of a row: a job, left out under a name, or rejected for one of some reasons."""

    job: dict[str, str | float]
    left_out: str | None = None
    reasons: frozenset[str] = frozenset()


def naive_outcomes(rows: Sequence[Mapping[str, Any]], mapping: Mapping[str, Any]) -> list[Outcome]:
    """What becomes of each row of a table; the cell of a column with a star is a list of texts."""
    outcomes = [_Row(row, mapping).outcome(number) for number, row in enumerate(rows)]
    best: dict[object, int] = {}
    for number, (job, *_) in enumerate(outcomes):
        first = best.setdefault(job.get("job_id"), number)
        if job and first != number and _is_better(mapping["duplicates"], job, outcomes[first].job):
            best[job["job_id"]] = number
    for number in {number for number, each in enumerate(outcomes) if each.job} - {*best.values()}:
        outcomes[number] = Outcome({}, None, frozenset({"duplicate_job_id"}))
    return outcomes


def _is_better(how: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    ranks = [(how == "best" and job.get("status") in ENDED, job["duration_s"]) for job in (new, old)]
    return how == "last" or (how != "first" and ranks[0] > ranks[1])


class _Row:
    """A row of the table, and what the mapping says of it."""

    def __init__(self, row: Mapping[str, Any], mapping: Mapping[str, Any]) -> None:
        self.lists = {column: texts for column, texts in row.items() if isinstance(texts, list)}
        self.row: dict[str, str | None] = {
            column: text.strip(" \t") or None for column, text in row.items() if isinstance(text, str)
        }
        self.columns, self.derived, self.units = mapping["columns"], mapping["derived"], mapping["units"]
        self.cells, self.mapping = mapping["cells"], mapping
        for column, cell in self.cells.items():
            if "pattern" in cell:
                found = re.search(cell["pattern"], self.text(column, ()) or "")
                for group in re.compile(cell["pattern"]).groupindex:
                    self.row[group] = found[group] if found else None

    def outcome(self, number: int) -> Outcome:
        for condition in self.mapping["where"]:
            text = self.text(condition["column"], BLANK_WORDS)
            matched = text is not None and re.search(condition.get("matches", "$^"), text)
            listed = text in [str(word) for word in condition.get("is", [])]
            if listed or matched or ("blank" in condition and text is None):
                return Outcome({}, condition["left_out"])
        job: dict[str, Any] = {"job_id": str(number)}
        reasons = set()
        for ours in [*self.columns, *self.derived]:
            try:
                if ours not in self.derived:
                    job[ours] = self.mapped(ours, self.columns[ours])
                elif isinstance(self.derived[ours], str):
                    job[ours] = self.computed(ours)
                else:
                    job[ours] = self.looked_up(ours)
            except RejectedError as error:
                reasons.add(f"{error}_{ours}")
        job = {ours: value for ours, value in job.items() if value is not None}
        never_null = {"job_id", "submit_s", "duration_s", "num_gpus", *self.mapping["required"]}
        reasons |= {f"missing_{ours}" for ours in never_null - set(job)}
        if "num_gpus" in job:
            self.share_out(job)
        reasons |= {f"{fault}_{ours}" for ours, value in job.items() if (fault := _fault(ours, value))}
        return Outcome({} if reasons else job, None, frozenset(reasons))

    def mapped(self, ours: str, theirs: str) -> str | float | None:
        text = self.text(theirs, BLANK_WORDS if BY_NAME[ours].null else ())
        if text is None or not BY_NAME[ours].is_number:
            return text
        return self.value(text, theirs, ours, dated=ours == "submit_s").first

    def computed(self, ours: str) -> float | None:
        """Value of an expression, in which the columns' names are in backticks."""
        text, unit = self.derived[ours], self.unit(ours)
        cells: dict[str, Any] = {}
        for at, name in enumerate(re.findall(r"`([^`]*)`", text)):
            text = text.replace(f"`{name}`", f"c{at}", 1)
            if "*" in name:
                there = [
                    self.replaced(place.strip(" \t") or None, name, BLANK_WORDS) for place in self.lists[name]
                ]
                counted = f"count(c{at})" in text
                cells[f"c{at}"] = [
                    _number(0) if counted else self.operand(place, name, ours) for place in there if place
                ]
                continue
            cell = self.text(name, BLANK_WORDS)
            cells[f"c{at}"] = None if cell is None else self.operand(cell, name, ours)
        result = _evaluated(ast.parse(text, mode="eval").body, cells)
        if result and result.dates and (ours != "submit_s" or result.dates != 1):
            raise RejectedError("mixed")
        return None if result is None else result.first * (1 if result.dates else unit)

    def looked_up(self, ours: str) -> float | None:
        """Value of a column and an entry of a table."""
        rule = self.derived[ours]
        (how, lookup) = next((key, rule[key]) for key in ("times", "divided_by", "plus") if key in rule)
        entry = lookup["table"]
        for by in lookup["by"]:
            entry = entry.get(self.text(by, ())) if isinstance(entry, dict) else None
        if entry is None:
            raise RejectedError("no_entry")
        number = self.mapped(ours, rule["column"])
        if number is None:
            return None
        ways = {"times": operator.mul, "divided_by": operator.truediv, "plus": operator.add}
        return float(ways[how](number, entry))

    def operand(self, text: str, theirs: str, ours: str) -> Value:
        """A cell in an expression; a place of a list is a date only where the entry says it."""
        cell = self.cells.get(theirs, {})
        dated = theirs in self.row or cell.get("as") == "date" or "time_format" in cell
        value = self.value(text, theirs, ours, dated=dated)
        if not math.isfinite(value.first):
            raise RejectedError("invalid")
        return value if value.dates else _number(value.first / self.unit(ours))

    def text(self, theirs: str, words: Sequence[str]) -> str | None:
        """A cell with absent words, values and default applied."""
        return self.replaced(self.row[theirs], theirs, words)

    def replaced(self, text: str | None, theirs: str, words: Sequence[str]) -> str | None:
        """A text of a cell or place with absent words, values and default applied."""
        cell = self.cells.get(theirs, {})
        values = cell.get("values", {})
        usual = BLANK_WORDS if "default" in cell or "*" in values else words
        absent = cell.get("null_values", set(usual) - set(values))
        text = None if text in absent else text
        if text is not None:
            text = values.get(text, values.get("*", text))
        return str(cell["default"]) if text is None and "default" in cell else text

    def unit(self, ours: str) -> float:
        multiplier, divisor = UNITS[BY_NAME[ours].unit][self.units[ours]] if ours in self.units else (1, 1)
        return multiplier / divisor

    def value(self, text: str, theirs: str, ours: str, *, dated: bool) -> Value:
        """A cell as a number, converted from its unit, or as a date."""
        cell = self.cells.get(theirs, {})
        kind, form = cell.get("as"), cell.get("time_format", self.mapping["time_format"])
        if kind == "excel_date":
            return self.instant(self.excel(text), ours)
        if form and dated:
            try:
                return self.instant(datetime.strptime(text, form), ours)
            except ValueError:
                if "time_format" in cell or ours not in self.derived:
                    raise RejectedError("invalid") from None
        if kind and kind != "date":
            return _number((self.duration if kind == "duration" else self.quantity)(text, ours))
        if text == "true" and (ours in self.derived or BY_NAME[ours].unit != "s"):
            text = "1"
        if re.fullmatch(NUMBER, text) and kind != "date":
            return _number(float(text) * self.unit(ours))
        try:
            local = datetime.fromisoformat(text.replace(" +", "+") if dated and not form else "")
        except ValueError:
            raise RejectedError("invalid") from None
        return self.instant(local, ours)

    def excel(self, text: str) -> datetime:
        """A day number of Excel, to the millisecond."""
        if not re.fullmatch(NUMBER, text) or not 25_569 <= float(text) <= 25_569 + 2**16:
            raise RejectedError("invalid")
        return datetime(1970, 1, 1) + timedelta(milliseconds=round((float(text) - 25_569) * 86_400_000))

    def instant(self, local: datetime, ours: str) -> Value:
        zone = ZoneInfo(self.mapping["time_zone"])
        first, second = (local.replace(tzinfo=local.tzinfo or zone, fold=fold) for fold in (0, 1))
        if not local.tzinfo and first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
            raise RejectedError("invalid" if ours in self.derived else "skipped")
        return Value(first.timestamp(), second.timestamp(), 1)

    def duration(self, text: str, ours: str) -> float:
        if re.fullmatch(f"{THOUSANDS}|{NUMBER}", text):
            return float(text.replace(",", "")) * self.unit(ours)
        parts = next((found.groups() for form in DURATIONS if (found := re.fullmatch(form, text))), ())
        if not any(parts):
            raise RejectedError("invalid")
        return sum(float(part or 0) * by for part, by in zip(parts, (86_400, 3600, 60, 1), strict=True))

    def quantity(self, text: str, ours: str) -> float:
        found = re.fullmatch(rf"({THOUSANDS}|{NUMBER})(?:([KMGT])(i?)|(m))?", text)
        if not found:
            raise RejectedError("invalid")
        number, prefix, binary, milli = found.groups()
        memory = ours == "memory_gib_per_task"
        if memory and not (prefix or milli or ours in self.units):
            raise RejectedError("no_unit")
        factor = (1024 if binary else 1000) ** ("KMGT".index(prefix) + 1) if prefix else 1e-3
        by = factor * (2**-30 if memory else 1) if prefix or milli else self.unit(ours)
        return float(number.replace(",", "")) * by

    def share_out(self, job: dict[str, Any]) -> None:
        """Multiply what is of a task, and divide what is of the job."""
        gpus = job["num_gpus"] * (job.get("num_tasks", 1) if self.mapping["per_task"] else 1)
        job["num_gpus"] = gpus
        tasks = job.get("num_tasks", gpus if gpus >= 1 and gpus % 1 == 0 else 1)
        for ours in self.mapping["per_job"]:
            if ours in job and tasks:
                job[ours] /= tasks


def _number(number: float) -> Value:
    return Value(number, number, 0)


def _evaluated(node: ast.expr, cells: Mapping[str, Any]) -> Value | None:
    if isinstance(node, ast.Constant):
        return _number(float(str(node.value)))
    if isinstance(node, ast.Name):
        cell: Value | None = cells[node.id]
        return cell
    if isinstance(node, ast.BinOp):
        return _operation(type(node.op), _evaluated(node.left, cells), _evaluated(node.right, cells))
    assert isinstance(node, ast.Call)
    function = ast.unparse(node.func)
    first = node.args[0]
    lists = [cells[first.id]] if isinstance(first, ast.Name) and isinstance(cells[first.id], list) else []
    values: list[Value | None]
    values = lists[0] if lists else [_evaluated(each, cells) for each in node.args]
    known = [value for value in values if value is not None]
    if function == "count":
        return _number(len(known))
    if function == "sum" and values:
        return reduce(partial(_operation, ast.Add), values)
    if not known or function == "first":
        return known[0] if known else None
    if any(math.isnan(each.first) for each in known):
        best = _number(math.nan)
    else:
        best = max(known) if function == "max" else min(known)
    return best if len({each.dates for each in known}) == 1 else best._replace(dates=math.nan)


def _operation(sign: type[ast.operator], a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None:
        return None
    if sign is ast.Add:
        result = Value(a.first + b.first, a.second + b.second, a.dates + b.dates)
    elif sign is ast.Sub:
        result = Value(a.first - b.first, a.second - b.first, a.dates - b.dates)
    else:
        product = a.first * b.first if sign is ast.Mult else a.first / b.first if b.first else math.nan
        return Value(product, product, math.nan if a.dates or b.dates else 0)
    if math.isinf(result.first):
        result = result._replace(first=math.nan, second=math.nan)
    late = result.dates == 0 != a.dates and result.first < 0 <= result.second
    return result._replace(first=result.second) if late else result


def _fault(ours: str, value: str | float) -> str | None:
    column = BY_NAME[ours]
    if isinstance(value, str) or column.minimum is None or column.maximum is None:
        return None
    if not math.isfinite(value) or (column.is_whole and value % 1):
        return "invalid"
    if value < column.minimum:
        return "negative" if column.minimum == 0 else "too_small"
    return "absurd" if value > column.maximum else None
