"""Description of the machine of a measurement."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

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
