"""`ray-sim convert --guess`: guess the mapping of tables, write it, and try it on them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ray_sim.experiments.workload_info import WorkloadInfo, describe_workload
from ray_sim.model.errors import InvalidInputError, InvalidWorkloadError
from workloads.convert import ConversionReport, convert
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
    taken_for: str
    """What the tables are taken for, and why."""
    mapping: Path
    """The mapping file."""
    command: str
    """Command that converts all rows with it."""
    conversion: ConversionReport | None
    """None where nothing can be converted."""
    workload: WorkloadInfo | None
    problem: str
    """Why there is no workload, or not that of all rows; empty for nothing."""

    def to_dict(self) -> dict[str, object]:
        """Plain nested values, for JSON."""
        names = ("column", "theirs", "unit", "evidence")
        return {
            "preset": self.guess.preset,
            "taken_for": self.taken_for,
            "columns": [dict(zip(names, row, strict=True)) for row in self.guess.proposal.rows()],
            "doubts": self.guess.proposal.doubts(),
            "missing": self.guess.missing,
            "left": self.guess.left,
            "mapping": str(self.mapping),
            "command": self.command,
            "problem": self.problem,
            "conversion": None if self.conversion is None else self.conversion.to_dict(),
            "workload": None if self.workload is None else self.workload.to_dict(),
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
    command = shlex.join(
        ["ray-sim", "convert", "csv", *map(str, paths), "--map", str(mapping), "-o", str(out or "W.parquet")]
    )
    with TemporaryDirectory(prefix="ray-sim-") as folder:
        guess = guess_mapping(paths, Path(folder), time_zone, presets())
        taken_for = f"no preset fits, proposed from {guess.rows:,} rows"
        if guess.preset is not None:
            named = guess.proposal.mapping.read.header is None
            why = (
                "as its columns are there"
                if named
                else "without a header, as many columns fit by their values"
            )
            taken_for = f"preset {guess.preset}, {why}: {', '.join(guess.told)}"
        left = ", ".join(map(repr, guess.left)) or "none"
        problem = (
            f"{', '.join(guess.missing)} not found; columns that are left: {left}" if guess.missing else ""
        )
        head = f"Guessed by ray-sim convert --guess: {taken_for}.\nColumns that are not read: {left}\n"
        head += f"Settle each DOUBT, then: {command}"
        text = guess.proposal.text(f"{head}\nDOUBT: {problem}" if problem else head)
        with replacing(mapping, is_signed) as temporary:
            temporary.write_bytes(signed(text.encode()))
        conversion = workload = None
        if not problem:
            doubts = guess.proposal.doubts(of_numbers=True)
            if doubts and out is not None:
                problem = f"{out} is not written before the doubts are settled in {mapping}"
            try:
                conversion, workload = _converted(paths, mapping, None if doubts else out, Path(folder))
            except InvalidWorkloadError as error:
                problem = str(error).partition("; the rejected rows are in")[0]
    return GuessReport(guess, taken_for, mapping, command, conversion, workload, problem)


def _converted(
    paths: Sequence[Path], mapping: Path, out: Path | None, folder: Path
) -> tuple[ConversionReport, WorkloadInfo]:
    """The workload of all rows, or of the first ones where it is not to be kept."""
    options = ConvertOptions(mapping=mapping)
    if out is not None:
        return convert("csv", paths, out, options=options), describe_workload(out)
    few = replace(table.FORMAT, read=partial(table.read, first=FIRST_ROWS))
    conversion = convert(few, paths, folder / "first.parquet", options=options)
    workload = Workload.read(conversion.out)
    named = replace(workload, path=f"the first {FIRST_ROWS:,} rows of each file")
    return conversion, describe_workload(named)
