"""Child process that runs the contract suite and sends its outcomes through a pipe."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from types import FrameType
from typing import Any, TypedDict

from ray_sim.experiments.policy_check.ending import PIPE_CLOSED
from ray_sim.model.errors import InvalidInputError, RaySimError
from ray_sim.model.text import shown
from ray_sim.user_code import told_warnings

Send = Callable[[dict[str, object]], None]
"""Sends one message to the parent."""

_PR_SET_PDEATHSIG = 1
"""`prctl` of Linux: the signal that the process gets when its parent dies."""


class CheckRequest(TypedDict):
    """Request of the parent, passed as JSON in the last argument of the child."""

    path: list[str]
    """Module path of the parent."""
    parent: int
    """Process id of the parent."""
    results: int
    """Descriptor of the pipe for messages."""
    trace: int
    """Descriptor of the file for the Python stack at a crash."""
    ref: str
    params: list[str]
    actors: bool


def main(request: CheckRequest) -> None:
    """Run the suite, then end the process without the exit handlers of the policy's modules."""
    _die_with(request["parent"])
    signal.signal(signal.SIGTERM, _stop)
    for descriptor in (request["results"], request["trace"]):
        os.set_inheritable(descriptor, False)  # processes that the policy starts do not hold the pipe open
    faulthandler.enable(request["trace"], all_threads=False)
    try:
        _run(request, partial(_send, request["results"]))
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGTERM)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _run(request: CheckRequest, send: Send) -> None:
    from ray_sim.contract.suite import clauses, outcomes
    from ray_sim.experiments.fanout.connection import cluster
    from ray_sim.experiments.scenario import key_values

    send({"busy": "constructing the policy"})
    _tell_of_compilations(send)
    actors = request["actors"]
    try:
        found = outcomes(request["ref"], key_values(request["params"], "-p"), actors=actors)
        with cluster("local") if actors else nullcontext(), told_warnings(_print_once()):
            send({"checks": list(clauses(actors=actors))})
            for outcome in found:
                send({"outcome": outcome.to_dict()})
    except RaySimError as error:
        send({"error": str(error), "invalid_input": isinstance(error, InvalidInputError)})


def _print_once() -> Callable[[str], None]:
    """Printer of the warnings of a policy, each as one line, however many runs of the suite repeat it."""
    printed: set[str] = set()

    def tell(text: str) -> None:
        if text not in printed:
            printed.add(text)
            sys.stderr.write(f"warning: {shown(text)}\n")

    return tell


def _send(results: int, message: dict[str, object]) -> None:
    content = json.dumps(message).encode() + b"\n"
    try:
        while content:
            content = content[os.write(results, content) :]
    except OSError:  # the policy closed the pipe, or the parent is gone
        os._exit(PIPE_CLOSED)


def _tell_of_compilations(send: Send) -> None:
    from numba.core import event

    class Compilations(event.Listener):  # type: ignore[misc]  # numba ships no types
        def on_start(self, event: Any) -> None:
            send({"busy": f"compiling {event.data['dispatcher'].py_func.__name__}"})

        on_end = on_start

    event.register("numba:compile", Compilations())


def _die_with(parent: int) -> None:
    """Have the system kill this process when its parent dies, also while machine code runs."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _stop(number: int, frame: FrameType | None) -> None:
    """Unwind once, so that Ray is shut down; the suite lets this exception through."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def command(request: CheckRequest) -> Sequence[str]:
    """Command that runs `main` in a new interpreter, with the module path of this one.

    Ctrl-C at a terminal reaches both processes. The child leaves it to the parent, which ends the child.
    """
    program = (
        "import json, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "request = json.loads(sys.argv.pop()); sys.path[:] = request['path']; "
        f"from {__name__} import main; main(request)"
    )
    return [sys.executable, "-P", "-c", program, json.dumps(request)]
