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
from tests.proofs import instances
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
}
"""Usual cells by column."""
ODD = ["", "", "NaN", "Unknown", "-", "x", "-1", "true", "2023-10-29", "1e400"]
NUMBERS = ["`gpus`", "`tasks`", "2", "`gpu`", "`gpus` * `tasks`", "`gpus` / `tasks`", "count(`begun`, `gpu`)"]
TIMES = ["`ended` - `made`", "`ended` - 5 - `made`", "`begun` - `made`", "`run`", "0", "`begun`"]
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
        "submit_s": ["made", "`made` + 60", "min(`made`, `begun`)", "first(`begun`, `made`)"],
        "duration_s": ["run", "`ended` - `made`", computed(TIMES), computed(TIMES)],
        "wait_s": ["run", "max(`begun` - `made`, 0)", computed(TIMES)],
        "num_gpus": ["gpus", computed(NUMBERS)],
        "memory_gib_per_task": ["mem", "`mem` * 2", "sum(`mem`, `mem`)"],
        "num_tasks": ["tasks"],
        "status": ["state"],
        "job_id": ["job"],
    }
    chosen = {ours: rng.choice(ways) for ours, ways in rules.items()}
    derived = {ours: way for ours, way in chosen.items() if "`" in way or "(" in way}
    cells: dict[str, dict[str, Any]] = {name: {} for name in CELLS}
    cells["state"]["pattern"] = "gpu=(?P<gpu>[0-9])"
    cells["run"]["as"], cells["mem"]["as"] = "duration", "quantity"
    for name in CELLS:
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
    }
    usual = CELLS.items()
    rows = [{name: rng.choice(ODD if rng.random() < odd else it) for name, it in usual} for _ in range(9)]
    return rows, mapping


def _like(cell: str | float) -> object:
    return cell if isinstance(cell, str) else pytest.approx(cell, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("seed", range(instances(2000, per_commit=100)))
def test_rows_become_what_the_page_says(seed: int, tmp_path: Path) -> None:
    rows, mapping = drawn(random.Random(seed))
    table, out, file = tmp_path / "t.csv", tmp_path / "w.parquet", tmp_path / "map.yaml"
    pl.DataFrame(rows).write_csv(table, quote_style="necessary")
    file.write_text(json.dumps(mapping))
    outcomes = naive_outcomes(rows, mapping)
    jobs, reasons = {}, {}
    try:
        report = convert("csv", [table], out, options=ConvertOptions(mapping=file))
        assert report.left_out == Counter(each.left_out for each in outcomes if each.left_out)
        jobs = {row.pop("trace_order"): row for row in read_frame(out).to_dicts()}
    except InvalidWorkloadError:
        assert not any(each.job for each in outcomes)
    if (rejects := tmp_path / "w.parquet.rejects.parquet").exists():
        reasons = dict(pl.read_parquet(rejects).select(pl.col("line") - 2, "reason").iter_rows())
    for row, outcome in enumerate(outcomes):
        told = (rows[row], outcome, reasons.get(row))
        found = {name: cell for name, cell in jobs.get(row, {}).items() if cell is not None}
        assert found == {name: _like(cell) for name, cell in outcome.job.items()}, told
        assert reasons.get(row) in (outcome.reasons or [None]), told
