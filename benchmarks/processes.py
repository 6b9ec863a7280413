"""Processes of this machine by their ids, and what they have used, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from benchmarks.measurement import SkippedError

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_STATE, _PARENT, _USER, _SYSTEM, _STARTED = 0, 1, 11, 12, 19
"""Fields of /proc/PID/stat, counted after the name; see proc(5)."""
_IDLE, _WAITING_FOR_DISK = 4, 5
"""Columns of a core's line in /proc/stat."""


def require_proc() -> None:
    """Raise `SkippedError` on a system without the files that this module reads."""
    if not (_PROC / "self" / "stat").exists():
        raise SkippedError(f"needs {_PROC}, which this system does not have")


def peak_mb() -> float:
    """Most memory that this process has had resident, in 10^6 bytes.

    The `ru_maxrss` of getrusage is no substitute: a child starts with what its parent had.
    """
    lines = (_PROC / "self" / "status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return kib * 1024 / 1e6


def descendants(pid: int) -> dict[int, int]:
    """All processes below this one: id to when it started, so that a reused id is not taken for it."""
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
    """Those of the processes that have not ended."""
    stats = {pid: _stat(pid) for pid in processes}
    return [
        pid
        for pid, stat in stats.items()
        if stat and int(stat[_STARTED]) == processes[pid] and stat[_STATE] != "Z"
    ]


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time the processes have used so far."""
    stats = [stat for pid in pids if (stat := _stat(pid))]
    return sum(int(stat[_USER]) + int(stat[_SYSTEM]) for stat in stats) / _TICKS_PER_S


def command(pid: int) -> str:
    """Command line of a process, which it may have set itself; empty once it has ended."""
    try:
        return (_PROC / str(pid) / "cmdline").read_text()
    except OSError:
        return ""


def idle_seconds() -> float:
    """Time that the cores which this process may use have had nothing to do, added up."""
    cores = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = map(str.split, (_PROC / "stat").read_text().splitlines())
    ticks = [int(line[column]) for line in lines if line[0] in cores for column in (_IDLE, _WAITING_FOR_DISK)]
    return sum(ticks) / _TICKS_PER_S


def _stat(pid: int) -> list[str]:
    """Fields after the name, which may hold anything; none for a process that has ended."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
