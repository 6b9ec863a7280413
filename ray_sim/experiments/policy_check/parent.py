"""Parent of the process that runs the contract suite."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from ray_sim.contract.outcome import CheckOutcome, Verdict
from ray_sim.experiments.policy_check.child import command
from ray_sim.experiments.policy_check.ending import PIPE_CLOSED_TEXT, crash_text, hang_text
from ray_sim.model.errors import InvalidInputError, RunFailedError

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
                yield self._outcome(name)
            except _BrokenOffError as reason:
                yield CheckOutcome(name, Verdict.FAILED, str(reason))
                for left in self.names[number + 1 :]:
                    yield CheckOutcome(left, Verdict.NOT_CHECKED, f"the suite was broken off in '{name}'")
                return

    def _outcome(self, name: str) -> CheckOutcome:
        with _well_formed():
            outcome = next(self._messages)["outcome"]
            if outcome["name"] != name:
                raise ValueError(outcome["name"])
            return CheckOutcome(name, Verdict(outcome["result"]), str(outcome["detail"]))


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
    with tempfile.TemporaryFile() as trace:
        reading, writing = os.pipe()
        try:
            process = _start(ref, params, actors, writing, trace)
        finally:
            os.close(writing)
        try:
            messages = _messages(process, reading, trace, announce, limit_s)
            yield PolicyCheck(_names(ref, messages), messages)
        except BaseException:
            _end(process, signal.SIGTERM if actors else signal.SIGKILL)
            raise
        else:
            _end(process)
        finally:
            os.close(reading)


def _start(
    ref: str, params: Sequence[str], actors: bool, results: int, trace: IO[bytes]
) -> subprocess.Popen[bytes]:
    arguments = command(
        {
            "path": [str(folder) for folder in sys.path],
            "parent": os.getpid(),
            "results": results,
            "trace": trace.fileno(),
            "ref": ref,
            "params": list(params),
            "actors": actors,
        }
    )
    return subprocess.Popen(arguments, stdout=2, pass_fds=(results, trace.fileno()))


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
    results: int,
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
            part = os.read(results, 2**16)
            *lines, begun = (begun + part).split(b"\n")
            for message in map(json.loads, lines):
                if "busy" not in message:
                    yield message
            silent_s, most_s, ended = 0.0, limit_s, not part
        else:
            if silent_s < _NOTE_S <= silent_s + _POLL_S:
                announce(
                    f"nothing new for {_NOTE_S:g} s: the check is stopped after {most_s:,g} s, by Ctrl-C now"
                )
            silent_s += _POLL_S
        if ended:
            exit_code = _end(process)
            raise _BrokenOffError(
                PIPE_CLOSED_TEXT if exit_code is None else crash_text(exit_code, _text(trace))
            )
        if silent_s > most_s:
            _end(process, signal.SIGABRT)  # faulthandler's: the child writes its Python stack
            raise _BrokenOffError(hang_text(most_s, _text(trace)))


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
