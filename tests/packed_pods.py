"""The published pod lists, servers and orders, and a replay of pods that never leave: one kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64, Bool
from ray_sim.kernels.core.fragmentation import fragments, new_target, typical_tasks
from ray_sim.kernels.core.server_scores import (
    RANDOM,
    SCORED_RULES,
    Ask,
    ScoreBook,
    Scoring,
    Servers,
    choose_device,
    choose_server,
    new_score_book,
    tag_of,
    take_devices,
)
from ray_sim.kernels.planning.random_bits import substate
from ray_sim.model.streams import Streams

DEVICES, TAGS = 8, 9


def _whole(frame: pl.DataFrame, name: str) -> I64:
    return frame[name].to_numpy().astype(np.int64)


@dataclass(frozen=True)
class Pods:
    """Pods in the order of the list: milli of each GPU, GPUs, and the class of equal demands and types."""

    cpu: I64
    memory: I64
    gpu: I64
    gpus: I64
    task: I64
    types: list[str]
    class_types: list[str]
    """Text of the types of each class."""

    @classmethod
    def of(cls, frame: pl.DataFrame) -> Pods:
        types = frame["gpu_spec"].fill_null("") if "gpu_spec" in frame.columns else [""] * frame.height
        frame = frame.with_columns(types=pl.Series(types), gpu_milli=pl.col("gpu_milli").fill_null(0))
        columns = ["cpu_milli", "memory_mib", "gpu_milli", "num_gpu", "types"]
        frame = frame.with_columns(
            pl.when(pl.col("num_gpu") > 0).then("gpu_milli").otherwise(0).alias("gpu_milli")
        )
        groups = frame.select(columns).unique(maintain_order=True).with_row_index("task")
        task = frame.join(groups, on=columns, how="left", maintain_order="left")["task"]
        cpu, memory, gpu, gpus = (_whole(frame, name) for name in columns[:4])
        task_types = frame["types"].to_list(), groups["types"].to_list()
        return cls(cpu, memory, gpu, gpus, task.to_numpy().astype(np.int64), *task_types)

    @property
    def typical(self) -> list[tuple[int, int, int, str]]:
        return list(zip(self.cpu.tolist(), self.gpu.tolist(), self.gpus.tolist(), self.types, strict=True))


@dataclass(frozen=True)
class Cluster:
    """Servers in the order that breaks ties."""

    cpu: I64
    memory: I64
    gpus: I64
    model: list[str | None]


@cache
def pod_list(folder: Path, name: str) -> Pods:
    return Pods.of(pl.read_csv(folder / f"pods_{name}.csv.gz"))


def cluster_in_order(folder: Path, order: list[int]) -> Cluster:
    nodes = pl.read_csv(folder / "nodes_openb_gpu.csv.gz")[order]
    cpu, memory, gpus = (_whole(nodes, name) for name in ("cpu_milli", "memory_mib", "gpu"))
    return Cluster(cpu, memory, gpus, nodes["model"].to_list())


@cache
def _orders(folder: Path) -> pl.DataFrame:
    return pl.read_csv(folder / "orders.csv.gz")


def orders(folder: Path, name: str, seed: int) -> dict[str, list[int]]:
    """Rows of pods and of servers in the order of one experiment."""
    listed = "default" if name == "gpuspec33" else name  # the same order serves both
    rows = _orders(folder).filter(pl.col("pod_list") == listed, pl.col("seed") == seed)
    return {
        what: [int(row) for row in order.split()] for what, order in rows.select("what", "order").iter_rows()
    }


@dataclass(frozen=True)
class Replayed:
    """What became of each pod, in the order of arrival, and the state after it in milli."""

    server: I64
    device: I64
    arrived: F64
    used: F64
    frag: F64
    classes: F64
    """(7,) free GPU milli by class at the end."""
    free: Servers


def replay(pods: Pods, order: list[int], cluster: Cluster, rule: str, seed: int = 0) -> Replayed:
    """Place or reject each pod in turn."""
    kinds = sorted({model or "" for model in cluster.model})
    n, rows = len(cluster.cpu), np.array(order)
    target = new_target(typical_tasks(pods.typical), [kind or None for kind in kinds])
    kind = np.array([kinds.index(model or "") for model in cluster.model])
    scoring = Scoring(int(cluster.cpu.max()), int(1000 * cluster.gpus.max()), cluster.gpus, kind, target)
    pools = [
        np.array([i for i in range(n) if not types or cluster.model[i] in types.split("|")], dtype=np.int64)
        for types in pods.class_types
    ]
    ptr = np.cumsum([0, *map(len, pools)])
    device = np.where(np.arange(DEVICES) < cluster.gpus[:, None], 1000, 0)
    free = Servers(cluster.cpu.copy(), cluster.memory.copy(), device, np.zeros((n, TAGS), dtype=np.int64))
    book = new_score_book(n, DEVICES, TAGS)
    placed, on, frag = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), np.empty(len(rows))
    asks = tuple(column[rows] for column in (pods.task, pods.cpu, pods.memory, pods.gpu, pods.gpus))
    state = Streams(seed).states("placement", np.zeros(1, dtype=np.int64))[0]
    each, there = np.empty(n), np.ones(n, dtype=np.bool_)
    number, servers = SCORED_RULES.index(rule), np.concatenate(pools)
    _replay(number, scoring, free, servers, ptr, there, asks, state, book, each, placed, on, frag)
    asked = (pods.gpu * pods.gpus)[rows]
    classes, total = np.zeros(7), np.zeros(7)
    for i in range(n):
        fragments(target, free.cpu[i], free.device[i], kind[i], classes)
        total += classes
    return Replayed(
        placed, on, np.cumsum(asked) * 1.0, np.cumsum(asked * (placed >= 0)) * 1.0, frag, total, free
    )


@kernel
def _replay(
    rule: int, scoring: Scoring, free: Servers, pools: I64, ptr: I64, there: Bool,
    asks: tuple[I64, I64, I64, I64, I64], state: np.uint64, book: ScoreBook, each: F64,
    placed: I64, on: I64, frag: F64,
) -> None:  # fmt: skip
    total = 0.0
    for i in range(len(there)):
        each[i] = fragments(scoring.target, free.cpu[i], free.device[i], scoring.kind[i], book.classes)
        total += each[i]
    for at in range(len(placed)):
        ask = Ask(asks[0][at], asks[1][at], asks[2][at], asks[3][at], asks[4][at])
        pool = (
            pools[ptr[ask.task] : ptr[ask.task + 1]] if ask.gpus > 0 else pools[ptr[0] : ptr[0] + len(there)]
        )
        draw = substate(state, at) if rule == RANDOM else state
        server = choose_server(rule, scoring, free, pool, there, ask, draw, book)
        placed[at], on[at] = server, -1
        if server >= 0:
            on[at] = choose_device(rule, scoring, free, server, ask, draw, book)
            take_devices(free.device[server], ask.gpu, ask.gpus, on[at])
            free.cpu[server] -= ask.cpu
            free.memory[server] -= ask.memory
            if ask.gpus > 0:
                free.tags[server, tag_of(ask.gpu, ask.gpus)] += 1
            total -= each[server]
            cpu, device = free.cpu[server], free.device[server]
            each[server] = fragments(scoring.target, cpu, device, scoring.kind[server], book.classes)
            total += each[server]
        frag[at] = total
