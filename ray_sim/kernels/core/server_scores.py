"""Placement rules that score servers: the server of the largest integer score takes the task.

The six rules that Q. Weng et al., Beware of Fragmentation, USENIX ATC 2023, compare, as the authors'
simulator computes them. Ties go to the lowest server index. Call `choose_server`, then `choose_device` on
that server. CPU is in milli-cores, GPU in thousandths of a device (milli).

S is the number of servers, D of devices of the largest server. A task asks for ``gpu`` milli on each of
``gpus`` devices: a share of one, or whole ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ray_sim.kernels.compile import kernel, outlined
from ray_sim.kernels.core.arrays import I64
from ray_sim.kernels.core.devices import DEVICE
from ray_sim.kernels.core.fragmentation import fragments
from ray_sim.kernels.core.queue_arrays import SCORE_ROWS, ScoreBook, Scoring
from ray_sim.kernels.planning.random_bits import substate, uniform

FGD, BEST_FIT, DOT_PRODUCT, GPU_PACKING, GPU_CLUSTERING, RANDOM = range(5, 11)
"""Numbers that follow those of the rules of `ray_sim.kernels.core.placement`."""
SCORED_RULES = ("fgd", "best_fit", "dot_product", "gpu_packing", "gpu_clustering", "random")


class Ask(NamedTuple):
    """What one task asks of a server."""

    task: int
    """Number of its class: equal demands have equal numbers."""
    cpu: int
    gpu: int
    """Milli of each device."""
    gpus: int


@kernel
def take_devices(device: I64, gpu: int, gpus: int, chosen: int) -> None:
    """Subtract a task: a share from the chosen device, whole ones from the lowest-numbered that are free."""
    if chosen >= 0:
        device[chosen] -= gpu
        return
    left = gpus
    for d in range(len(device)):
        if left > 0 and device[d] >= gpu:
            device[d] -= gpu
            left -= 1


@kernel
def _best_fit(scoring: Scoring, cpu: int, gpu: int, ask: Ask) -> int:
    """Score of the least free capacity after the task; ``cpu`` and ``gpu`` are free before it."""
    left = 0.5 * (cpu - ask.cpu) / scoring.most[0] + 0.5 * (gpu - ask.gpu * ask.gpus) / scoring.most[1]
    return int(100.0 * (1.0 - left))


@kernel
def _dot_product(scoring: Scoring, cpu: int, gpu: int, ask: Ask) -> int:
    """Score of the least product of free and asked capacity."""
    of_cpu = (cpu / scoring.most[0]) * (ask.cpu / scoring.most[0])
    of_gpu = (gpu / scoring.most[1]) * (ask.gpu * ask.gpus / scoring.most[1])
    return int(100.0 * (1.0 - (of_cpu + of_gpu) / 2.0))


@kernel
def _gpu_packing(device: I64, n: int, ask: Ask) -> int:
    """Score that prefers devices in use, then servers in use, then servers with few devices.

    Parameters
    ----------
    n : devices of the server
    """
    if ask.gpus == 0:
        return 0
    full = 0
    for d in range(len(device)):
        full += device[d] == DEVICE
    if full == n:
        return max(33 - full, full)
    last_free, last, unused, tenths = -1, -1, 0, 0
    for _ in range(ask.gpus):  # the fullest devices that hold the task, one after the other
        best = -1
        for d in range(len(device)):
            later = device[d] > last_free or (device[d] == last_free and d > last)
            if device[d] >= ask.gpu and later and (best < 0 or device[d] < device[best]):
                best = d
        last_free, last = device[best], best
        unused += device[best] == DEVICE
        tenths += device[best] // 10
    return max(50 - unused, 33) if unused > 0 else max(100 - tenths // 10, 50)


@kernel
def _gpu_clustering(scoring: Scoring, tags: I64, gpu: int, ask: Ask) -> int:
    """Score that prefers servers whose tasks ask for as many GPUs; ``gpu`` is free before the task."""
    if ask.gpus == 0:
        return 0
    base = 25 * (scoring.most[1] - gpu) // scoring.most[1]
    kinds = 0
    for tag in range(len(tags)):
        kinds += tags[tag] > 0
    if kinds == 0:
        return base + 25
    if tags[0 if ask.gpu < DEVICE else ask.gpus] == 0:
        return base
    return base + (75 if kinds == 1 else 50)


@outlined
def _fgd_with(scoring: Scoring, server: int, ask: Ask, chosen: int, book: ScoreBook) -> int:
    """Score of the least growth of fragments, with a share on the chosen device."""
    for d in range(len(book.trial)):
        book.trial[d] = book.device[server, d]
    take_devices(book.trial, ask.gpu, ask.gpus, chosen)
    cpu, kind = book.cpu[server] - ask.cpu, scoring.kind[server]
    after = fragments(scoring.target, cpu, book.trial, kind, book.classes)
    return int(100.0 / (1.0 + math.exp(-(book.before[server] - after) / 1000.0)))


@kernel
def _fgd_device(scoring: Scoring, server: int, ask: Ask, book: ScoreBook) -> int:
    """Return the first device on which a share gets the largest score."""
    device = book.device[server]
    best, best_score = -1, -1
    for d in range(len(device)):
        tried = device[d] < ask.gpu
        for earlier in range(d):
            tried = tried or device[earlier] == device[d]  # the score depends on what is free only
        if not tried:
            score = _fgd_with(scoring, server, ask, d, book)
            if score > best_score:
                best, best_score = d, score
    return best


@kernel
def _fgd(scoring: Scoring, server: int, ask: Ask, book: ScoreBook) -> int:
    """Score of the least growth of fragments."""
    chosen = -1
    if 0 < ask.gpu < DEVICE:
        chosen = _fgd_device(scoring, server, ask, book)
    return _fgd_with(scoring, server, ask, chosen, book)


@kernel
def _score(rule: int, scoring: Scoring, server: int, ask: Ask, book: ScoreBook) -> int:
    """Integer score of a task by a rule other than `random` on a server that holds it."""
    device = book.device[server]
    if rule == FGD:
        return _fgd(scoring, server, ask, book)
    if rule == GPU_PACKING:
        return _gpu_packing(device, scoring.gpus[server], ask)
    gpu = 0
    for d in range(len(device)):
        gpu += device[d]
    if rule == BEST_FIT:
        return _best_fit(scoring, book.cpu[server], gpu, ask)
    if rule == DOT_PRODUCT:
        return _dot_product(scoring, book.cpu[server], gpu, ask)
    return _gpu_clustering(scoring, book.tags[server], gpu, ask)


@kernel
def _note(seen: I64, at: int, value: int) -> bool:
    """Keep a value; whether it has changed."""
    changed = bool(seen[at] != value)
    seen[at] = value
    return changed


@kernel
def _look(rule: int, scoring: Scoring, server: int, book: ScoreBook) -> None:
    """Give the server's state a new number if it has changed since the last look."""
    seen, device, tags = book.seen[server], book.device[server], book.tags[server]
    changed = _note(seen, 0, book.cpu[server])
    for d in range(len(device)):
        changed |= _note(seen, 1 + d, device[d])
    for k in range(len(tags)):
        changed |= _note(seen, 1 + len(device) + k, tags[k])
    if not changed:
        return
    book.clock[0] += 1
    book.stamp[server] = book.clock[0]
    if rule == FGD:
        kind = scoring.kind[server]
        book.before[server] = fragments(scoring.target, book.cpu[server], device, kind, book.classes)


