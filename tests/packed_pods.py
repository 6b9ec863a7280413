"""The published pod lists and orders of arrival of Q. Weng et al., Beware of Fragmentation, 2023."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from ray_sim.model.units import IntArray


@dataclass(frozen=True)
class Pods:
    """Pods in the order of the list: milli-cores, milli of each GPU, GPUs, and the text of accepted types."""

    cpu: IntArray
    gpu: IntArray
    """0 without GPUs."""
    gpus: IntArray
    types: list[str]

    @property
    def typical(self) -> list[tuple[int, int, int, str]]:
        return list(zip(self.cpu.tolist(), self.gpu.tolist(), self.gpus.tolist(), self.types, strict=True))


@cache
def pod_list(folder: Path, name: str) -> Pods:
    frame = pl.read_csv(folder / f"pods_{name}.csv.gz")
    types = frame["gpu_spec"].fill_null("").to_list() if "gpu_spec" in frame.columns else [""] * frame.height
    cpu, gpu, gpus = (
        frame[column].fill_null(0).to_numpy().astype(np.int64)
        for column in ("cpu_milli", "gpu_milli", "num_gpu")
    )
    return Pods(cpu, np.where(gpus > 0, gpu, 0), gpus, types)


@cache
def _orders(folder: Path) -> pl.DataFrame:
    return pl.read_csv(folder / "orders.csv.gz")


def orders(folder: Path, name: str, seed: int) -> dict[str, list[int]]:
    """Rows of pods and of servers in the order of one experiment."""
    rows = _orders(folder).filter(pl.col("pod_list") == name, pl.col("seed") == seed)
    return {
        what: [int(row) for row in order.split()] for what, order in rows.select("what", "order").iter_rows()
    }
