"""Conversion of the traces of Gavel's simulator: a job per line, fields divided by tabs, without a header.

The form is that of https://github.com/stanford-futuredata/gavel: Narayanan et al., Heterogeneity-Aware
Cluster Scheduling Policies for Deep Learning Workloads, OSDI 2020. A trace has steps and no run times: those
are of V100, by a table of speeds. The page docs/traces/gavel.md has the fields, and a rule for each oddity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from ray_sim.model.measured_speeds import SpeedTable
from workloads.checks import number, number_reason, reason, value_fault
from workloads.formats.text import TableSource, TextSource, open_text, read_rows, reject_frame
from workloads.progress import Meter
from workloads.rows import height
from workloads.schema import BY_NAME, MAX_COUNT, Column
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat
from workloads.training.speed_tables import GAVEL, load_speeds, reference_rows

FIELDS = ("job_type", "command", "folder", "steps_flag", "needs_data", "steps", "num_gpus", "weight", "slo",
          "submit_s")  # fmt: skip
"""Fields of a line."""
OLD_FIELDS = ("job_type", "command", "steps_flag", "needs_data", "steps", "submit_s", "num_gpus")
"""Fields of a line of the older form."""

NUMBERS = {
    "steps": replace(BY_NAME["steps"], null=None),
    "num_gpus": replace(BY_NAME["num_gpus"], dtype=pl.Int64(), minimum=1),
    "submit_s": BY_NAME["submit_s"],
    "weight": replace(BY_NAME["weight"], null=None),
    "slo": Column("slo", pl.Float64(), "", minimum=-MAX_COUNT, maximum=MAX_COUNT),
}
"""Allowed values of each number, under the names used in reject reasons."""

_JOB_TYPE = r"^(?<model>.*?)(?: \(batch size (?<batch>\d{1,6})\))?$"
_KEY = ("model", "batch", "num_gpus")


def read(paths: Sequence[Path], options: ConvertOptions, folder: Path, meter: Meter) -> Parsed:
    """Parse traces of either form; jobs are named by the position of their line over all files.

    Raises
    ------
    InvalidInputError : a file cannot be read, or the table of speeds cannot or has none on V100
    """
    table = load_speeds(options.speeds or GAVEL)
    sources = [_open(path) for path in paths]
    rows = read_rows(sources, partial(_query, speeds=_reference(table)), folder, meter)
    kept = rows.filter(pl.col("reason").is_null())
    jobs = kept.select(
        *("submit_s", "num_gpus", "duration_s", "model", "batch", "steps", "weight", "utility_due_s"),
        job_id=pl.col("row").cast(pl.String),
        trace_order="row",
    )
    return Parsed(
        jobs=jobs,
        rejects=reject_frame(sources, rows).lazy(),
        read=height(rows),
        options={"speeds": table.name, "speeds_sha256": table.sha256},
    )


def _open(path: Path) -> TextSource:
    """The file in the form that more of its lines have."""
    forms = (open_text(path, "\t", header=names, quotes=False) for names in (FIELDS, OLD_FIELDS))
    return max(forms, key=lambda source: height(source.rows({}).filter(pl.col("fault").is_null())))


def _reference(table: SpeedTable) -> pl.LazyFrame:
    """Speed on V100 by model, batch and number of GPUs."""
    rows = [(*row[:3], row.steps_per_s) for row in reference_rows(table)]
    schema = {"model": pl.String, "batch": pl.Int64, "num_gpus": pl.Float64, "steps_per_s": pl.Float64}
    return pl.LazyFrame(rows, schema, orient="row")


def _query(source: TableSource, speeds: pl.LazyFrame) -> pl.LazyFrame:
    """Columns of the schema for one file, and why a line is rejected."""
    found = [name for name in NUMBERS if name in source.header]
    texts = source.rows({"job_type": "job_type", **{f"text of {name}": name for name in found}})
    named = pl.col("job_type").str.extract_groups(_JOB_TYPE)
    absent = {name: pl.lit(None, pl.Float64) for name in NUMBERS if name not in found}
    # Separate steps, or polars would compute a value again for each use.
    valued = texts.with_columns(
        *(number(pl.col(f"text of {name}")).alias(name) for name in found),
        model=named.struct.field("model"),
        batch=named.struct.field("batch").cast(pl.Int64),
        **absent,
    )
    timed = valued.join(speeds, on=_KEY, how="left", nulls_equal=True, maintain_order="left").with_columns(
        duration_s=pl.col("steps") / pl.col("steps_per_s")
    )
    due = timed.with_columns(
        utility_due_s=pl.when(pl.col("slo") >= 0).then(pl.col("slo") * pl.col("duration_s"))
    )
    derived = ("duration_s", "utility_due_s")
    return due.with_columns(
        steps=pl.col("steps").cast(pl.Int64, strict=False),
        reason=pl.coalesce(
            "fault",
            pl.when(pl.col("model").is_null()).then(pl.lit("missing_model")),
            *(number_reason(NUMBERS[name], pl.col(f"text of {name}"), pl.col(name)) for name in found),
            pl.when(pl.col("steps_per_s").is_null()).then(pl.lit("no_entry_duration_s")),
            *(reason(value_fault(BY_NAME[name], pl.col(name)), name) for name in derived),
        ),
    )


FORMAT = TraceFormat(
    name="gavel",
    version="1",
    source="Stanford, traces of Gavel's simulator (OSDI 2020)",
    files="*.trace: 10 or 7 fields divided by tabs",
    page="docs/traces/gavel.md",
    read=read,
    options=frozenset({"speeds"}),
)
