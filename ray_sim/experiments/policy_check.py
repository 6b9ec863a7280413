"""The contract suite in a process of its own, which a policy may crash or block: `ray-sim check-policy`.

The parent starts the child with the same interpreter and module path. It imports neither the engine nor the
policy, and takes nothing but lines of JSON from the child, which come through a pipe:

- ``{"checks": [name, ...]}``: the policy is constructed, and these checks follow;
- ``{"error": text, "invalid_input": bool}``: it is not, and why;
- ``{"outcome": {name, result, passed, detail}}``: one check is done;
- ``{"busy": text}``: a sign of life, when all is imported and when a kernel is compiled, which takes long.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import re
import select
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import IO, Any

from ray_sim.contract.outcome import CheckOutcome, Verdict
from ray_sim.model.errors import InvalidInputError, RaySimError, RunFailedError
from ray_sim.model.text import shown
from ray_sim.user_code import told_warnings

LIMIT_S = 1800.0
"""Time without a message after which a policy counts as blocked.

It is 20 times what the slowest check of a built-in policy takes: "blind to run times" of dorm, which solves
an integer programme per decision, takes 89 s of one core. Checks of the others take up to 4 s.
"""

_NOTE_S = 60.0
"""Time without a message after which the user gets one."""

_POLL_S = 0.1
"""Between looks whether the child has ended. The end of the pipe tells it at once, unless a fork holds it."""

_LAST_WORDS_S = 10.0
"""For a child to write its Python stack, or to shut down its Ray."""

_PIPE_CLOSED = os.EX_IOERR
"""Exit code of a child that cannot send its results."""

_PIPE_CLOSED_TEXT = "the policy closed the pipe of the results; close only files that it opened"

_PR_SET_PDEATHSIG = 1
"""`prctl` of Linux: the signal that the process gets when its parent dies."""

_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$', re.MULTILINE)
"""A line of a Python stack as faulthandler writes it, the innermost call first."""

_PROGRAM = f"""
import json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends the child
path, *request = json.loads(sys.argv.pop())
sys.path[:] = path
from {__name__} import check
check(*request)
"""


class _BrokenOffError(Exception):
    """The child ended, was stopped or sent nonsense before it was done; the text says what happened."""


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """A contract suite that runs in a child process."""

    names: tuple[str, ...]
    """Checks, in their order."""
    _messages: Iterator[dict[str, Any]]

    def outcomes(self) -> Iterator[CheckOutcome]:
        """Yield the outcome of each check when it is done.

        Where the policy ends or blocks its process, the running check failed and the others are not checked.
        """
        for number, name in enumerate(self.names):
            try:
                with _well_formed():
                    outcome = next(self._messages)["outcome"]
                    if outcome["name"] != name:
                        raise ValueError(outcome["name"])
                    found = CheckOutcome(name, Verdict(outcome["result"]), str(outcome["detail"]))
            except _BrokenOffError as reason:
                yield CheckOutcome(name, Verdict.FAILED, str(reason))
                for left in self.names[number + 1 :]:
                    yield CheckOutcome(left, Verdict.NOT_CHECKED, f"the suite was broken off in '{name}'")
                return
            yield found


@contextmanager
def policy_check(
    ref: str,
    params: Sequence[str] = (),
    *,
    actors: bool = False,
    announce: Callable[[str], None] = lambda text: None,
    limit_s: float = LIMIT_S,
) -> Iterator[PolicyCheck]:
    """Construct a policy in a child process that checks it, and end the child with the block.

    What the policy prints goes to standard error.

    Parameters
    ----------
    params : ``key=value`` each
    actors : also on sites in Ray actors, on a Ray of the child's own
    announce : receives a line of text when nothing has come from the child for a minute
    limit_s : time without a message after which the child is stopped, once it has imported ray_sim

    Raises
    ------
    InvalidInputError : the policy cannot be found or constructed
    RunFailedError : Ray did not start
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as trace, os.fdopen(reading, "rb", 0) as results:
        request = [[*map(str, sys.path)], os.getpid(), writing, trace.fileno(), ref, [*params], actors]
        command = [sys.executable, "-P", "-c", _PROGRAM, json.dumps(request)]
        try:
            process = subprocess.Popen(command, stdout=2, pass_fds=(writing, trace.fileno()))
        finally:
            os.close(writing)
        try:
            messages = _messages(process, results, trace, announce, limit_s)
            yield PolicyCheck(_names(ref, messages), messages)
        except BaseException:
            _end(process, signal.SIGTERM if actors else signal.SIGKILL)
            raise
        else:
            _end(process)


def _names(ref: str, messages: Iterator[dict[str, Any]]) -> tuple[str, ...]:
    try:
        with _well_formed():
            first = next(messages)
            if "error" not in first:
                return tuple(first["checks"])
            kind = InvalidInputError if first["invalid_input"] else RunFailedError
            text = str(first["error"])
    except _BrokenOffError as reason:
        raise InvalidInputError(f"policy '{ref}' cannot be constructed: {reason}") from None
    raise kind(text)


@contextmanager
def _well_formed() -> Iterator[None]:
    """Raise `_BrokenOffError` for a message that is not of the protocol: a policy can write to the pipe."""
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise _BrokenOffError(f"the policy wrote to the pipe of the results ({error!r})") from error


