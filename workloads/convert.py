"""Convert the files of a trace to a workload file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from pydantic import JsonValue

from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from ray_sim.model.html import facts_html
from ray_sim.model.readable import number
from workloads.describe import setting_text
from workloads.files import (
    replacing,
    require_file,
    require_folder_of,
    require_other_file,
    require_replaceable,
)
from workloads.formats.registry import find_format
from workloads.progress import Meter, Progress, silent
from workloads.provenance import Counts, Provenance, SourceFile
from workloads.realisation import Window
from workloads.rows import height
from workloads.sanity import sanity_warnings
from workloads.store import has_metadata, has_provenance, write_rows
from workloads.trace_format import ConvertOptions, Parsed, TraceFormat

EXAMPLE_CHARACTERS = 100
"""Characters of a rejected row that an error shows."""


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """Counts and files of a conversion. Each row read is kept, left out, rejected, or outside the window."""

    format: str
    sources: tuple[Path, ...]
    out: Path
    rejects: Path | None
    """File of the rejected rows; None where there are none."""
    read: int
    kept: int
    rejected: dict[str, int]
    """Rows by reason."""
    left_out: dict[str, int]
    """Rows that are no jobs, by the name of the mapping's condition."""
    outside_window: int
    warnings: tuple[str, ...]
    notes: dict[str, JsonValue]
    cluster: Cluster | None = None
    """The trace's machines, if requested."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Plain values, for JSON."""
        return {
            "format": self.format,
            "sources": [str(path) for path in self.sources],
            "out": str(self.out),
            "rejects": None if self.rejects is None else str(self.rejects),
            "read": self.read,
            "kept": self.kept,
            "rejected": dict(self.rejected),
            "left_out": dict(self.left_out),
            "outside_window": self.outside_window,
            "warnings": list(self.warnings),
            "notes": self.notes,
        }

    def rows(self) -> list[tuple[str, str | int]]:
        """Label and value of each line of the printed table."""
        return [
            ("workload", str(self.out)),
            *self.count_rows(),
            *([("rejects", str(self.rejects))] if self.rejects else []),
            *self.note_rows(),
        ]

    def count_rows(self) -> list[tuple[str, int]]:
        """Label and number of the rows read, kept, outside the window, and rejected for each reason."""
        return [
            ("rows read", self.read),
            ("rows kept", self.kept),
            *([("rows outside the window", self.outside_window)] if self.outside_window else []),
            *((f"left out, {name}", count) for name, count in self.left_out.items()),
            *((f"rejected, {reason}", count) for reason, count in self.rejected.items()),
        ]

    def note_rows(self) -> list[tuple[str, str | int]]:
        """Name and value of the notes, without those that count nothing and what depends on them."""
        nothing = tuple(name for name, value in self.notes.items() if not value)
        return [
            (name, value if type(value) is int else setting_text(value))
            for name, value in self.notes.items()
            if not name.startswith(nothing)
        ]

    def _repr_html_(self) -> str:
        facts = [(label, number(value)) for label, value in self.rows()]
        return facts_html(f"converted from {self.format}", facts, "; ".join(self.warnings))


_REJECTS_KEY = "ray_sim_rejects"
"""Key in the Parquet metadata of rejected rows."""


def convert(
    format_name: str | TraceFormat,
    sources: Sequence[Path],
    out: Path,
    *,
    options: ConvertOptions | None = None,
    window: Window | None = None,
    rejects: Path | None = None,
    progress: Progress = silent,
) -> ConversionReport:
    """Convert trace files of one format to the workload file ``out``.

    Parameters
    ----------
    window : keep only the jobs whose submit_s, as in ``out`` without a window, is in it
    rejects : file of the rejected rows, by default ``out`` with ``.rejects.parquet`` appended; without
        rejected rows, an old file of that name is removed
    progress : called with the percent of the work done, 100, and the name of the current step

    Raises
    ------
    UnknownNameError : no such format
    InvalidWorkloadError : a source is missing, empty, unreadable, of another format, or has no sound row
    InvalidInputError : an option that the format does not take, or a file that cannot be written
    """
    trace_format = find_format(format_name) if isinstance(format_name, str) else format_name
    options = options or ConvertOptions()
    require_folder_of(out)
    rejects = rejects or out.with_name(f"{out.name}.rejects.parquet")
    _check_options(trace_format, options)
    if not sources:
        raise InvalidInputError("no source file given; name at least one trace file")
    named = trace_format.find(sources)
    _check_paths(sources, [*named], out, rejects)
    meter = Meter(named, progress)
    meter.expect(meter.all_bytes)  # jobs are put into order and written after they are read
    meter.advance(0, "hashing the sources")
    hashed = tuple(SourceFile.of(path, name) for path, name in named.items())
    _check_contents(hashed)
    with TemporaryDirectory(prefix="ray-sim-") as folder:
        parsed = trace_format.read(sources, options, Path(folder), meter)
        counted = meter.step(meter.all_bytes, f"writing {out.name}")
        jobs = parsed.jobs if window is None else parsed.jobs.filter(window.holds(pl.col("submit_s")))
        counts = _count(parsed, jobs)
        if counts.kept == 0:
            raise InvalidWorkloadError(_nothing_kept_text(sources, counts, parsed, rejects))
        provenance = Provenance(
            sources=hashed,
            converter=trace_format.name,
            converter_version=trace_format.version,
            options=parsed.options | ({} if window is None else {"window_s": [window.from_s, window.to_s]}),
            seed=parsed.seed,
            counts=counts,
            notes=parsed.notes,
        )
        write_rows(jobs, counts.kept, provenance, out, Path(folder), counted)
        written = _write_rejects(parsed.rejects, counts, rejects)
        absurd = sanity_warnings(parsed.jobs, float(str(parsed.notes.get("rebased_by_s", 0))))
    return ConversionReport(
        format=trace_format.name,
        sources=tuple(sources),
        out=out,
        rejects=written,
        read=counts.read,
        kept=counts.kept,
        rejected=counts.rejected,
        left_out=counts.left_out,
        outside_window=counts.outside_window,
        warnings=(*parsed.warnings, *absurd),
        notes=parsed.notes,
        cluster=parsed.cluster,
    )


