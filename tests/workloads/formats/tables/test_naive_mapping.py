"""Tables by drawn mappings: every row kept, left out or rejected as the naive twin says."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ray_sim.model.errors import InvalidWorkloadError
from tests.proofs import instances, quick_first
from tests.workloads.formats.tables.naive_mapping import naive_outcomes
from workloads.convert import convert
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions

# In Berlin 02:10 and 02:50 of 29 October came twice, and 02:30 of 26 March never.
DATES = ["2023-10-29T02:10", "2023-10-29 02:50:00,5", "2023-10-29T04:00Z", "2023-10-30", "2023-03-26T02:30"]
CELLS = {
    "job": ["a", "b", "c 1", "d", "e", "f"],
    "made": [*DATES[:4], *DATES, "100", "7.5"],
    "begun": [*DATES[:4], "2023-10-29T03:00+0200", "200"],
    "ended": ["2023-10-30T01:00", "2023-10-29T02:40 +01", "4e2"],
    "run": ["01:02:03", "1-00:00:01", "90m", "1h30m", "PT1H", "1,234", "60", "P1M"],
    "gpus": ["0", "1", "2", "0.5", "8"],
    "tasks": ["1", "1", "2", "4"],
    "mem": ["16Gi", "512M", "500m", "8", "1,024"],
    "state": ["COMPLETED", "FAILED", "4", "RUNNING", "gpu=3,x"],
    "day": ["45228.0903125", "45228", "45229.5"],  # Excel's 45228 is 29 October 2023
    "due": ["31.10.2023 01:02", "29.10.2023 02:10"],
}
"""Usual cells by column."""
LISTS = {"parts.*.gpu": ["0", "1", "2.5"], "parts.*.end": ["2023-10-29T02:10", "2023-10-30T04:00Z"]}
"""Usual cells by column of a list, of which JSON has several in a record."""
SECOND = [{"name": name, "extra": extra, "level": "3"} for name, extra in [("a", "2"), ("b", "x"), ("f", "")]]
"""Rows of a second table."""
TABLE = {
    "times": {"by": ["state", "tasks"], "table": {"4": {"1": 2, "2": 0.5}, "FAILED": {"1": 0.25, "2": -1}}}
}
ODD = ["", "", "NaN", "Unknown", "-", "x", "-1", "true", "2023-10-29", "1e400"]
NUMBERS = [
    "sum(`parts.*.gpu`)",
    "count(`parts.*.gpu`)",
    "1 / (`tasks` - 1)",
    "`info.extra`",
    "`part`",
    "`gpus`",
    "`tasks`",
    "2",
    "`gpu`",
    "`gpus` * `tasks`",
    "`gpus` / `tasks`",
    "count(`begun`, `gpu`)",
]
TIMES = [
    "max(`parts.*.end`) - `made`",
    "`due` - min(`parts.*.end`)",
    "`day` - `made`",
    "`ended` - `made`",
    "`ended` - 5 - `made`",
    "`begun` - `made`",
    "`run`",
    "0",
    "`begun`",
]
ENTRIES: list[Any] = [{"null_values": ["-", "x"]}, {"default": "4"}, {"values": {"4": "2", "*": "8"}}]
WHERE = [
    {"left_out": "no_begin", "column": "begun", "blank": True},
    {"left_out": "running", "column": "state", "is": ["RUNNING", 4]},
    {"left_out": "other", "column": "state", "matches": "^gpu=[0-9]"},
]
UNITS = {"duration_s": "min", "wait_s": "h", "num_gpus": "percent", "memory_gib_per_task": "mib"}


def drawn(rng: random.Random) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """A table and a mapping."""
    odd = rng.choice([0, 0.02, 0.1])

    def computed(operands: list[str]) -> str:
        chosen = ", ".join(rng.sample(operands, rng.randint(1, 3)))
        return f"{rng.choice(['max', 'max', 'min', 'first', 'sum'])}({chosen})"

    rules = {
        "submit_s": [
            "made",
            "`made` + 60",
            "min(`made`, `begun`)",
            "first(`begun`, `made`)",
            "day",
            "min(`parts.*.end`)",
        ],
        "duration_s": ["run", "`ended` - `made`", computed(TIMES), computed(TIMES)],
        "wait_s": ["run", "max(`begun` - `made`, 0)", computed(TIMES)],
        "num_gpus": ["gpus", computed(NUMBERS)],
        "memory_gib_per_task": ["mem", "`mem` * 2", "sum(`mem`, `mem`)"],
        "num_tasks": ["tasks"],
        "status": ["state"],
        "job_id": ["job"],
        "priority": ["info.level", "part"],
    }
    chosen: dict[str, Any] = {ours: rng.choice(ways) for ours, ways in rules.items()}
    derived = {ours: way for ours, way in chosen.items() if "`" in way or "(" in way}
    if rng.random() < 0.2:
        how = rng.choice(["times", "divided_by", "plus"])
        derived["duration_s"] = {"column": "run", how: TABLE["times"]}
    cells: dict[str, dict[str, Any]] = {name: {} for name in [*CELLS, *LISTS]}
    cells["day"]["as"], cells["parts.*.end"]["as"] = "excel_date", "date"
    cells["due"]["time_format"] = "%d.%m.%Y %H:%M"
    cells["state"]["pattern"] = "gpu=(?P<gpu>[0-9])"
    cells["run"]["as"], cells["mem"]["as"] = "duration", "quantity"
    for name in cells:
        cells[name] |= rng.choice(ENTRIES) if rng.random() < 0.08 else {}
    mapping = {
        "columns": {ours: way for ours, way in chosen.items() if ours not in derived},
        "derived": derived,
        "units": {ours: unit for ours, unit in UNITS.items() if rng.random() < 0.4},
        "cells": cells,
        "where": rng.sample(WHERE, rng.choice([0, 0, 1, 2])),
        "required": rng.sample(["num_tasks", "wait_s", "status"], rng.choice([0, 0, 1])),
        "per_job": rng.choice([[], ["memory_gib_per_task"]]),
        "per_task": rng.choice([[], ["num_gpus"]]),
        "duplicates": rng.choice(["best", "first", "last", "longest"]),
        "time_zone": rng.choice(["Europe/Berlin", "UTC", "Australia/Lord_Howe"]),
        "time_format": rng.choice([None] * 9 + ["%Y-%m-%dT%H:%M"]),
        "blank_if_missing": [*LISTS],
        "file_name": {"part": "t*.json"},
        "join": {"file": "second*", "name": "info", "on": {"job": "name"}},
    }
    rows: list[dict[str, Any]] = [
        {name: rng.choice(ODD if rng.random() < odd else usual) for name, usual in CELLS.items()}
        for _ in range(9)
    ]
    for row in rows:
        places = {name: rng.randint(0, 3) for name in LISTS}
        row |= {
            name: [rng.choice(ODD if rng.random() < odd else usual) for _ in range(places[name])]
            for name, usual in LISTS.items()
        }
    return rows, mapping


def records(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows as JSON has them."""
    return [
        {name: cell for name, cell in row.items() if "*" not in name}
        | {"parts": [{name[8:]: cell} for name in LISTS for cell in row[name]]}
        for row in rows
    ]


