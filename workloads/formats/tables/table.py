"""Conversion of any table of jobs that has the schema's column names or a mapping to them.

Times are kept as they are unless the user asks to rebase them; dates become seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import polars as pl
from pydantic import JsonValue

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from workloads.formats.tables.advice import advice_on, form_warnings, ignored_columns
from workloads.formats.tables.files import JoinedSource, Reading, files_in, open_tables
from workloads.formats.tables.mapping import ColumnMapping, Join, parse_mapping
from workloads.formats.tables.mapping_faults import require_fit
from workloads.formats.tables.nodes import read_nodes
from workloads.formats.tables.query import rows_of
from workloads.formats.text import TableSource, collect_text, listed, read_rows, reject_frame
from workloads.progress import Meter
from workloads.rows import DUPLICATE_JOB, DuplicateRule, Replaced, keep_best, repeats
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

REQUIRED = ("submit_s", "duration_s", "num_gpus")

_TRIED_ROWS = 1000
"""Rows of a file by which it fits a preset or not."""

_UNIQUE = {"job_id", "trace_order"}
"""Columns of a file that have no repeats: over all rows, and within a vc."""


def read(
    paths: Sequence[Path],
    options: ConvertOptions,
    folder: Path,
    meter: Meter,
    *,
    preset: Path | None = None,
    opened: Sequence[TableSource] | None = None,
    first: int | None = None,
) -> Parsed:
    """Parse tables; without a column for them, job_id and trace_order are the row's number.

    Parameters
    ----------
    preset : mapping file in place of an option's
    opened : the tables of the paths, where they are no files
    first : read this many records of each table; None for all

    Raises
    ------
    InvalidInputError : the mapping file is wrong
    InvalidWorkloadError : a file is missing, unreadable, or without a required column
    """
    mapping, sources, nodes = _opened(paths, options, folder, preset, opened)
    if first is not None:
        sources = [source.head(first) for source in sources]
    cluster, node_warnings = _cluster_of(nodes, mapping, options, meter)
    for source in sources:
        _require(source, mapping)
    query = partial(rows_of, mapping=mapping, rebase=options.rebase)
    named = {name for source in sources for name in mapping.named(source)}
    meter.expect(len(_UNIQUE & named) * meter.all_bytes)  # rows are compared after they are read
    every = read_rows(sources, query, folder, meter).with_columns(
        job_id=pl.coalesce("job_id", pl.col("row").cast(pl.String)),
        trace_order=pl.coalesce("trace_order", "row"),
    )
    left_out = every.group_by("left_out").agg(pl.len()).sort("left_out").collect(engine="streaming")
    rows = every.filter(pl.col("left_out").is_null())
    rows, replaced = _reject_repeats(rows, named, folder, meter, mapping.duplicates)
    jobs = rows.filter(pl.col("reason").is_null())
    forms = _submission_forms(jobs, sources)
    notes = forms.notes(mapping)
    if options.rebase:
        held = jobs.collect_schema().names()
        jobs = jobs.with_columns(
            pl.col(name) - forms.first_s for name in ("submit_s", "birth_s") if name in held
        )
        notes |= forms.rebase_notes()
    ignored = ignored_columns(sources, mapping)
    return Parsed(
        jobs=jobs,
        rejects=reject_frame(sources, rows).lazy(),
        read=sum(left_out["len"]),
        left_out={name: count for name, count in left_out.iter_rows() if name is not None},
        options={"rebase": options.rebase, "mapping": mapping.recorded()},
        notes={**notes, **replaced.notes(), "ignored_columns": list(ignored)},
        warnings=(
            *((f"ignored columns: {', '.join(ignored)}",) if ignored and preset is None else ()),
            *forms.warnings(mapping),
            *form_warnings(rows, sources, mapping),
            *replaced.warnings(),
            *node_warnings,
        ),
        cluster=cluster,
        advice="" if forms.jobs else advice_on(rows, sources, mapping),
    )


def fits(preset: Path, paths: Sequence[Path], folder: Path) -> bool:
    """Whether files have the columns that a preset needs, and of the first rows more are kept than wrong."""
    try:
        mapping, sources, _ = _opened(paths, ConvertOptions(), folder, preset, None)
        for source in sources:
            _require(source, mapping)
        firsts = [rows_of(source, mapping, rebase=False).head(_TRIED_ROWS) for source in sources]
        sound = pl.col("reason").is_null()
        kept = (sound & pl.col("left_out").is_null()).sum()
        fitting = (kept > 0) & (kept >= (~sound).sum())
        return all(
            collect_text(source.path, rows.select(fitting)).item()
            for source, rows in zip(sources, firsts, strict=True)
        )
    except InvalidInputError:
        return False


def _opened(
    paths: Sequence[Path],
    options: ConvertOptions,
    folder: Path,
    preset: Path | None,
    opened: Sequence[TableSource] | None,
) -> tuple[ColumnMapping, list[TableSource], list[TableSource]]:
    """The mapping, the tables of jobs that it fits, and those of servers."""
    file = options.mapping or preset
    mapping, problems = (ColumnMapping(), []) if file is None else parse_mapping(file)
    if options.time_zone is not None:
        mapping = mapping.model_copy(update={"time_zone": options.time_zone})
    paths = files_in(paths)
    of_nodes = mapping.nodes
    servers = [] if of_nodes is None else [path for path in paths if fnmatch(path.name, of_nodes.file)]
    nodes = []
    if of_nodes is not None:
        nodes = open_tables(servers, lambda path: of_nodes.read, folder / "nodes", options.pool)
    jobs = [path for path in paths if path not in servers]
    reading = partial(_reading, mapping=mapping)
    sources = list(opened or open_tables(jobs, reading, folder / "jobs", options.pool))
    if not sources:
        raise InvalidInputError("all files are lists of servers (nodes.file); name one of jobs too")
    if mapping.join is not None:
        sources = _joined(sources, mapping.join)
    mapping = mapping.fitted(sources)
    if file is not None or options.time_zone is not None:
        require_fit(mapping, problems, file or Path("--time-zone"), sources, REQUIRED)
    if nodes and of_nodes is not None:
        require_fit(of_nodes.fitted(nodes), (), file or Path(), nodes)
    return mapping, sources, nodes


def _cluster_of(
    nodes: Sequence[TableSource], mapping: ColumnMapping, options: ConvertOptions, meter: Meter
) -> tuple[Cluster | None, tuple[str, ...]]:
    """The servers as a cluster if it is wanted, and warnings."""
    if not options.cluster:
        return None, ()
    if mapping.nodes is None or not nodes:
        raise InvalidInputError(
            "there is no list of servers to write a cluster of; say how it is read under `nodes` in a "
            "mapping file (--map), with its name under `file`"
        )
    return read_nodes(nodes, mapping.nodes.fitted(nodes), nodes[0].path.stem, meter)


def _reading(path: Path, mapping: ColumnMapping) -> Reading:
    """How one of the files is read."""
    if mapping.join is None or not fnmatch(path.name, mapping.join.file):
        return mapping.read
    return mapping.read.model_copy(update={"header": mapping.join.header})


def _joined(sources: Sequence[TableSource], join: Join) -> list[TableSource]:
    """The tables without the second one, each with its columns."""
    second = [source for source in sources if fnmatch(source.path.name, join.file)]
    first = [source for source in sources if source not in second]
    if len(second) != 1 or not first:
        names = ", ".join(source.path.name for source in sources)
        raise InvalidInputError(
            f"join.file '{join.file}' fits {len(second)} of the files {names}; name one such table, and the "
            "table of jobs"
        )
    second[0].require(list(join.on.values()))
    for source in first:
        source.require(list(join.on))
    return [JoinedSource.of(source, second[0], join.name, join.on) for source in first]


def _require(source: TableSource, mapping: ColumnMapping) -> None:
    have = {*mapping.named(source), *mapping.constants}
    if missing := [name for name in REQUIRED if name not in have]:
        raise InvalidWorkloadError(
            f"{source.path}: required columns missing: {', '.join(missing)};"
            f" found: {listed(source.header)}"
            f"{source.other_separator or '; name theirs under `columns` in a mapping file (--map)'}"
        )


def _reject_repeats(
    rows: pl.LazyFrame, named: Collection[str], folder: Path, meter: Meter, rule: DuplicateRule
) -> tuple[pl.LazyFrame, Replaced]:
    """Reject all but the best record of each job, and rows whose order in their vc an earlier row has.

    A job whose best record has the order of another's keeps its best one with an order of its own.
    """
    while True:
        kept, replaced = rows, Replaced()
        if "job_id" in named:
            kept, replaced = keep_best(rows, folder, meter.step(meter.all_bytes, "comparing job_id"), rule)
        if "trace_order" not in named:
            return kept, replaced
        sound = kept.filter(pl.col("reason").is_null())
        again = repeats(
            sound, ["vc", "trace_order"], folder, meter.step(meter.all_bytes, "comparing trace_order")
        )
        if again.is_empty():
            return kept, replaced
        repeated = pl.col("row").is_in(again.implode())
        why = pl.coalesce("reason", pl.when(repeated).then(pl.lit("duplicate_trace_order")))
        others = kept.filter(pl.col("reason") == DUPLICATE_JOB).select("job_id").unique()
        lost = kept.filter(repeated).join(others, on="job_id", how="semi").select("row").collect()["row"]
        if lost.is_empty():
            return kept.with_columns(reason=why), replaced
        rows = rows.with_columns(
            reason=pl.coalesce(
                "reason", pl.when(pl.col("row").is_in(lost.implode())).then(pl.lit("duplicate_trace_order"))
            )
        )


@dataclass(frozen=True, slots=True)
class _SubmissionForms:
    """Counts of the forms in which the kept jobs' submissions are written."""

    jobs: int
    dated: int
    """Jobs whose submission is a date; the others have numbers."""
    local: int
    """Jobs whose submission is a date without a UTC offset."""
    ambiguous: int
    """Jobs submitted in an hour that the clocks showed twice."""
    first_s: float
    """Earliest submission; 0 without jobs."""
    first_local: str
    """File and line of the first date without an offset where others have one; empty elsewhere."""

    def notes(self, mapping: ColumnMapping) -> dict[str, JsonValue]:
        if not self.dated:
            return {}
        return {
            "epoch_utc": datetime.fromtimestamp(0, UTC).isoformat(),
            "time_zone": mapping.time_zone or "UTC",
            "ambiguous_local_times": self.ambiguous,
            "ambiguous_local_times_read_as": "earliest",
        }

    def rebase_notes(self) -> dict[str, JsonValue]:
        if not self.dated:
            return {"rebased_by_s": self.first_s}
        zero = datetime.fromtimestamp(self.first_s, UTC).isoformat()
        return {"rebased_by_s": self.first_s, "epoch_utc": zero}

    def warnings(self, mapping: ColumnMapping) -> Iterator[str]:
        if 0 < self.dated < self.jobs:
            yield (
                f"submit_s: {self.dated:,} rows have dates and {self.jobs - self.dated:,} have numbers, which"
                " are taken as seconds since 1970 in UTC"
            )
        if mapping.time_zone is None and self.first_local:
            yield (
                f"submit_s: {self.local:,} of {self.dated:,} dates have no offset from UTC, first in"
                f" {self.first_local}; they are taken as UTC. If they are local times, give their zone as"
                " time_zone in a mapping file (--map)"
            )
        if self.ambiguous:
            yield (
                f"submit_s: {self.ambiguous:,} of {self.dated:,} dates are in an hour that came twice, as the"
                " clocks went back; they are taken as of its first pass"
            )
        if mapping.time_zone is not None and self.jobs and not self.local:
            yield f"time_zone {mapping.time_zone}: not used, as no kept row has a date without an offset"


def _submission_forms(jobs: pl.LazyFrame, sources: Sequence[TableSource]) -> _SubmissionForms:
    counts = [pl.col(name).sum() for name in ("dated", "local", "ambiguous")]
    facts = jobs.select(pl.len().alias("jobs"), *counts, first_s=pl.col("submit_s").min().fill_null(0))
    forms = facts.collect(engine="streaming").row(0, named=True)
    place = ""
    if 0 < forms["local"] < forms["dated"]:
        lines = jobs.filter("local").select("source", "line").sort("source", "line").head(1)
        source, line = lines.collect(engine="streaming").row(0)
        place = f"{sources[source].path.name}, line {line}"
    return _SubmissionForms(**forms, first_local=place)


OPTIONS = frozenset({"mapping", "rebase", "time_zone", "cluster"})

FORMAT = TraceFormat(
    name="csv",
    version="4",
    source="any",
    files="a table (CSV, JSON, Parquet), or its parts; --map where its columns have other names",
    page="docs/workloads.md#format-csv",
    read=read,
    options=OPTIONS,
    find=lambda paths: {path: path.name for path in files_in(paths)},
)
