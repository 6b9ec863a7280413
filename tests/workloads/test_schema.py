from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import pytest

from workloads.schema import (
    BY_NAME,
    COLUMNS,
    SCHEMA,
    SORT_KEY,
    STATEMENT_COLUMNS,
    TRAINING_COLUMNS,
    Column,
    ColumnOrigin,
    with_all_columns,
)

GUIDE = Path(__file__).parents[2] / "docs" / "workloads.md"


def columns_markdown(layer: ColumnOrigin) -> str:
    """The table of a layer's columns that the guide must hold."""
    lines = ["| column | type | unit | range | null means | meaning |", "|---|---|---|---|---|---|"]
    for column in (each for each in COLUMNS if each.layer == layer):
        cells = (
            f"`{column.name}`",
            str(column.dtype),
            column.unit or "-",
            _range_text(column),
            column.null or "never null",
            column.meaning,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _range_text(column: Column) -> str:
    if column.minimum is None or column.maximum is None:
        return ", ".join(column.choices) or "-"
    return f"{_power_text(column.minimum)} .. {_power_text(column.maximum)}"


def _power_text(value: float) -> str:
    """``2^k`` of a power of two that is not short as it is, all digits of other numbers."""
    fraction, exponent = math.frexp(abs(value))
    if fraction == 0.5 and not (1 <= abs(value) < 1024):
        return f"{'-' if value < 0 else ''}2^{exponent - 1}"
    return str(int(value)) if value == int(value) else repr(float(value))


@pytest.mark.parametrize("layer", ColumnOrigin)
def test_the_guides_table_of_a_layers_columns_is_the_schemas(layer: ColumnOrigin) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    table = text.split(f"<!-- columns of {layer} -->\n")[1].split("<!-- /columns -->")[0]
    assert table == columns_markdown(layer)


def test_names_are_unique_and_rows_are_ordered_by_columns_of_the_schema() -> None:
    assert len(BY_NAME) == len(COLUMNS)
    assert set(SORT_KEY) <= set(SCHEMA)


def test_every_number_has_a_range() -> None:
    for column in COLUMNS:
        assert column.is_number == (column.minimum is not None and column.maximum is not None)


def test_a_range_is_shown_as_powers_of_two_only_where_it_is_some() -> None:
    lines = columns_markdown(ColumnOrigin.PROFILE).splitlines()
    cells = {line.split("|")[1].strip(" `"): line.split("|")[4].strip() for line in lines}
    # 1 - 2^-40 is no power of two; 0.5 = 2^-1 would be half of it.
    assert cells["loss_drop"] == f"0 .. {1 - 2**-40!r}"
    assert cells["trained_share"] == "2^-40 .. 1"


def test_a_workload_need_not_say_how_its_jobs_train() -> None:
    profile = [column for column in COLUMNS if column.layer == ColumnOrigin.PROFILE]
    assert profile == [*TRAINING_COLUMNS, *STATEMENT_COLUMNS]
    assert all(column.null is not None for column in profile)


def test_columns_that_a_trace_lacks_are_null() -> None:
    frame = with_all_columns(pl.DataFrame({"submit_s": [1.0], "job_id": ["a"]}))
    assert dict(frame.schema) == SCHEMA
    assert frame["submit_s"].to_list() == [1.0]
    assert frame["vc"].to_list() == [None]