def _messages(
    process: subprocess.Popen[bytes],
    results: IO[bytes],
    trace: IO[bytes],
    announce: Callable[[str], None],
    limit_s: float,
) -> Iterator[dict[str, Any]]:
    """Yield what the child sends, without signs of life.

    Waiting is counted in polls and not by a clock, so that Ctrl-Z or a stopped pager are no hang.

    Raises
    ------
    _BrokenOffError : the child ended, or sent nothing for ``limit_s``
    """
    begun, silent_s, most_s = b"", 0.0, LIMIT_S
    while True:
        ended = process.poll() is not None
        if select.select([results], [], [], 0 if ended else _POLL_S)[0]:
            part = results.read(2**16)
            *lines, begun = (begun + part).split(b"\n")
            yield from (message for message in map(json.loads, lines) if "busy" not in message)
            silent_s, most_s, ended = 0.0, limit_s, not part
        else:
            if silent_s < _NOTE_S <= silent_s + _POLL_S:
                announce(
                    f"nothing new for {_NOTE_S:g} s: the check is stopped after {most_s:,g} s, by Ctrl-C now"
                )
            silent_s += _POLL_S
        if ended:
            code = _end(process)
            raise _BrokenOffError(_PIPE_CLOSED_TEXT if code is None else crash_text(code, _text(trace)))
        if silent_s > most_s:
            _end(process, signal.SIGABRT)  # faulthandler's: the child writes its Python stack
            raise _BrokenOffError(
                f"the check did not end within {most_s:,g} s{place(_text(trace))}; look there for a loop or "
                "a wait without end (the slowest check of a built-in policy takes 90 s)"
            )


def _end(process: subprocess.Popen[bytes], number: int | None = None) -> int | None:
    """Exit code of the child, after a signal if one is given; None if it did not end and had to be killed."""
    if number is not None:
        process.send_signal(number)
    try:
        return process.wait(_LAST_WORDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _text(trace: IO[bytes]) -> str:
    trace.seek(0)
    return trace.read().decode(errors="replace")


def crash_text(exit_code: int, trace: str) -> str:
    """Text on a child that ended before it was done.

    Parameters
    ----------
    exit_code : of the process, negative for a signal
    trace : Python stack at the crash, as faulthandler writes it; may be empty
    """
    if exit_code == _PIPE_CLOSED:
        return _PIPE_CLOSED_TEXT
    if exit_code >= 0:
        return (
            f"the policy ended the interpreter with exit code {exit_code}, as os._exit does; "
            "raise an exception instead"
        )
    known = -exit_code in set(signal.Signals)  # a real-time signal has no name
    name = signal.Signals(-exit_code).name if known else f"signal {-exit_code}"
    if -exit_code == signal.SIGKILL:
        return (
            f"the interpreter was killed ({name}), as by a system without free memory; "
            "look how much the policy takes"
        )
    return (
        f"the policy crashed the interpreter ({name}){place(trace)}; look there for writes through "
        "underscored names or .base, a kernel's index beyond an array, endless recursion and faulty code in C"
    )


def place(trace: str) -> str:
    """Innermost call outside libraries, as `` in decide (FILE, line 3)``; empty without a stack."""
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    frames = list(_FRAME.finditer(trace))
    own = [frame for frame in frames if not frame["file"].startswith(libraries)] or frames
    return f" in {own[0]['function']} ({own[0]['file']}, line {own[0]['line']})" if own else ""


def check(parent: int, results: int, trace: int, ref: str, params: Sequence[str], actors: bool) -> None:
    """Run the suite as the child, then end the process without the exit handlers of the policy's modules.

    Parameters
    ----------
    parent : process id of the parent
    results, trace : descriptors of the pipe for messages, and of the file for the Python stack at a crash
    """
    if sys.platform == "linux":  # it dies with its parent, also while machine code runs
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    signal.signal(signal.SIGTERM, _stop)
    for descriptor in (results, trace):
        os.set_inheritable(descriptor, False)  # processes that the policy starts do not hold the pipe open
    faulthandler.enable(trace, all_threads=False)

    def send(message: dict[str, object]) -> None:
        content = json.dumps(message).encode() + b"\n"
        try:
            while content:
                content = content[os.write(results, content) :]
        except OSError:  # the policy closed the pipe, or the parent is gone
            os._exit(_PIPE_CLOSED)

    try:
        _run(send, ref, params, actors)
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGTERM)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _run(send: Callable[[dict[str, object]], None], ref: str, params: Sequence[str], actors: bool) -> None:
    from ray_sim.contract.suite import clauses, outcomes
    from ray_sim.experiments.fanout.connection import cluster
    from ray_sim.experiments.scenario import key_values

    send({"busy": "constructing the policy"})
    _tell_of_compilations(send)
    warned: set[str] = set()

    def warn(text: str) -> None:  # once, however many runs of the suite repeat it
        if text not in warned:
            warned.add(text)
            sys.stderr.write(f"warning: {shown(text)}\n")

    try:
        found = outcomes(ref, key_values(params, "-p"), actors=actors)
        with cluster("local") if actors else nullcontext(), told_warnings(warn):
            send({"checks": list(clauses(actors=actors))})
            for outcome in found:
                send({"outcome": outcome.to_dict()})
    except RaySimError as error:
        send({"error": str(error), "invalid_input": isinstance(error, InvalidInputError)})


def _tell_of_compilations(send: Callable[[dict[str, object]], None]) -> None:
    from numba.core import event

    class Compilations(event.Listener):  # type: ignore[misc]  # numba ships no types
        def on_start(self, event: Any) -> None:
            send({"busy": f"compiling {event.data['dispatcher'].py_func.__name__}"})

        on_end = on_start

    event.register("numba:compile", Compilations())


def _stop(number: int, frame: FrameType | None) -> None:
    """Unwind once, so that Ray is shut down; the suite lets this exception through."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt
