"""The published pod lists, servers and orders, and a replay of pods that never leave: one kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from ray_sim.kernels.compile import kernel
from ray_sim.kernels.core.arrays import F64, I64, ScoreBook, Scoring, new_score_book
from ray_sim.kernels.core.fragmentation import fragments, new_target, typical_tasks
from ray_sim.kernels.core.server_scores import (
    FGD,
    RANDOM,
    SCORED_RULES,
    Ask,
    choose_device,
    choose_server,
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
    """Text of the types of each class; empty without GPUs."""

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
        of_class = groups.select(pl.when(pl.col("num_gpu") > 0).then("types").otherwise(pl.lit("")))
        task_types = frame["types"].to_list(), of_class.to_series().to_list()
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
    cpu: I64
    """(S,) free."""
    device_free: I64
    """(S, 8)."""


def replay(pods: Pods, order: list[int], cluster: Cluster, rule: str, seed: int = 0) -> Replayed:
    """Place or reject each pod in turn."""
    kinds = sorted({model or "" for model in cluster.model})
    n, rows = len(cluster.cpu), np.array(order)
    target = new_target(typical_tasks(Counter(pods.typical)), [kind or None for kind in kinds])
    kind = np.array([kinds.index(model or "") for model in cluster.model])
    most = np.array([cluster.cpu.max(), 1000 * cluster.gpus.max()])
    scoring = Scoring(np.array([1, 0]), most, cluster.gpus, kind, target)
    pools = [
        np.array([i for i in range(n) if not types or cluster.model[i] in types.split("|")], dtype=np.int64)
        for types in pods.class_types
    ]
    ptr = np.cumsum([0, *map(len, pools)])
    book = new_score_book(scoring, columns=3, tags=TAGS)
    book.cpu[:] = cluster.cpu
    book.device[:] = np.where(np.arange(DEVICES) < cluster.gpus[:, None], 1000, 0)
    placed, on, frag = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), np.empty(len(rows))
    asks = tuple(column[rows] for column in (pods.task, pods.cpu, pods.memory, pods.gpu, pods.gpus))
    state = Streams(seed).states("placement", np.zeros(1, dtype=np.int64))[0]
    number, servers, memory, each = (
        FGD + SCORED_RULES.index(rule),
        np.concatenate(pools),
        cluster.memory.copy(),
        np.empty(n),
    )
    _replay(number, scoring, book, memory, servers, ptr, asks, state, each, placed, on, frag)
    asked = (pods.gpu * pods.gpus)[rows]
    classes, total = np.zeros(7), np.zeros(7)
    for i in range(n):
        fragments(target, book.cpu[i], book.device[i], kind[i], classes)
        total += classes
    arrived, used = np.cumsum(asked) * 1.0, np.cumsum(asked * (placed >= 0)) * 1.0
    return Replayed(placed, on, arrived, used, frag, total, book.cpu, book.device)


@kernel
def _replay(
    rule: int, scoring: Scoring, book: ScoreBook, memory: I64, pools: I64, ptr: I64,
    asks: tuple[I64, I64, I64, I64, I64], state: np.uint64, each: F64, placed: I64, on: I64, frag: F64,
) -> None:  # fmt: skip
    total = 0.0
    for i in range(len(memory)):
        each[i] = fragments(scoring.target, book.cpu[i], book.device[i], scoring.kind[i], book.classes)
        total += each[i]
    for at in range(len(placed)):
        ask, asked_memory = Ask(asks[0][at], asks[1][at], asks[3][at], asks[4][at]), asks[2][at]
        pool = pools[ptr[ask.task] : ptr[ask.task + 1]]
        for i in pool:
            enough = 0
            for d in range(DEVICES):
                enough += book.device[i, d] >= ask.gpu
            book.holds[i] = enough >= ask.gpus and book.cpu[i] >= ask.cpu and memory[i] >= asked_memory
        draw = substate(state, at) if rule == RANDOM else state
        server = choose_server(rule, scoring, pool, ask, draw, book)
        placed[at], on[at] = server, -1
        if server >= 0:
            on[at] = choose_device(rule, scoring, server, ask, draw, book)
            take_devices(book.device[server], ask.gpu, ask.gpus, on[at])
            book.cpu[server] -= ask.cpu
            memory[server] -= asked_memory
            if ask.gpus > 0:
                book.tags[server, 0 if ask.gpu < 1000 else ask.gpus] += 1
            total -= each[server]
            cpu, device = book.cpu[server], book.device[server]
            each[server] = fragments(scoring.target, cpu, device, scoring.kind[server], book.classes)
            total += each[server]
        frag[at] = total
