"""The machine that figures come from."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a reader must know to make sense of a time, beside the versions of Python and packages."""

    processor: str
    """Name of the model."""
    cores: int
    """That this process may use."""
    memory_gib: float
    system: str

    @classmethod
    def here(cls) -> Self:
        """The one that this process runs on."""
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
