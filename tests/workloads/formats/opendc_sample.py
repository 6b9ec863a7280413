"""The sample of OpenDC's tasks, which is Parquet; run as a script, it writes the file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FILE = Path(__file__).parents[3] / "workloads" / "samples" / "presets" / "opendc.parquet"

_BEGIN = datetime(2022, 10, 6, 22, tzinfo=UTC)

_SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "submission_time": pa.timestamp("ms", tz="UTC"),
        "duration": pa.int64(),
        "cpu_count": pa.int32(),
        "cpu_capacity": pa.float64(),
        "mem_capacity": pa.int64(),
        "gpu_count": pa.int32(),
    }
)


def table() -> pa.Table:
    """Six tasks: without GPUs, with two, of 250 ms, without a run time, with a negative one, an id again."""
    at = [_BEGIN + timedelta(milliseconds=ms) for ms in (0, 1500, 60_000, 61_000, 62_000, 63_000)]
    rows = {
        "id": ["2132895", "2132896", "2132897", "2132898", "2132899", "2132896"],
        "submission_time": at,
        "duration": [10_079_000, 3_600_000, 250, None, -1, 60_000],
        "cpu_count": [16, 8, 1, 4, 4, 8],
        "cpu_capacity": [33_600.0, 16_800.0, 2_100.0, 8_400.0, 8_400.0, 16_800.0],
        "mem_capacity": [100_000, 64_000, 0, 1_000, 1_000, 64_000],
        "gpu_count": [None, 2, 0, None, None, 2],
    }
    return pa.table(rows, schema=_SCHEMA)


if __name__ == "__main__":
    pq.write_table(table(), FILE)