def _check_options(trace_format: TraceFormat, options: ConvertOptions) -> None:
    for option in dataclasses.fields(options):
        chosen = option.compare and getattr(options, option.name) != option.default
        if chosen and option.name not in trace_format.options:
            takes = ", ".join(sorted(trace_format.options)) or "none"
            raise InvalidInputError(
                f"format {trace_format.name} does not take the option '{option.name}'; it takes: {takes}"
            )


def _check_paths(sources: Sequence[Path], files: Sequence[Path], out: Path, rejects: Path) -> None:
    """Raise unless the files can be read, and the outputs written without harm to them."""
    for path in files:
        require_file(path)
    seen = [path.resolve() for path in files]
    given = [path.resolve() for path in sources]
    if len(set(given)) < len(given) or len(set(seen)) < len(seen):
        raise InvalidInputError("a source file is given twice; its jobs would be counted twice")
    for path, is_ours in ((out, has_provenance), (rejects, _is_rejects)):
        for source in files:
            require_other_file(source, path)
        require_replaceable(path, is_ours)
    if os.path.realpath(out) == os.path.realpath(rejects):
        raise InvalidInputError(f"{out}: named for both the workload and the rejects; choose another name")


def _check_contents(sources: Sequence[SourceFile]) -> None:
    """Raise if two files have the same content."""
    first: dict[str, str] = {}
    for source in sources:
        if source.sha256 in first:
            raise InvalidInputError(
                f"{first[source.sha256]} and {source.name} have the same content; their jobs would be"
                " counted twice"
            )
        first[source.sha256] = source.name


def _count(parsed: Parsed, jobs: pl.LazyFrame) -> Counts:
    by_reason = parsed.rejects.group_by("reason").agg(pl.len()).sort("reason").collect(engine="streaming")
    tally = dict(by_reason.iter_rows())
    sound, kept, rejected = height(parsed.jobs), height(jobs), sum(tally.values())
    left_out = sum(parsed.left_out.values())
    told = f"read {parsed.read}, sound {sound}, rejected {rejected}, left out {left_out}"
    assert parsed.read == sound + rejected + left_out, told
    return Counts(
        read=parsed.read, kept=kept, rejected=tally, left_out=parsed.left_out, outside_window=sound - kept
    )


def _nothing_kept_text(sources: Sequence[Path], counts: Counts, parsed: Parsed, rejects: Path) -> str:
    """Error text where no row is kept. Writes the file of rejected rows and names it."""
    names = ", ".join(str(path) for path in sources)
    if counts.read == 0:
        return f"{names}: no rows after the header; convert a trace that has some"
    tally = (
        counts.left_out
        | counts.rejected
        | ({"outside the window": counts.outside_window} if counts.outside_window else {})
    )
    reasons = ", ".join(f"{reason} {count}" for reason, count in tally.items())
    text = f"{names}: none of {counts.read} rows can be kept ({reasons})"
    hints = ["check the window"] if counts.outside_window else []
    if counts.rejected:
        _write_rejects(parsed.rejects, counts, rejects)
        advice = parsed.advice or _example(parsed.rejects, counts)
        hints += [advice, f"the rejected rows are in {rejects}"]
    return "; ".join([text, *hints])


def _example(rejects: pl.LazyFrame, counts: Counts) -> str:
    reason = max(counts.rejected, key=counts.rejected.__getitem__)
    where, begin = first_reject(rejects, reason)
    return f"{reason}, for example, is {where}: {begin!r}; check the format and its units"


def first_reject(rejects: pl.LazyFrame, reason: str) -> tuple[str, str]:
    """Place and begin of the first row that was rejected for a reason, as there is one."""
    source, line, _, text = rejects.filter(pl.col("reason") == reason).head(1).collect().row(0)
    begin = text[:EXAMPLE_CHARACTERS] + ("..." if len(text) > EXAMPLE_CHARACTERS else "")
    return f"line or record {line} of {source}", begin


def _write_rejects(rejects: pl.LazyFrame, counts: Counts, path: Path) -> Path | None:
    """Write the rejected rows if there are any; otherwise remove the file of an earlier conversion."""
    if not counts.rejected:
        require_replaceable(path, _is_rejects)
        path.unlink(missing_ok=True)
        return None
    with replacing(path, _is_rejects) as temporary:
        rejects.sink_parquet(temporary, metadata={_REJECTS_KEY: "rows that a conversion rejected"})
    return path


def _is_rejects(path: Path) -> bool:
    return has_metadata(path, _REJECTS_KEY)