@kernel
def _row_of(book: ScoreBook, task: int) -> int:
    """Return the row with the scores of a class of tasks, emptied if it was another's."""
    row = task % SCORE_ROWS
    if book.owner[row] != task:
        book.owner[row] = task
        book.scored[row, :] = 0
    return row


@outlined
def choose_server(rule: int, scoring: Scoring, pool: I64, ask: Ask, state: np.uint64, book: ScoreBook) -> int:
    """Return the server of the largest score in a pool, the first of equals; -1 if none holds the task.

    O(S) where scores are known.

    Parameters
    ----------
    pool : servers in index order that the task may use
    state : of a stream of random numbers; for `random` only
    book : ``holds`` says which servers hold the task; ``cpu``, ``device`` and ``tags`` what these have
    """
    if rule == RANDOM:
        return _random_server(pool, state, book)
    row, best, best_score = _row_of(book, ask.task), -1, -1
    for server in pool:
        if not book.holds[server]:
            continue
        _look(rule, scoring, server, book)
        if book.scored[row, server] != book.stamp[server]:
            book.scored[row, server] = book.stamp[server]
            book.score[row, server] = _score(rule, scoring, server, ask, book)
        if book.score[row, server] > best_score:
            best, best_score = server, book.score[row, server]
    return best


@kernel
def _random_server(pool: I64, state: np.uint64, book: ScoreBook) -> int:
    """Return one of the servers that hold the task, all equally likely; -1 if there is none."""
    holding = 0
    for server in pool:
        holding += book.holds[server]
    at = int(uniform(substate(state, 0)) * holding)
    for server in pool:
        if book.holds[server]:
            if at == 0:
                return server
            at -= 1
    return -1


@outlined
def choose_device(
    rule: int, scoring: Scoring, server: int, ask: Ask, state: np.uint64, book: ScoreBook
) -> int:
    """Return the device of a share on the server that was chosen for it; -1 for tasks without a share.

    The least sufficient free device, the first of equals; `fgd` takes the one of the largest score, `random`
    any that fits, equally likely.
    """
    device = book.device[server]
    if ask.gpu == 0 or ask.gpu == DEVICE:
        return -1
    if rule == FGD:
        return _fgd_device(scoring, server, ask, book)
    fitting, best = 0, -1
    for d in range(len(device)):
        if device[d] >= ask.gpu:
            fitting += 1
            if best < 0 or device[d] < device[best]:
                best = d
    if rule != RANDOM:
        return best
    at = int(uniform(substate(state, 1)) * fitting)
    for d in range(len(device)):
        if device[d] >= ask.gpu:
            if at == 0:
                return d
            at -= 1
    return -1
