"""The list of columns, and statements of work in workload files, from the file to the table of jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim.contract.job_tables import with_rows
from ray_sim.model.errors import InvalidWorkloadError
from ray_sim.model.units import seconds_to_us
from ray_sim.model.value_function import parse_value
from workloads.checks import check_frame
from workloads.convert import convert
from workloads.job_table import frame_to_table
from workloads.provenance import Counts, Provenance
from workloads.realisation import DAY_S, resample_days, scale_load
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
from workloads.store import load_workload, read_frame, write_workload
from workloads.trace_format import ConvertOptions

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


Jobs = Callable[..., pl.DataFrame]
MADE = Provenance(converter="test", converter_version="1", counts=Counts(read=1, kept=1))

STATED: dict[str, list[object]] = {
    "submit_s": [100.0, 160.0, 220.0],
    "birth_s": [40.0, None, -20.0],
    "value": ["deadline 4 60", "linear 4 0 60", "deadline 4 60"],
    "outlook": ["60:60:0.5 60:90:0.5", "0:60:1", "0:60:1"],
    "reported_value": [None, "deadline 9 60", None],
    "reported_outlook": ["60:60:1", None, None],
    "reported_gpus": [None, None, 2.0],
}


def test_statements_go_through_a_file_into_the_table(tmp_path: Path, jobs: Jobs) -> None:
    frame = jobs(3, **STATED)
    write_workload(frame, MADE, tmp_path / "w.parquet")
    assert read_frame(tmp_path / "w.parquet").equals(frame)
    table = load_workload(tmp_path / "w.parquet")
    found = table.statements
    assert found is not None
    assert found.birth_us.tolist() == [-60_000_000, 60_000_000, -120_000_000]
    assert [str(found.values[row]) for row in found.value_row] == [
        *("deadline 4 60", "table 0:4 60:0", "deadline 4 60")
    ]
    assert [str(found.values[row]) for row in found.reported_value_row] == [
        *("deadline 4 60", "deadline 9 60", "deadline 4 60")
    ]
    assert len(found.values) == 3
    assert [found.outlooks[row].duration_s.tolist() for row in found.outlook_row] == [[60, 90], [60], [60]]
    assert [found.outlooks[row].duration_s.tolist() for row in found.reported_outlook_row] == [[60]] * 3
    assert found.outlook_row[1] == found.outlook_row[2]
    assert found.reported_gpus.tolist() == [1, 1, 2]


def test_a_part_of_a_table_has_its_statements(jobs: Jobs) -> None:
    table = with_rows(frame_to_table(jobs(3, **STATED)), np.array([2, 1]))
    found = table.statements
    assert found is not None
    assert found.birth_us.tolist() == [-120_000_000, 60_000_000]
    assert [found.values[row] for row in found.reported_value_row] == [
        *(parse_value("deadline 4 60"), parse_value("deadline 9 60"))
    ]


def test_a_value_and_an_outlook_are_needed_of_every_job(jobs: Jobs) -> None:
    table = frame_to_table(jobs(3, value=["deadline 4 60"] * 3, outlook=["0:60:1", None, None]))
    assert table.statements is None
    assert table.gaps["statements"] == ("outlook: is null for 2 of 3 jobs, first for job-1",)
    missing = ("value: is missing", "outlook: is missing")
    assert frame_to_table(jobs(3)).gaps["statements"] == missing


@pytest.mark.parametrize(
    ("column", "values", "told"),
    [
        (
            "birth_s",
            [0.0, 61.0, 121.0],
            "birth_s: row 1 is 61.0, after its submit_s 60.0: a job is announced",
        ),
        ("birth_s", [0.0, 61.0, 121.0], "correct one of the two, or leave birth_s empty (2 such rows)"),
        ("value", ["deadline 1 1", "step 1@1 2@2", None], "value: row 1 is step 1@1 2@2: invalid, expected"),
        ("value", ["deadline 1 1", "step 1@1 2@2", None], "; point 2: worth 2 is above 1, that of point 1"),
        ("outlook", [None, None, "0:1:0.5"], "outlook: row 2 is 0:1:0.5: invalid, expected points AFTER:"),
        ("outlook", [None, None, "0:1:0.5"], "; probabilities sum to 0.5, must sum to 1; divide each by"),
        ("reported_outlook", ["0:1:1 " * 99, "0:1:1", None], "reported_outlook: row 0 is 0:1:1 0:1:1"),
        ("reported_value", [None, "x", None], "reported_value: row 1 is x: invalid"),
        ("reported_gpus", [None, -1.0, None], "reported_gpus: row 1 is -1.0: negative"),
    ],
)
def test_a_row_that_cannot_be_is_refused_by_name(
    jobs: Jobs, column: str, values: list[object], told: str
) -> None:
    with pytest.raises(InvalidWorkloadError, match=re.escape(told)) as caught:
        check_frame(jobs(3, **{column: values}), "w.parquet")
    assert len(str(caught.value)) < 1000


def test_a_table_of_text_may_have_statements(tmp_path: Path) -> None:
    source = tmp_path / "trace.csv"
    source.write_text(
        "submit_s,duration_s,num_gpus,birth_s,value,outlook\n"
        "100,60,1,40,deadline 4 60,60:60:1\n110,60,1,111,deadline 4 60,0:60:1\n"
        "120,60,1,,deadline -4 60,0:60:1\n130,60,1,,deadline 4 60,0:60:0.5\n140,60,1,,linear 4 0 60,0:60:1\n"
    )
    report = convert("csv", [source], tmp_path / "w.parquet", options=ConvertOptions(rebase=True))
    assert report.rejected == {"late_birth_s": 1, "invalid_value": 1, "invalid_outlook": 1}
    frame = read_frame(tmp_path / "w.parquet")
    assert frame.select("submit_s", "birth_s").rows() == [(0.0, -60.0), (40.0, None)]


def leads_us(frame: pl.DataFrame) -> list[int]:
    table = frame_to_table(frame)
    assert table.statements is not None
    leads: list[int] = (table.submit_us - table.statements.birth_us).tolist()
    return leads


def test_the_lead_stays_when_jobs_are_moved_to_other_days_and_loads(jobs: Jobs) -> None:
    """To the microsecond, as the arrival must stay a point of the outlook."""
    rng = np.random.default_rng(1)
    submit_s = np.sort(rng.uniform(0, 5 * DAY_S, 200))
    lead_us = rng.integers(0, 3_600_000_000, 200)
    frame = jobs(
        200,
        submit_s=submit_s.tolist(),
        birth_s=np.minimum((seconds_to_us(submit_s) - lead_us) / 1e6, submit_s).tolist(),
        value=["deadline 4 60"] * 200,
        outlook=["0:60:1"] * 200,
    )
    assert leads_us(frame) == lead_us.tolist()
    assert leads_us(scale_load(frame, 3.7)) == lead_us.tolist()
    moved = resample_days(frame, seed=3)
    check_frame(moved, "moved")
    whose = [int(name.split("@")[0].removeprefix("job-")) for name in moved["job_id"]]
    assert leads_us(moved) == lead_us[whose].tolist()
    unannounced = scale_load(frame.with_columns(birth_s=pl.lit(None, dtype=pl.Float64)), 3.7)
    assert unannounced["birth_s"].null_count() == 200
