"""Report of a call of `ray-sim bench`, and its file."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import TypeAdapter, ValidationError

from benchmarks.measurement import Findings
from ray_sim.model.errors import InvalidInputError, problems_text
from workloads.files import replacing
from workloads.sources import require_regular

_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """Properties of a machine that affect times; reports list versions separately."""

    processor: str
    """Model name of the processor."""
    cores: int
    """Number of cores that this process may use."""
    memory_gib: float
    system: str

    @classmethod
    def here(cls) -> Self:
        """The machine of this process."""
        return cls(
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)),
            memory_gib=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
            system=f"{platform.system()} {platform.machine()}",
        )

    def to_dict(self) -> dict[str, str | int | float]:
        """Plain dict for JSON."""
        return asdict(self)


def _processor() -> str:
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.machine())


@dataclass(frozen=True, slots=True)
class BenchReport:
    """Figures and their circumstances, without a date: reports of one machine differ in figures only."""

    machine: Machine
    versions: Mapping[str, str]
    benchmarks: Mapping[str, Findings]
    format: Literal[1] = 1
    """Format version of the file."""

    @property
    def ok(self) -> bool:
        """Whether all benchmarks ran and met their budgets."""
        return all(findings.ok for findings in self.benchmarks.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        return {
            "format": self.format,
            "machine": self.machine.to_dict(),
            "versions": dict(self.versions),
            "benchmarks": {name: findings.to_dict() for name, findings in self.benchmarks.items()},
        }


_ADAPTER = TypeAdapter(BenchReport)


def write_report(report: BenchReport, path: Path) -> None:
    """Write a report as JSON, whole or not at all.

    Raises
    ------
    InvalidInputError : the file cannot be written
    """
    with replacing(path, is_report) as temporary:
        temporary.write_text(json.dumps(report.to_dict(), indent=2, ensure_ascii=False) + "\n")


def is_report(path: Path) -> bool:
    """Whether a file has the form of `write_report`."""
    try:
        read_report(path)
    except InvalidInputError:
        return False
    return True


def read_report(path: Path) -> BenchReport:
    """Read a file of `write_report`.

    Raises
    ------
    InvalidInputError : the file cannot be read, or has another form; the message lists every problem
    """
    advice = "expected what `ray-sim bench -o FILE` writes; make it anew"
    require_regular(path, InvalidInputError)
    try:
        return _ADAPTER.validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}; {advice}") from error
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, each['loc'])) or 'file'}: {each['msg']}"
            for each in error.errors(include_url=False)
        ]
        raise InvalidInputError(f"{problems_text(str(path), problems)}\n  {advice}") from error
