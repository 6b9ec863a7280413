"""Memory that the rows of a Parquet file take, from its footer, against what this machine has left."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ray_sim.model.errors import InvalidWorkloadError
from workloads.sources import Source

_TEXT_BYTES = 16
"""Bytes of a text in memory, at least."""
_COPIES = 2
"""Times that a value is in memory while a workload is read: a million jobs of 0.2 GiB took 0.42 GiB."""


def available_bytes() -> int:
    """Bytes of memory that this machine can give without swapping; all of it where only that is known."""
    try:
        found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return int(found[1]) * 2**10 if found else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def require_memory(file: pq.ParquetFile, names: Collection[str], source: Source) -> None:
    """Raise unless memory holds the columns of these names; repeated values take next to nothing in a file.

    Raises
    ------
    InvalidWorkloadError
    """
    rows, types = file.metadata.num_rows, [each.type for each in file.schema_arrow if each.name in names]
    needed, available = _COPIES * rows * sum(map(_value_bytes, types)), available_bytes()
    if needed > available:
        raise InvalidWorkloadError(
            f"{source}: its {rows:,} rows take {needed / 2**30:,.1f} GiB of memory, and "
            f"{available / 2**30:,.1f} GiB are free; take fewer jobs, e.g. by convert --window, or add memory"
        )


def _value_bytes(dtype: pa.DataType) -> int:
    return -(-dtype.bit_width // 8) if pa.types.is_primitive(dtype) else _TEXT_BYTES
