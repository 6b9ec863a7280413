"""Ways to write small traces and to find the real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from workloads.schema import with_all_columns

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("RAY_SIM_SHARED", ROOT.parent / "shared"))


@pytest.fixture
def real() -> Callable[[str], Path]:
    """Path of a real trace, or a skip where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"real trace {name} is not here; set RAY_SIM_SHARED to the folder that has it")
        return path

    return find


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Path]:
    """Write a trace file."""

    def write(text: str | bytes, name: str = "trace.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.fixture
def jobs() -> Callable[..., pl.DataFrame]:
    """A workload frame of n jobs, one a minute, one GPU and 60 s each, unless said otherwise."""

    def make(n: int = 3, **columns: list[object]) -> pl.DataFrame:
        base: dict[str, list[object]] = {
            "job_id": [f"job-{i}" for i in range(n)],
            "trace_order": list(range(n)),
            "submit_s": [60.0 * i for i in range(n)],
            "num_gpus": [1.0] * n,
            "duration_s": [60.0] * n,
        }
        frame = pl.DataFrame({**base, **columns})
        return with_all_columns(frame)

    return make
