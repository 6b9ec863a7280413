"""Strict reading of YAML and CSV files written by users: bounded size, each problem with its place."""

from __future__ import annotations

import csv
import io
import re
import reprlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from ray_sim.model.errors import InvalidInputError, nearest, problems_text
from workloads.sources import Source, open_source, unsent

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_BYTES = 16 * 2**20
"""Largest file read; files written by hand are far smaller."""

MAX_DEPTH = 32
"""The deepest nesting of lists and mappings in a YAML file."""

MAX_PROBLEMS = 100
"""Number of problems of one file that an error prints; it counts the rest."""


class Entry(BaseModel):
    """A part of a user's file: frozen, without unknown keys and silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def read_text(path: Source, error: type[InvalidInputError]) -> str:
    """The whole file, by path or URL, as text without a byte-order mark.

    Raises
    ------
    error : the file cannot be read, is empty, larger than `MAX_BYTES`, or not UTF-8
    """
    try:
        with open_source(path, error) as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as failure:
        raise error(f"{path}: cannot be read: {failure.strerror or failure}{unsent(path)}") from failure
    if len(raw) > MAX_BYTES:
        raise error(f"{path}: is larger than {MAX_BYTES // 2**20} MiB; expected a file written by hand")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        found = f"byte {failure.start} is 0x{raw[failure.start]:02x}"
        raise error(f"{path}: is not UTF-8 text ({found}); save it as UTF-8") from failure
    if not text.strip():
        raise error(f"{path}: is empty")
    return text


def parse_yaml(text: str, source: str, error: type[InvalidInputError]) -> object:
    """Parse one YAML document of plain lists, mappings and scalars.

    Aliases, tags and merge keys are refused: with them a short file can stand for more data than
    fits in memory. A repeated key is refused too, where YAML would silently keep the last, and so are
    the numbers of base 60 and base 8 of YAML 1.1: `1:30` would be 90, `010` would be 8.

    Raises
    ------
    error : the text is not such a document; the message starts with `source` and names the line
    """
    try:
        _refuse_traps(text)
        return yaml.load(text, Loader=_StrictLoader)  # noqa: S506  # a safe loader
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise error(f"{source}: is not valid YAML: {where}{failure.problem or failure.context}") from failure
    except (yaml.YAMLError, ValueError, OverflowError) as failure:
        # A date in month 13 fails in the scalar's own constructor.
        raise error(f"{source}: is not valid YAML: {' '.join(str(failure).split())}") from failure


def dotted_problems(
    failure: ValidationError,
    known_keys: Iterable[str] = (),
    prefix: str = "",
    keys: Mapping[str, Iterable[str]] | None = None,
) -> list[str]:
    """One line per problem, such as ``servers[2].gpus: must be >= 0, got -1``.

    Parameters
    ----------
    failure : what pydantic raised
    known_keys : keys to suggest from where one is unknown
    prefix : put before every path, with its separator, such as ``servers[2].``
    keys : keys of a model by its name, listed where one of the outermost model is unknown
    """
    known = list(known_keys)
    # pydantic's title of a model with validators is "function-before[its name, name of the model]".
    models = [given for name, given in (keys or {}).items() if name in re.findall(r"\w+", failure.title)]
    listed = ", ".join(models[0]) if len(models) == 1 else ""
    problems = []
    for detail in failure.errors(include_url=False):
        path = (prefix + _dotted(detail["loc"])).rstrip("., ")
        problem = _problem(detail, known)
        if problem == "unknown key" and listed and len(detail["loc"]) == 1:
            problem = f"unknown key; known: {listed}"
        problems.append(f"{path}: {problem}" if path else problem)
    return problems


def csv_rows(
    path: Source,
    entry: type[Entry],
    needed: Sequence[str],
    problems: list[str],
    error: type[InvalidInputError],
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each line's place and filled cells by column; lines of the wrong length go to `problems`.

    Parameters
    ----------
    entry : its fields are the columns that the file may have
    needed : columns that the file must have
    """
    reader = csv.reader(io.StringIO(read_text(path, error), newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(reader)]
        if unfit := _header_problems(header, list(entry.model_fields), needed):
            raise refusal(unfit, path, error)
        for cells in reader:
            where = f"line {reader.line_num}, "
            if len(cells) == len(header):
                filled = ((column, cell.strip()) for column, cell in zip(header, cells, strict=True))
                yield where, {column: cell for column, cell in filled if cell}
            elif cells:
                problems.append(f"line {reader.line_num}: has {len(cells)} cells, the header {len(header)}")
    except csv.Error as failure:
        raise error(f"{path}: line {reader.line_num}: is not valid CSV: {failure}") from failure


def _header_problems(header: Sequence[str], known: Sequence[str], needed: Sequence[str]) -> list[str]:
    return [
        *(
            f"line 1: unknown column '{column}'; known: {', '.join(known)}"
            for column in header
            if column not in known
        ),
        *(f"line 1: column '{column}' appears twice" for column in known if header.count(column) > 1),
        *(f"line 1: column '{column}' is missing" for column in needed if column not in header),
    ]


def refusal(
    problems: Sequence[str], path: Source, error: type[InvalidInputError], most: int = MAX_PROBLEMS
) -> InvalidInputError:
    """Error that prints ``most`` problems of a file, and counts the rest."""
    lines = problems_text(str(path), problems).splitlines()
    hidden = len(problems) - most
    if hidden > 0:
        lines[1 + most :] = [f"  and {hidden} more"]
    return error("\n".join(lines))


class _StrictLoader(yaml.CSafeLoader):
    """YAML's safe loader, without repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value):
            seen: set[str] = set()
            for key, _ in node.value:
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key '{key.value}' appears twice", key.start_mark
                    )
                seen.add(key.value)
        return mapping


def _refuse_traps(text: str) -> None:
    """Raise ValueError for a refused construct, found in the parser's events before any object is built."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        trap = _trap(event, depth)
        if trap:
            mark = event.start_mark
            where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            raise ValueError(where + trap)


def _trap(event: yaml.Event, depth: int) -> str | None:
    if isinstance(event, yaml.AliasEvent):
        return f"aliases are not allowed; write out what '*{event.anchor}' stands for"
    tag = getattr(event, "tag", None)
    if tag:
        return f"tags such as '{tag}' are not allowed"
    if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
        return "merge keys ('<<') are not allowed"
    if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and (why := _bad_number(event.value)):
        return why
    if depth > MAX_DEPTH:
        return f"nested more than {MAX_DEPTH} deep"
    return None


def _bad_number(value: str) -> str | None:
    """Reason to refuse a plain scalar: it is too long, or YAML 1.1 reads it as an unexpected number."""
    if _WHOLE.fullmatch(value) and len(value) > _MOST_DIGITS:
        return f"a number of {sum(map(str.isdigit, value)):,} digits; at most {_MOST_DIGITS:,} are read"
    for base, form in _BASES.items():
        if form.fullmatch(value):
            return (
                f"YAML reads {value[:_SHOWN]} as a number of base {base}; write a text in quotes, or a plain"
                " number"
            )
    return None


_BASES = {
    60: re.compile(r"[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*"),
    8: re.compile(r"[-+]?0_*[0-7][0-7_]*"),
}
"""Bases of plain numbers that only YAML 1.1 has, and their forms."""

_WHOLE = re.compile(r"[-+]?[0-9][0-9_]*")

_MOST_DIGITS = 1000
"""Most digits of a whole number, sign included; Python's own limit is larger."""

_SHOWN = 40
"""Characters of such a number."""

_WANTED: Mapping[str, str] = {
    "missing": "is missing",
    "greater_than": "must be > {gt:,.10g}",
    "greater_than_equal": "must be >= {ge:,.10g}",
    "less_than_equal": "must be <= {le:,.10g}",
    "less_than": "must be < {lt:,.10g}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of a sensible size",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text (put it in quotes)",
    "invalid_key": "keys must be text (put them in quotes)",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length:,} entries",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}
"""Expectation to print for each of pydantic's error types."""

_NUMBERS = frozenset({"int_type", "int_parsing", "float_type", "float_parsing"})
"""pydantic's error types of what is no number."""

_EXPONENT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")
"""Numbers with an exponent, also those that YAML 1.1 reads as texts."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxstring = 2, 3, 3, 60


def _problem(detail: ErrorDetails, known_keys: list[str]) -> str:
    kind = detail["type"]
    if kind == "extra_forbidden":
        given = str(detail["loc"][-1])
        near = nearest(given, (key for key in known_keys if key != given))  # it may be known elsewhere
        return "unknown key" + (f"; did you mean '{near}'?" if near else "")
    template = _WANTED.get(kind)
    wanted = template.format(**detail.get("ctx", {})) if template else detail["msg"]
    if kind == "missing":
        return wanted
    given = detail["input"]
    text = f"{wanted}, got {_short(given)}"
    if kind in _NUMBERS and isinstance(given, str) and _EXPONENT.fullmatch(given):
        text += ", which YAML reads as a text; write a point and a sign, as in 1.0e-4 or 1.0e+4"
    return text


def _short(value: object) -> str:
    try:
        return _SHORT.repr(value)
    except ValueError:
        return "a number of thousands of digits"  # more than Python prints


def _dotted(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        if step == "[key]":
            path += " (the key)"
        elif isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path
