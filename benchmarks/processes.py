"""Processes of this machine by id, and their CPU time and memory, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STATE, _PARENT, _USER, _SYSTEM, _STARTED = 0, 1, 11, 12, 19
"""Fields of /proc/PID/stat, counted after the name; see proc(5)."""
_IDLE, _WAITING_FOR_DISK = 4, 5
"""Columns of a core's line in /proc/stat."""


def peak_mb() -> float:
    """Peak resident memory of this process, in 10^6 bytes.

    The `ru_maxrss` of getrusage is no substitute: a child starts with its parent's value.
    """
    lines = (_PROC / "self" / "status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return kib * 1024 / 1e6


def descendants(pid: int) -> dict[int, int]:
    """Descendants of this process: start time by id, which distinguishes a reused id."""
    stats = {int(path.name): _stat(int(path.name)) for path in _PROC.iterdir() if path.name.isdigit()}
    found: dict[int, int] = {}
    parents = {pid}
    while parents:
        children = {
            child: int(stat[_STARTED])
            for child, stat in stats.items()
            if stat and int(stat[_PARENT]) in parents and child not in found
        }
        found |= children
        parents = set(children)
    return found


def still_running(processes: dict[int, int]) -> list[int]:
    """The given processes that have not ended."""
    stats = {pid: _stat(pid) for pid in processes}
    return [
        pid
        for pid, stat in stats.items()
        if stat and int(stat[_STARTED]) == processes[pid] and stat[_STATE] != "Z"
    ]


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU seconds that the processes have used so far."""
    stats = [stat for pid in pids if (stat := _stat(pid))]
    return sum(int(stat[_USER]) + int(stat[_SYSTEM]) for stat in stats) / _TICKS_PER_S


def command(pid: int) -> str:
    """Command line of a process, which the process may have changed; empty after its end."""
    try:
        return (_PROC / str(pid) / "cmdline").read_text()
    except OSError:
        return ""


def idle_seconds() -> float:
    """Total idle seconds of the cores that this process may use."""
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = map(str.split, (_PROC / "stat").read_text().splitlines())
    ticks = [int(line[column]) for line in lines if line[0] in cores for column in (_IDLE, _WAITING_FOR_DISK)]
    return sum(ticks) / _TICKS_PER_S


def _stat(pid: int) -> list[str]:
    """Fields after the name, which may contain any characters; none for a process that has ended."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
