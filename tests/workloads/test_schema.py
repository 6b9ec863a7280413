from __future__ import annotations

from pathlib import Path

import polars as pl

from workloads.schema import BY_NAME, COLUMNS, SCHEMA, SORT_KEY, Layer, columns_markdown, with_all_columns
from workloads.training_columns import TRAINING_COLUMNS

GUIDE = Path(__file__).parents[2] / "docs" / "workloads.md"


def test_the_guides_table_of_columns_is_the_schemas() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    table = text.split("<!-- columns -->\n")[1].split("<!-- /columns -->")[0]
    assert table == columns_markdown()


def test_names_are_unique_and_rows_are_ordered_by_columns_of_the_schema() -> None:
    assert len(BY_NAME) == len(COLUMNS)
    assert set(SORT_KEY) <= set(SCHEMA)


def test_every_number_has_a_range() -> None:
    for column in COLUMNS:
        assert column.is_number == (column.minimum is not None and column.maximum is not None)


def test_a_workload_need_not_say_how_its_jobs_train() -> None:
    profile = [column for column in COLUMNS if column.layer == Layer.PROFILE]
    assert profile == list(TRAINING_COLUMNS)
    assert all(column.null is not None for column in profile)


def test_columns_that_a_trace_lacks_are_null() -> None:
    frame = with_all_columns(pl.DataFrame({"submit_s": [1.0], "job_id": ["a"]}))
    assert dict(frame.schema) == SCHEMA
    assert frame["submit_s"].to_list() == [1.0]
    assert frame["vc"].to_list() == [None]
