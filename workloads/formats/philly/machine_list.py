"""Read the machine list of the Philly trace, and find contradictions between it and the job log.

Used by the reader of the job log for `ray-sim convert philly`. The list changes no job; its warnings appear
in conversion reports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from workloads.checks import number
from workloads.formats.philly.job import LoggedJob
from workloads.formats.text import open_text
from workloads.meter import Meter

NAME, GPUS = "machineId", "number of GPUs"
"""Columns of the list that are read; others are ignored."""

EXAMPLES = 3
"""Machines that a warning names."""

# A machine with n GPUs has gpu0 to gpu(n - 1).
_GPU_NAME = re.compile(r"gpu(\d{1,6})")


@dataclass(slots=True)
class MachineList:
    """Listed machines with their GPUs, and the contradictions found so far."""

    gpus_of: dict[str, int]
    """Number of GPUs by machine; empty without a list."""
    unreadable: int = 0
    """Rows of the list that are damaged, have no name, or have no number of at least 0."""
    beyond: dict[str, str] = field(default_factory=dict)
    """First GPU that ran a job although the list has too few for it, by machine."""
    unlisted: dict[str, None] = field(default_factory=dict)
    """Machines that ran jobs and are not in the list, in order of discovery; the values mean nothing."""

    def check(self, job: LoggedJob) -> None:
        """Compare the machines and GPUs of a job with the list, if there is one."""
        if not self.gpus_of:
            return
        for attempt in job.attempts:
            for machine, gpus in attempt.gpus.items():
                if machine not in self.gpus_of:
                    self.unlisted[machine] = None
                elif machine not in self.beyond:
                    self._check_gpus(machine, gpus)

    def _check_gpus(self, machine: str, gpus: Sequence[str]) -> None:
        for gpu in gpus:
            match = _GPU_NAME.fullmatch(gpu)
            if match and int(match[1]) >= self.gpus_of[machine]:
                self.beyond[machine] = gpu

    def warnings(self) -> tuple[str, ...]:
        """One sentence for each kind of contradiction. Conversion uses the log's GPUs, not the list's."""
        found = []
        if self.unreadable:
            found.append(f"machine list: {self.unreadable} rows without a name or number are ignored")
        if self.beyond:
            examples = [
                f"{machine} ({gpu} used, {self.gpus_of[machine]} GPUs listed)"
                for machine, gpu in self.beyond.items()
            ]
            found.append(f"machine list: too few GPUs on {len(examples)} machines: {_some(examples)}")
        if self.unlisted:
            found.append(f"machine list: {len(self.unlisted)} machines missing: {_some([*self.unlisted])}")
        return tuple(found)


def read_machines(paths: Sequence[Path], meter: Meter) -> MachineList:
    """Read machine lists; a machine listed twice has the last number.

    Raises
    ------
    InvalidWorkloadError : a file is unreadable or lacks a column
    """
    machines = MachineList({})
    for path in paths:
        meter.begin(path)
        source = open_text(path, ",")
        source.require((NAME, GPUS))
        rows = source.collect(
            source.rows({"name": NAME, "gpus": GPUS}).with_columns(
                gpus=number(pl.col("gpus")).cast(pl.Int64, strict=False)
            )
        )
        valid = rows.filter(pl.col("fault").is_null() & pl.col("name").is_not_null() & (pl.col("gpus") >= 0))
        machines.gpus_of |= dict(valid.select("name", "gpus").iter_rows())
        machines.unreadable += rows.height - valid.height
    return machines


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:EXAMPLES]) + (", ..." if len(names) > EXAMPLES else "")
