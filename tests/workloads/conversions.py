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
    files: Path | list[Path], mapping: str | None = None, format_name: str = "csv", **options: Any
) -> tuple[ConversionReport, pl.DataFrame]:
    """The report and the jobs of files, read under the text of a mapping; all rows are counted."""
    paths = [files] if isinstance(files, Path) else files
    file = paths[0].with_name("map.yaml")
    file.write_text(mapping or "")
    given = ConvertOptions(mapping=None if mapping is None else file, **options)
    report = convert(format_name, paths, file.with_name("w.parquet"), options=given)
    assert report.read == report.kept + sum(report.rejected.values())
    return report, read_frame(report.out)
