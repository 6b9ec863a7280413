"""Processes of this machine: children that measure apart, and their CPU time and memory, from /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from ray_sim.model.errors import RunFailedError

_REPOSITORY = Path(__file__).parents[1]


def environment() -> dict[str, str]:
    """Environment of this process plus the path of ray_sim's modules, without the user's tracking store."""
    kept = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    path = os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))
    return kept | {"PYTHONPATH": path}


def python(*arguments: str, cwd: Path | None = None, one_thread: bool = False) -> tuple[float, str]:
    """Run Python with these arguments; returns wall seconds and standard output.

    Parameters
    ----------
    one_thread : compute products of matrices in one thread

    Raises
    ------
    RunFailedError : the exit code is not 0
    """
    began = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-P", *arguments],  # -P: folders in cwd must not shadow our modules
        cwd=cwd,
        env=environment() | ({"OPENBLAS_NUM_THREADS": "1"} if one_thread else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    wall_s = time.perf_counter() - began
    if ended.returncode != 0:
        raise RunFailedError(
            f"python {' '.join(arguments)} ended with exit code {ended.returncode}: {ended.stderr.strip()}"
        )
    return wall_s, ended.stdout


def call(module: str, *arguments: str, one_thread: bool = False) -> tuple[float, dict[str, float]]:
    """Run `module` as a programme; returns wall seconds and the figures that it prints; see `python`."""
    wall_s, output = python("-m", module, *arguments, one_thread=one_thread)
    figures: dict[str, float] = json.loads(output)
    return wall_s, figures


def answer(figures: Mapping[str, float]) -> None:
    """Print the figures for `call`."""
    sys.stdout.write(json.dumps(figures))


def cpu_s_of_command(*arguments: str, cwd: Path) -> float:
    """Run `ray-sim` with these arguments; returns its CPU seconds."""
    before = os.times()
    python("-m", "ray_sim.cli", *arguments, cwd=cwd)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


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
