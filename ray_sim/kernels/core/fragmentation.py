"""Fragments of GPUs: the free GPU capacity of a server that typical tasks cannot use.

The measure of Q. Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent, USENIX ATC 2023. The rule `fgd` of `ray_sim.kernels.core.server_scores` lets it grow least.
CPU is in milli-cores, GPU in thousandths of a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import F64, I64
from ray_sim.kernels.core.queue_arrays import Arrivals, Target

COVERED_PERCENT = 95
"""Share of the tasks that the target covers, at least."""

Q1_LACK_BOTH, Q2_LACK_GPU, Q3_SATISFIED, Q4_LACK_CPU, XL_SATISFIED, XR_LACK_CPU, NO_ACCESS = range(7)
FRAGMENT_CLASSES = (
    *("q1_lack_both", "q2_lack_gpu", "q3_satisfied", "q4_lack_cpu"),
    *("xl_satisfied", "xr_lack_cpu", "no_access"),
)


class TypicalTask(NamedTuple):
    """Tasks with one demand and one list of GPU types, and their share of all that the target covers."""

    cpu: int
    gpu: int
    """Thousandths of each GPU."""
    gpus: int
    types: str
    """Accepted types with ``|`` between them; empty accepts any."""
    share: float


def typical_tasks(groups: Mapping[tuple[int, int, int, str], int]) -> list[TypicalTask]:
    """The most frequent demands (cpu, gpu, gpus, types), until they cover `COVERED_PERCENT` of the tasks.

    ``groups`` has the number of tasks of each demand.

    Groups are ordered by count, then by demand, largest first. Types are compared as text: lists that name
    the same types in another order are different groups.
    """
    total, covered, taken = sum(groups.values()), 0, []
    for demand, count in sorted(groups.items(), key=lambda group: (group[1], group[0]), reverse=True):
        if covered * 100 >= total * COVERED_PERCENT:
            break
        covered += count
        taken.append((demand, count))
    # Two divisions, as published: where the rule `fgd` changes no class, the last bit of a sum decides.
    return [TypicalTask(*demand, share=(count / total) / (covered / total)) for demand, count in taken]


def new_target(tasks: Sequence[TypicalTask], server_types: Sequence[str | None]) -> Target:
    """Arrays of typical tasks for servers of these types; None, of servers without a type, is in no list."""
    accepts = [[not task.types or kind in task.types.split("|") for kind in server_types] for task in tasks]
    return Target(
        cpu=np.array([task.cpu for task in tasks], dtype=np.int64),
        gpu=np.array([task.gpu for task in tasks], dtype=np.int64),
        gpus=np.array([task.gpus for task in tasks], dtype=np.int64),
        share=np.array([task.share for task in tasks], dtype=np.float64),
        accepts=np.array(accepts, dtype=np.bool_).reshape(len(tasks), len(server_types)),
        order=np.arange(len(tasks)),
        size=np.array([len(tasks)]),
    )


@kernel
def _count(target: Target, arrivals: Arrivals, job: int) -> None:
    """Count the tasks of a job that comes, and keep the order: by count, then by number; O(G)."""
    order, counts, mine = target.order, arrivals.counts, arrivals.group[job]
    counts[mine] += arrivals.tasks[job]
    i = 0
    while order[i] != mine:
        i += 1
    while i > 0 and (
        counts[order[i - 1]] < counts[mine] or (counts[order[i - 1]] == counts[mine] and order[i - 1] > mine)
    ):
        order[i] = order[i - 1]
        i -= 1
    order[i] = mine


@kernel
def note_arrivals(target: Target, arrivals: Arrivals, submit: I64, now: int) -> bool:
    """Set the target to the typical tasks, see `typical_tasks`, of the jobs that have come; whether any came.

    ``submit`` is (J,) times, sorted. A target that is given stays. O(G) for each job since the last call.
    """
    come = arrivals.come[0]
    while come < len(arrivals.group) and submit[come] <= now:
        _count(target, arrivals, come)
        come += 1
    if come == arrivals.come[0]:
        return False
    arrivals.come[0] = come
    total, covered, taken = arrivals.counts.sum(), 0, 0
    while covered * 100 < total * COVERED_PERCENT:
        covered += arrivals.counts[target.order[taken]]
        taken += 1
    target.size[0] = taken
    for g in target.order[:taken]:
        target.share[g] = (arrivals.counts[g] / total) / (covered / total)
    return True


@kernel
def fits_devices(device: I64, gpu: int, gpus: int) -> bool:
    """Whether ``gpus`` devices have at least ``gpu`` free."""
    found = 0
    for d in range(len(device)):
        if device[d] >= gpu:
            found += 1
    return found >= gpus


@outlined
def fragments(target: Target, cpu: int, device: I64, kind: int, classes: F64) -> float:
    """Expected free GPU milli of a server that a typical task cannot use; O(G x D).

    Parameters
    ----------
    cpu, device : free CPU of the server, and (D,) free milli of its devices
    kind : its type, a column of ``target.accepts``
    classes : (7,) result: free GPU milli by class of `FRAGMENT_CLASSES`; all but `Q3_SATISFIED` are fragments
    """
    free = 0
    for d in range(len(device)):
        free += device[d]
    classes[:] = 0.0
    for g in target.order[: target.size[0]]:
        has_cpu, gpu = cpu >= target.cpu[g], target.gpu[g]
        if gpu == 0:
            classes[XL_SATISFIED if has_cpu else XR_LACK_CPU] += target.share[g] * free
        elif not target.accepts[g, kind]:
            classes[NO_ACCESS] += target.share[g] * free
        elif not fits_devices(device, gpu, target.gpus[g]):
            classes[Q2_LACK_GPU if has_cpu else Q1_LACK_BOTH] += target.share[g] * free
        elif not has_cpu:
            classes[Q4_LACK_CPU] += target.share[g] * free
        else:
            short = 0
            for d in range(len(device)):
                if device[d] < gpu:
                    short += device[d]
            classes[Q2_LACK_GPU] += target.share[g] * short
            classes[Q3_SATISFIED] += target.share[g] * (free - short)
    # In the order of the classes: where no class changes, neither does the last bit of the sum.
    return (
        classes[Q1_LACK_BOTH]
        + classes[Q2_LACK_GPU]
        + classes[Q4_LACK_CPU]
        + classes[XL_SATISFIED]
        + classes[XR_LACK_CPU]
        + classes[NO_ACCESS]
    )
