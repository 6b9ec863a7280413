"""Reader of tables of measured speeds: a bundled one by name, or CSV files of one's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from ray_sim.model.errors import InvalidInputError, UnknownNameError
from ray_sim.model.measured_speeds import PairRow, SpeedRow, SpeedTable
from workloads.documents import Entry, csv_rows, dotted_problems, refusal
from workloads.schema import MAX_COUNT
from workloads.sources import Source, name_of

GAVEL = "gavel_simulation"
"""Default table: the speeds of Gavel's simulations."""

REFERENCE = "V100"
"""GPU type on which `duration_s` and `steps` of a job agree, as in Gavel's traces."""

_FOLDER = Path(__file__).parent / "speeds"
_PAIRS = "gavel_pairs"

_Row = TypeVar("_Row", SpeedRow, PairRow)

Name = Annotated[str, Field(min_length=1, max_length=200)]
Batch = Annotated[int, Field(ge=1, le=MAX_COUNT)] | None
StepsPerS = Annotated[float, Field(ge=0, le=MAX_COUNT, allow_inf_nan=False)]


class _Speed(Entry):
    model: Name
    batch: Batch = None
    gpus: Annotated[int, Field(ge=1, le=MAX_COUNT)]
    gpu_type: Name
    consolidated: bool
    steps_per_s: StepsPerS

    @model_validator(mode="after")
    def _one_gpu_on_one_server(self) -> Self:
        if self.gpus == 1 and not self.consolidated:
            raise ValueError("one GPU is always on one server; write 1 for consolidated")
        return self


class _Pair(Entry):
    gpu_type: Name
    model_a: Name
    batch_a: Batch = None
    model_b: Name
    batch_b: Batch = None
    steps_per_s_a: StepsPerS
    steps_per_s_b: StepsPerS

    @model_validator(mode="after")
    def _alike(self) -> Self:
        jobs = (self.model_a, self.batch_a), (self.model_b, self.batch_b)
        if jobs[0] == jobs[1] and self.steps_per_s_a != self.steps_per_s_b:
            raise ValueError("two jobs alike must have the same speed")
        return self


def bundled_speeds() -> dict[str, Path]:
    """Paths of the bundled tables by name; all have the same pairs."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.csv")) if path.stem != _PAIRS}


def names_speed_table(ref: Source) -> bool:
    """Whether this names a bundled table or is the path or URL of a CSV file; reads nothing."""
    return str(ref) in bundled_speeds() or name_of(ref).suffix == ".csv"


@cache
def _bundled(name: str) -> SpeedTable:
    pairs = _read(_FOLDER / f"{_PAIRS}.csv", _Pair, PairRow, _pair_key)
    return SpeedTable(name, _read(bundled_speeds()[name], _Speed, SpeedRow, _speed_key), pairs)


def load_speeds(ref: Source = GAVEL, pairs: Source | None = None) -> SpeedTable:
    """Read a bundled table by name, or CSV files by path or URL whose columns are the fields of the rows.

    Parameters
    ----------
    pairs : file of pairs; None for none, or those of the bundled table

    Raises
    ------
    UnknownNameError : neither a CSV file nor a bundled table
    InvalidInputError : a file cannot be read or breaks the rules of its columns; every problem is listed
    """
    if not names_speed_table(ref):
        raise UnknownNameError("table of speeds", str(ref), bundled_speeds())
    if str(ref) not in bundled_speeds():
        rows = _read(ref, _Speed, SpeedRow, _speed_key)
        of_pairs = () if pairs is None else _read(pairs, _Pair, PairRow, _pair_key)
        return SpeedTable(name_of(ref).name, rows, of_pairs)
    if pairs is not None:
        raise InvalidInputError(f"{pairs}: the bundled table {ref} has pairs of its own; leave the file out")
    return _bundled(str(ref))


def _speed_key(row: SpeedRow) -> tuple[Any, ...]:
    return row.model, row.batch or 0, row.gpus, row.gpu_type, row.consolidated


def _pair_key(row: PairRow) -> tuple[Any, ...]:
    jobs = (row.model_a, row.batch_a or 0), (row.model_b, row.batch_b or 0)
    return row.gpu_type, *sorted(jobs)


def reference_rows(table: SpeedTable) -> tuple[SpeedRow, ...]:
    """Rows of `REFERENCE` on one server with a speed above 0; raises InvalidInputError without any."""
    rows = tuple(
        row for row in table.rows if row.gpu_type == REFERENCE and row.consolidated and row.steps_per_s > 0
    )
    if not rows:
        raise InvalidInputError(
            f"{table.name}: has no speed on one server of {REFERENCE}, on which the run times of traces are"
        )
    return rows


def _read(
    path: Source, entry: type[Entry], row: Callable[..., _Row], key: Callable[[_Row], tuple[Any, ...]]
) -> tuple[_Row, ...]:
    """Rows of a CSV file, sorted by ``key``, which is unique."""
    needed = [name for name, field in entry.model_fields.items() if field.is_required()]
    found: dict[tuple[Any, ...], tuple[str, _Row]] = {}
    problems: list[str] = []
    for where, cells in csv_rows(path, entry, needed, problems, InvalidInputError):
        try:
            each = row(**entry.model_validate_strings(cells).model_dump())
        except ValidationError as failure:
            problems += dotted_problems(failure, entry.model_fields, where)
            continue
        if (first := found.setdefault(key(each), (where, each))[0]) != where:
            problems.append(f"{where}repeats {first}all columns but the speeds are equal")
    if not found and not problems:
        problems.append("has no speeds; add lines")
    if problems:
        raise refusal(problems, path, InvalidInputError)
    return tuple(each for _, (_, each) in sorted(found.items()))
