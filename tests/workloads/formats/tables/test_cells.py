"""Durations, quantities, words and parts of texts in cells."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

import polars as pl
import pytest

from tests.proofs import instances
from workloads.formats.tables.cells import Cell, duration_s, excel_dates, quantity


def durations(*texts: str | None, unit_s: float = 1) -> list[float | None]:
    return (
        pl.Series("t", texts, pl.String).to_frame().select(t=duration_s(pl.col("t"), unit_s))["t"].to_list()
    )


def quantities(*texts: str, bare: float | None = 1, binary: bool = False) -> list[float | None]:
    column = pl.Series("t", texts, pl.String).to_frame().select(v=quantity(pl.col("t"), bare, binary=binary))
    return column["v"].to_list()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("01:02:03", 3723),
        ("1-02:03:04", 93_784),
        ("2 days 01:00:00", 176_400),
        ("02:03", 123),
        ("00:00:00.25", 0.25),
        ("90m", 5400),
        ("1h30m", 5400),
        ("1 h 30 min", 5400),
        ("2d", 172_800),
        ("45s", 45),
        ("PT1H30M", 5400),
        ("P1DT2H", 93_600),
        ("1,234", 1234),
        ("1234.5", 1234.5),
        ("-3", -3),
        ("", None),
        ("1:2:3:4", None),
        ("1,23", None),
        ("P", None),
        ("P1M", None),
        ("12 parsecs", None),
        (None, None),
    ],
)
def test_a_duration_is_read_in_the_forms_of_the_page(text: str | None, seconds: float | None) -> None:
    assert durations(text) == [seconds]


def test_a_bare_number_is_in_the_columns_unit() -> None:
    assert durations("2", "2m", "00:02", unit_s=60) == [120, 120, 2]


def test_clocks_are_what_python_counts() -> None:
    rng = random.Random(1)
    spans = [timedelta(seconds=rng.randrange(10**7)) for _ in range(instances(2_000, 200))]
    texts = []
    for span in spans:
        hours, rest = divmod(span.seconds, 3600)
        clock = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        texts.append(f"{span.days}-{clock}" if span.days else clock)
    assert durations(*texts) == [span.total_seconds() for span in spans]


@pytest.mark.parametrize(
    ("text", "value"),
    [("16Gi", 2**34), ("500m", 0.5), ("8G", 8e9), ("1,234", 1234), ("1.5Ti", 1.5 * 2**40), ("x", None)],
)
def test_a_quantity_has_kubernetes_suffixes(text: str, value: float | None) -> None:
    assert quantities(text) == [value]


def test_slurms_suffixes_are_binary_and_a_bare_number_may_have_no_unit() -> None:
    assert quantities("16G", "4000M", "2Gn", binary=True) == [2**34, 4000 * 2**20, 2**31]
    assert quantities("8", "8Gi", bare=None) == [None, 2**33]


def test_excels_days_are_dates_to_the_millisecond() -> None:
    day = datetime(1899, 12, 30)
    texts = ["45292.5", "45293.25", "25569", "44927.123456789", "1e9", "x"]
    frame = pl.Series("t", texts).to_frame().select(excel_dates(pl.col("t"), "."))["t"].to_list()
    exact = day + timedelta(days=44927.123456789)
    assert frame[:3] == [day + timedelta(days=float(text)) for text in texts[:3]]
    assert abs(frame[3] - exact) <= timedelta(milliseconds=1)
    assert frame[4:] == [None, None]


def test_words_are_absent_replaced_and_filled_in_this_order() -> None:
    cell = Cell.model_validate(
        {"null_values": ["-1", "?"], "values": {"4": "COMPLETED", "*": "OTHER"}, "default": 0}
    )
    frame = pl.Series("t", ["4", "7", "-1", None, "?"]).to_frame()
    assert frame.select(t=cell.text(pl.col("t"), None))["t"].to_list() == [
        "COMPLETED",
        "OTHER",
        "0",
        "0",
        "0",
    ]


def test_faults_of_an_entry_are_told() -> None:
    cell = Cell.model_validate(
        {"pattern": ["(", "a+"], "values": {"a": [1]}, "as": "quantity", "time_format": "%Q"}
    )
    told = "\n".join(cell.problems(None))
    for part in (
        "pattern: is no regular expression",
        "'a+' must have a named group",
        "values.a: must be a text",
    ):
        assert part in told
    assert "time_format: only dates have a form" in told
