"""Small traces converted in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from workloads.convert import ConversionReport, convert
from workloads.store import read_frame
from workloads.trace_format import ConvertOptions

Trace = Callable[..., Path]
"""The fixture `trace`, which writes a file."""


def converted(
    path: Path, mapping: str | None = None, format_name: str = "csv", **options: Any
) -> tuple[ConversionReport, pl.DataFrame]:
    """The report and the jobs of a file, read under the text of a mapping; all its rows are counted."""
    file = None if mapping is None else path.with_name("map.yaml")
    if file is not None and mapping is not None:
        file.write_text(mapping)
    given = ConvertOptions(mapping=file, **options)
    report = convert(format_name, [path], path.with_name("w.parquet"), options=given)
    assert report.read == report.kept + sum(report.rejected.values())
    return report, read_frame(report.out)
