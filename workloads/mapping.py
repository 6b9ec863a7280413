"""The mapping file of the csv format: which columns of a table are which of ours."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path

import polars as pl
import yaml
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from ray_sim.model.errors import InvalidInputError, UnknownNameError, problems_text
from workloads.checks import value_fault
from workloads.derived import Derived, derived_problems, name_problems
from workloads.schema import BY_NAME, COLUMNS, Column
from workloads.text import TextSource

UNITS: dict[str, dict[str, tuple[int, int]]] = {
    "s": {
        "us": (1, 1_000_000),
        "ms": (1, 1000),
        "s": (1, 1),
        "min": (60, 1),
        "h": (3600, 1),
        "d": (86_400, 1),
    },
    "GPU": {"gpu": (1, 1), "milli": (1, 1000)},
    "core": {"core": (1, 1), "milli": (1, 1000)},
    "GiB": {"gib": (1, 1), "mib": (1, 1024)},
    "MB": {"mb": (1, 1), "gb": (1000, 1)},
    "Mbps": {"mbps": (1, 1), "gbps": (1000, 1)},
}
"""By the schema's unit: the units a file may use, as multiplier and divisor."""

_PER_ROW = ("job_id", "trace_order")


class Mapping(BaseModel):
    """A mapping file. Columns that already bear the schema's names need no entry."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    columns: dict[str, str] = {}
    """Their column by our name."""
    derived: dict[str, Derived] = {}
    """How a column is computed, by our name."""
    file_name: dict[str, str] = {}
    """By the name of a column a pattern of file names; the column is what its star stands for."""
    constants: dict[str, JsonValue] = {}
    """One value for all rows, by our name."""
    units: dict[str, str] = {}
    """The file's unit, by our name."""
    time_format: str | None = None
    """How submit_s is written where it is a date, as in ``strftime``."""
    time_zone: str | None = None
    """Zone of those dates; UTC where the file does not say."""

    @property
    def has_offset(self) -> bool:
        """Whether each date carries its offset from UTC."""
        return self.time_format is not None and any(code in self.time_format for code in ("%z", "%:z", "%#z"))

    def names(self, source: TextSource) -> dict[str, str]:
        """Their column for each of our columns that the file has; for a computed one what it is made of."""
        same = {name: name for name in self.header(source) if name in BY_NAME and name not in self.constants}
        derived = {name: rule.column for name, rule in self.derived.items()}
        return {**same, **self.columns, **derived}

    def header(self, source: TextSource) -> tuple[str, ...]:
        """The columns of a file, and those that its name stands for."""
        return (*source.header, *self.file_name)

    def used(self, source: TextSource) -> set[str]:
        """Their columns that something is read from."""
        looked_up = {column for rule in self.derived.values() for column in rule.lookup.by}
        return {*self.names(source).values(), *looked_up}

    def scale(self, column: Column) -> tuple[int, int]:
        """Multiplier and divisor from the file's unit to ours."""
        return UNITS[column.unit][self.units[column.name]] if column.name in self.units else (1, 1)


