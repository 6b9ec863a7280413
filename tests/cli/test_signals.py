"""Commands that a signal stops: what they leave behind, and their exit codes."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.command_line import RAY_SIM, WEEK, environment
from tests.patience import until

WAITING = '''
import sys
from pathlib import Path

from ray_sim.policies.fifo import Fifo
from workloads.trace_format import TraceFormat


def wait(what):
    """Say that the command is at work, and wait for input that does not come."""
    Path(what).touch()
    sys.stdin.read()


def read(sources, options, folder, meter):
    (folder / "part").write_text("begun")
    wait("reads")


READS = TraceFormat("reads", "1", "", "", "", read)


class Imports(Fifo):
    """FIFO that waits before any run has started, while its parameters are looked up."""

    name = "imports"

    def __init__(self, **params):
        wait("plans")
'''

CONVERT = ["convert", "waiting:READS", "trace.csv", "-o", "out.parquet"]
RUN = ["run", *WEEK, "--policy", "waiting:Imports", "-o", "out"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "at_work", "number", "before"),
    [
        (CONVERT, "reads", signal.SIGINT, []),
        (CONVERT, "reads", signal.SIGHUP, []),
        (CONVERT, "reads", signal.SIGTERM, ["nohup"]),
        (RUN, "plans", signal.SIGTERM, []),
    ],
)
def test_a_signal_ends_a_command_that_leaves_no_temporary_file(
    desk: Path, arguments: list[str], at_work: str, number: signal.Signals, before: list[str]
) -> None:
    (desk / "waiting.py").write_text(WAITING)
    (desk / "trace.csv").write_text("a\n1\n")
    (desk / "tmp").mkdir()
    with subprocess.Popen(
        [*before, *RAY_SIM, *arguments],
        env=environment(TMPDIR=str(desk / "tmp")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(lambda: (desk / at_work).exists() or process.poll() is not None, "the command works or fails")
        if arguments is CONVERT:
            assert list((desk / "tmp").glob("*/part"))
        if before:
            process.send_signal(signal.SIGHUP)  # which nohup has the command ignore
        process.send_signal(number)
        _, errors = process.communicate()
    assert process.returncode == 128 + number, errors
    # On a busy machine a command has said already that it is at work.
    said = [line for line in errors.splitlines() if line and " so far)" not in line]
    assert said == [f"{number.name}: stopped; again to end at once"]
    assert list((desk / "tmp").iterdir()) == []
    assert not list(desk.glob(".*"))
