"""Fragments and the six scoring rules by their definitions, in plain Python, computed anew each time."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True)
class Task:
    """CPU and memory, milli of each GPU, GPUs, accepted types (none: any)."""

    cpu: int
    memory: int
    gpu: int
    gpus: int
    types: str = ""

    def accepts(self, kind: str) -> bool:
        return not self.types or kind in self.types.split("|")

    @property
    def share_of_one(self) -> bool:
        return 0 < self.gpu < 1000


@dataclass
class Server:
    """What is free on a server, and the tags of its tasks with GPUs."""

    cpu: int
    memory: int
    device: list[int]
    kind: str
    tags: Counter[int] = field(default_factory=Counter)

    @property
    def gpu(self) -> int:
        return sum(self.device)

    def fits(self, task: Task) -> bool:
        enough = [free for free in self.device if free >= task.gpu]
        may = task.gpus == 0 or task.accepts(self.kind)
        return may and self.cpu >= task.cpu and self.memory >= task.memory and len(enough) >= task.gpus

    def with_task(self, task: Task, chosen: int) -> Server:
        """The server after a task: a share on the chosen device, else the first that hold it."""
        device, tags = list(self.device), Counter(self.tags)
        hold = [d for d, free in enumerate(device) if free >= task.gpu]
        for d in [chosen] if chosen >= 0 else hold[: task.gpus]:
            device[d] -= task.gpu
        if task.gpus:
            tags[0 if task.share_of_one else task.gpus] += 1
        return Server(self.cpu - task.cpu, self.memory - task.memory, device, self.kind, tags)


Typical = list[tuple[Task, float]]
"""Typical tasks and their shares."""


def classes(server: Server, typical: Typical) -> dict[str, float]:
    """Free GPU milli by what a typical task lacks, summed in the order of the tasks."""
    names = ("q1", "q2", "q4", "xl", "xr", "no_access", "q3")
    found = dict.fromkeys(names, 0.0)
    for task, share in typical:
        has_cpu = server.cpu >= task.cpu
        enough = sum(free >= task.gpu for free in server.device) >= task.gpus
        if task.gpu == 0:
            found["xl" if has_cpu else "xr"] += share * server.gpu
        elif not task.accepts(server.kind):
            found["no_access"] += share * server.gpu
        elif not enough:
            found["q2" if has_cpu else "q1"] += share * server.gpu
        elif not has_cpu:
            found["q4"] += share * server.gpu
        else:
            too_small = sum(free for free in server.device if free < task.gpu)
            found["q2"] += share * too_small
            found["q3"] += share * (server.gpu - too_small)
    return found


def fragments(server: Server, typical: Typical) -> float:
    return sum(amount for name, amount in classes(server, typical).items() if name != "q3")


@dataclass(frozen=True)
class Scores:
    """Scores in a cluster whose largest server has this CPU and GPU."""

    most_cpu: int
    most_gpu: int
    typical: Typical

    def fgd_on(self, server: Server, task: Task, chosen: int) -> int:
        after = fragments(server.with_task(task, chosen), self.typical)
        return int(100 / (1 + math.exp(-(fragments(server, self.typical) - after) / 1000)))

    def fgd(self, server: Server, task: Task) -> int:
        return self.fgd_on(server, task, self.device("fgd", server, task))

    def device(self, rule: str, server: Server, task: Task) -> int:
        """Device of a share; -1 of other tasks."""
        if not task.share_of_one:
            return -1
        fitting = [d for d, free in enumerate(server.device) if free >= task.gpu]
        if rule == "fgd":
            return max(fitting, key=lambda d: (self.fgd_on(server, task, d), -d))
        return min(fitting, key=lambda d: (server.device[d], d))

    def best_fit(self, server: Server, task: Task) -> int:
        cpu, gpu = server.cpu - task.cpu, server.gpu - task.gpu * task.gpus
        return int(100 * (1 - (0.5 * cpu / self.most_cpu + 0.5 * gpu / self.most_gpu)))

    def dot_product(self, server: Server, task: Task) -> int:
        of_cpu = (server.cpu / self.most_cpu) * (task.cpu / self.most_cpu)
        of_gpu = (server.gpu / self.most_gpu) * (task.gpu * task.gpus / self.most_gpu)
        return int(100 * (1 - (of_cpu + of_gpu) / 2))

    def gpu_packing(self, server: Server, task: Task) -> int:
        if task.gpus == 0:
            return 0
        full = server.device.count(1000)
        if full == len(server.device):
            return max(33 - full, full)
        taken = sorted(free for free in server.device if free >= task.gpu)[: task.gpus]
        if 1000 in taken:
            return max(50 - taken.count(1000), 33)
        return max(100 - sum(free // 10 for free in taken) // 10, 50)

    def gpu_clustering(self, server: Server, task: Task) -> int:
        if task.gpus == 0:
            return 0
        own, others = 0 if task.share_of_one else task.gpus, {tag for tag, n in server.tags.items() if n}
        base = 25 * (self.most_gpu - server.gpu) // self.most_gpu
        if not others:
            return base + 25
        return base + (0 if own not in others else 75 if others == {own} else 50)

    def best(self, rule: str, servers: list[Server], task: Task) -> tuple[int, int]:
        """Server and device; (-1, -1) where the task fits nowhere."""
        scores = {
            i: getattr(self, rule)(server, task) for i, server in enumerate(servers) if server.fits(task)
        }
        chosen = max(scores, key=lambda i: (scores[i], -i), default=-1)
        return chosen, self.device(rule, servers[chosen], task) if chosen >= 0 else -1


def typical_tasks(tasks: list[Task], percent: int = 95) -> Typical:
    """The most frequent demands, until they cover so many percent of the tasks."""
    groups = Counter((task.cpu, task.gpu, task.gpus, task.types) for task in tasks)
    ordered = sorted(groups, key=lambda group: (groups[group], group), reverse=True)
    counts = [groups[group] for group in ordered]
    sums = [0] + [sum(counts[: n + 1]) for n in range(len(counts))]
    taken = next(n for n, covered in enumerate(sums) if covered >= percent / 100 * len(tasks))
    assert all(a < b for a, b in pairwise(sums))
    share = [(n / len(tasks)) / (sums[taken] / len(tasks)) for n in counts[:taken]]
    return [(Task(c, 0, m, k, types), s) for (c, m, k, types), s in zip(ordered, share, strict=False)]


def random_world(seed: int) -> tuple[list[Server], list[Task]]:
    """4 servers with up to 4 devices, 12 tasks of which some are equal, some of which name types."""
    draw = random.Random(seed)
    servers = [
        Server(draw.choice([8000, 16000, 32000]), draw.choice([64, 256]), [1000] * draw.randint(0, 4), kind)
        for kind in draw.choices(["A", "B", "C"], k=4)
    ]
    kinds = [
        Task(
            draw.choice([500, 1000, 3152, 6000]),
            draw.choice([8, 32]),
            *draw.choice([(0, 0), (230, 1), (500, 1), (810, 1), (1000, 1), (1000, 2)]),
            draw.choice(["", "", "A", "A|B", "B|A"]),
        )
        for _ in range(8)
    ]
    return servers, draw.choices(kinds, k=12)