def load_mapping(path: Path) -> Mapping:
    """Read a mapping file.

    Raises
    ------
    InvalidInputError : unreadable, no YAML, or entries of another shape; names every one by its dotted path
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeyLoader)  # noqa: S506 (a SafeLoader)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}; check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(f"{path}: not a YAML file: {' '.join(str(error).split())}") from error
    try:
        return Mapping.model_validate({} if content is None else content)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in e['loc']) or 'file'}: {e['msg']}" for e in error.errors()
        ]
        raise InvalidInputError(problems_text(str(path), problems)) from error


def check_mapping(mapping: Mapping, path: Path, sources: Sequence[TextSource]) -> None:
    """Raise unless the mapping makes sense for these files, naming every problem by its dotted path."""
    problems = [
        *_column_problems(mapping, sources),
        *name_problems(mapping.file_name, sources),
        *derived_problems(
            mapping.derived,
            {source.path.name: mapping.header(source) for source in sources},
            [column.name for column in COLUMNS if column.is_number],
        ),
        *_constant_problems(mapping),
        *_unit_problems(mapping, sources),
        *_time_problems(mapping),
    ]
    if problems:
        raise InvalidInputError(problems_text(str(path), problems))


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe YAML in which a repeated key is an error instead of a lost entry."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise yaml.constructor.ConstructorError(problem=f"key '{key}' appears twice{node.start_mark}")
        return super().construct_mapping(node, deep)


def _unknown(section: str, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name not in BY_NAME:
            yield f"{section}.{name}: {UnknownNameError('column of a workload', name, BY_NAME)}"


def _column_problems(mapping: Mapping, sources: Sequence[TextSource]) -> Iterator[str]:
    yield from _unknown("columns", list(mapping.columns))
    for name in mapping.derived:
        if name in mapping.columns or name in mapping.constants:
            yield f"derived.{name}: also a column or a constant; keep one of them"
    for name, theirs in mapping.columns.items():
        if name in mapping.constants:
            yield f"columns.{name}: also a constant; keep one of the two"
        for source in sources:
            if theirs not in mapping.header(source):
                found = ", ".join(mapping.header(source))
                yield f"columns.{name}: {source.path.name} has no column '{theirs}'; found: {found}"


def _constant_problems(mapping: Mapping) -> Iterator[str]:
    yield from _unknown("constants", list(mapping.constants))
    for name, value in mapping.constants.items():
        if name in _PER_ROW:
            yield f"constants.{name}: must differ from row to row; leave it out to number the rows"
        elif name in BY_NAME and not _fits(BY_NAME[name], value):
            expected = "a whole number" if BY_NAME[name].is_whole else "a number"
            text = f"{BY_NAME[name].wanted_text} (in quotes)"
            kind = f"{expected} in the column's range" if BY_NAME[name].is_number else text
            yield f"constants.{name}: must be {kind}, is {value!r}"


def _fits(column: Column, value: JsonValue) -> bool:
    if not column.is_number:
        return isinstance(value, str) and bool(value.strip()) and column.holds(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > 2**62:
        return False
    return pl.select(value_fault(column, pl.lit(float(value)))).item() is None


def _unit_problems(mapping: Mapping, sources: Sequence[TextSource]) -> Iterator[str]:
    yield from _unknown("units", list(mapping.units))
    for name, unit in mapping.units.items():
        if name not in BY_NAME:
            continue
        known = UNITS.get(BY_NAME[name].unit, {})
        if unit not in known:
            allowed = f"one of {', '.join(known)}" if known else "left out, the column has no unit"
            yield f"units.{name}: must be {allowed}, is '{unit}'"
        if not any(name in mapping.names(source) for source in sources):
            yield f"units.{name}: no column of the file is {name}; units are for columns only"


def _time_problems(mapping: Mapping) -> Iterator[str]:
    if mapping.time_format is None:
        if mapping.time_zone is not None:
            yield "time_zone: is for dates only; state their time_format"
        return
    if "submit_s" in mapping.units:
        yield "units.submit_s: a date has no unit; drop it or time_format"
    if "submit_s" in mapping.derived:
        yield "derived.submit_s: a date cannot be computed with; drop it or time_format"
    if "submit_s" in mapping.constants:
        yield "constants.submit_s: a constant is a number of seconds; drop it or time_format"
    if mapping.has_offset and mapping.time_zone is not None:
        yield "time_zone: the dates carry their offset from UTC; drop one of the two"
    if mapping.time_zone is not None and not _is_time_zone(mapping.time_zone):
        yield f"time_zone: unknown zone '{mapping.time_zone}'; use a name like America/Los_Angeles or UTC"


def _is_time_zone(name: str) -> bool:
    try:
        pl.Series([0]).cast(pl.Datetime("us")).dt.replace_time_zone(name)
    except pl.exceptions.PolarsError:
        return False
    return True
