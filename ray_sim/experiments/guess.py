"""Guess the mapping of tables, write it, and convert them by it; called by `ray-sim convert --guess`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ray_sim.experiments.workload_info import WorkloadInfo, describe_workload
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from workloads.convert import convert
from workloads.describe import Workload
from workloads.files import is_signed, replacing, require_file, require_replaceable, signed
from workloads.formats.guessing.guess import Guess, guess_mapping
from workloads.formats.registry import presets
from workloads.formats.tables import table
from workloads.sources import Source, local_path
from workloads.trace_format import ConvertOptions

FIRST_ROWS = 1000
"""Rows of each file by which a mapping is tried."""


@dataclass(frozen=True, slots=True)
class GuessReport:
    """A guessed mapping, and the workload that tables become by it."""

    guess: Guess
    mapping: Path
    """The mapping file."""
    command: str
    """Command that converts all rows with it."""
    workload: WorkloadInfo | None
    """None where nothing can be converted."""
    warnings: Sequence[str]
    """Warnings of the trial conversion."""
    problem: str
    """Why there is no workload, or not that of all rows; empty for nothing."""

    def to_dict(self) -> dict[str, object]:
        """Plain nested values, for JSON."""
        rows = self.guess.proposal.rows()
        return {
            "preset": self.guess.preset,
            "taken_for": self.guess.taken_for,
            "columns": [{"column": ours, "theirs": theirs, "evidence": why} for ours, theirs, why in rows],
            "doubts": self.guess.proposal.doubts(),
            "missing": self.guess.missing,
            "left": self.guess.left,
            "mapping": str(self.mapping),
            "command": self.command,
            "workload": None if self.workload is None else self.workload.to_dict(),
            "warnings": [*self.warnings],
            "problem": self.problem,
        }


def guess_files(
    sources: Sequence[Source], out: Path | None, map_out: Path | None = None, time_zone: str | None = None
) -> GuessReport:
    """Guess the mapping of tables of one kind, write it, and convert them.

    Parameters
    ----------
    out : file of the workload, written if no number of it is in doubt; None to convert the first rows only
    map_out : the mapping file; None is named after the first source

    Raises
    ------
    InvalidInputError : a file cannot be read, or the mapping file is not as it was written
    InvalidWorkloadError : a source is of no form of records
    """
    if not sources:
        raise InvalidInputError("--guess: name at least one table of jobs")
    paths = [local_path(str(source)) for source in sources]
    for path in paths:
        require_file(path)
    mapping = map_out or Path(f"{paths[0]}.map.yaml")
    require_replaceable(mapping, is_signed)
    names = [str(name) for name in (*paths, "--map", mapping, "-o", out or "W.parquet")]
    command = shlex.join(["ray-sim", "convert", "csv", *names])
    with TemporaryDirectory(prefix="ray-sim-") as folder:
        guess = guess_mapping(paths, Path(folder), time_zone, presets())
        left = f"columns that are left: {', '.join(map(repr, guess.left)) or 'none'}"
        problem = f"{', '.join(guess.missing)} not found; {left}" if guess.missing else ""
        head = f"Guessed by ray-sim convert --guess: {guess.taken_for}; {left}.\n"
        head += f"DOUBT: {problem}\n" if problem else ""
        text = guess.proposal.text(f"{head}Settle each DOUBT, then: {command}")
        with replacing(mapping, is_signed) as temporary:
            temporary.write_bytes(signed(text.encode()))
        if problem:
            return GuessReport(guess, mapping, command, None, (), problem)
        if out is not None and guess.proposal.doubts(of_numbers=True):
            problem, out = f"{out} is not written before the doubts are settled in {mapping}", None
        try:
            workload, warnings = _converted(paths, mapping, out, Path(folder))
        except InvalidWorkloadError as error:
            why = str(error).partition("; the rejected rows are in")[0]
            return GuessReport(guess, mapping, command, None, (), why)
    return GuessReport(guess, mapping, command, workload, warnings, problem)


def _converted(
    paths: Sequence[Path], mapping: Path, out: Path | None, folder: Path
) -> tuple[WorkloadInfo, tuple[str, ...]]:
    """The workload of all rows, or of the first ones where it is not to be kept, and warnings."""
    options = ConvertOptions(mapping=mapping)
    if out is not None:
        warnings = convert("csv", paths, out, options=options).warnings
        return describe_workload(out), warnings
    few = replace(table.FORMAT, read=partial(table.read, first=FIRST_ROWS))
    report = convert(few, paths, folder / "first.parquet", options=options)
    name = f"the first {FIRST_ROWS:,} rows of each file"
    return describe_workload(replace(Workload.read(report.out), path=name)), report.warnings
