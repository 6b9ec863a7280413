"""Texts on a policy that ended its process or did not end."""

from __future__ import annotations

import os
import re
import signal
import sysconfig

PIPE_CLOSED = os.EX_IOERR
"""Exit code of a child that cannot send its results."""

PIPE_CLOSED_TEXT = "the policy closed the pipe of the results; close only files that it opened"

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
"""A line of a Python stack as faulthandler writes it, the innermost call first."""


def crash_text(exit_code: int, trace: str) -> str:
    """Text on a process that ended before it was done.

    Parameters
    ----------
    exit_code : of the process, negative for a signal
    trace : Python stack at the crash, as faulthandler writes it; may be empty
    """
    if exit_code == PIPE_CLOSED:
        return PIPE_CLOSED_TEXT
    if exit_code >= 0:
        return (
            f"the policy ended the interpreter with exit code {exit_code}, as os._exit does; "
            "raise an exception instead"
        )
    name = _signal_name(-exit_code)
    if -exit_code == signal.SIGKILL:
        return (
            f"the interpreter was killed ({name}), as by a system without free memory; "
            "look how much the policy takes"
        )
    return (
        f"the policy crashed the interpreter ({name}){place(trace)}; look there for writes through "
        "underscored names or .base, a kernel's index beyond an array, endless recursion and faulty code in C"
    )


def hang_text(limit_s: float, trace: str) -> str:
    """Text on a process that was stopped since it did not go on."""
    return (
        f"the check did not end within {limit_s:,g} s{place(trace)}; look there for a loop or a wait without "
        "end (the slowest check of a built-in policy takes 90 s)"
    )


def place(trace: str) -> str:
    """Innermost call outside libraries, as `` in decide (FILE, line 3)``; empty without a stack."""
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    frames = list(_FRAME.finditer(trace))
    own = [frame for frame in frames if not frame["file"].startswith(libraries)] or frames
    return f" in {own[0]['function']} ({own[0]['file']}, line {own[0]['line']})" if own else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