def _like(cell: str | float) -> object:
    return cell if isinstance(cell, str) else pytest.approx(cell, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("seed", quick_first(range(instances(2000, per_commit=30)), 2))
def test_rows_become_what_the_page_says(seed: int, tmp_path: Path) -> None:
    rows, mapping = drawn(random.Random(seed))
    table, out, file = tmp_path / f"t{seed % 5}.json", tmp_path / "w.parquet", tmp_path / "map.yaml"
    table.write_text(json.dumps(records(rows)))
    (tmp_path / "second.json").write_text(json.dumps(SECOND))
    file.write_text(json.dumps(mapping))
    joined = {row["name"]: {f"info.{key}": cell for key, cell in row.items()} for row in SECOND}
    none = dict.fromkeys(joined["a"], "")
    outcomes = naive_outcomes(
        [row | joined.get(row["job"].strip(), none) | {"part": str(seed % 5)} for row in rows], mapping
    )
    jobs, reasons = {}, {}
    try:
        report = convert("csv", [table, tmp_path / "second.json"], out, options=ConvertOptions(mapping=file))
        assert report.left_out == Counter(each.left_out for each in outcomes if each.left_out)
        jobs = {row.pop("trace_order"): row for row in read_frame(out).to_dicts()}
    except InvalidWorkloadError:
        assert not any(each.job for each in outcomes)
    if (rejects := tmp_path / "w.parquet.rejects.parquet").exists():
        reasons = dict(pl.read_parquet(rejects).select(pl.col("line") - 1, "reason").iter_rows())
    for row, outcome in enumerate(outcomes):
        told = (rows[row], outcome, reasons.get(row))
        found = {name: cell for name, cell in jobs.get(row, {}).items() if cell is not None}
        assert found == {name: _like(cell) for name, cell in outcome.job.items()}, told
        assert reasons.get(row) in (outcome.reasons or [None]), told
