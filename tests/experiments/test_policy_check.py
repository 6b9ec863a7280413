"""Contract suite in a child process: policies that crash, end, block or drown the interpreter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.contract.outcome import CheckOutcome, Verdict
from ray_sim.contract.suite import CLAUSES, check_policy
from ray_sim.experiments.policy_check import crash_text, place, policy_check
from ray_sim.model.errors import InvalidInputError
from tests.command_line import RAY_SIM, environment
from tests.patience import until

BROKEN = '''
import ctypes, os, signal, sys, warnings
from pathlib import Path

import numpy as np
from ray_sim import Policy

class InOrder(Policy):
    """First come, first served."""

    def start(self, world, streams):
        self.world = world
        self.queue = world.service("consolidate")

    def decide(self, view):
        self.breaks(view)
        self.queue.push(view.arrived, np.zeros(len(view.arrived), dtype=np.int64))
        return self.queue.serve(view)

    def breaks(self, view):
        pass

class Crashes(InOrder):
    def breaks(self, view):
        ctypes.string_at(0)

class CrashesLater(InOrder):
    """Only in worlds with partitions, which the third check has."""

    def breaks(self, view):
        if len(np.unique(self.world.server_partition)) > 1:
            ctypes.string_at(0)

class Recurses(InOrder):
    def breaks(self, view):
        sys.setrecursionlimit(10**9)
        nested = []
        for _ in range(10**6):
            nested = [nested]
        repr(nested)

class Leaves(InOrder):
    def breaks(self, view):
        os._exit(3)

class LeavesAFork(InOrder):
    """Ends, but leaves a process that holds all descriptors open."""

    def breaks(self, view):
        pid = os.fork()
        if pid == 0:
            signal.pause()
        Path("fork").write_text(str(pid))
        os._exit(3)

class Exits(InOrder):
    def breaks(self, view):
        raise SystemExit(4)

class ClosesAll(InOrder):
    def breaks(self, view):
        os.closerange(3, 1000)

class WritesNonsense(InOrder):
    """Into every pipe that it finds."""

    def breaks(self, view):
        for fd in range(3, 1024):
            try:
                os.write(fd, b"[1, 2]\\n")
            except OSError:
                pass

class Overwrites(InOrder):
    """Writes into the arrays in which the engine keeps the run."""

    def breaks(self, view):
        for name in dir(view._ledger):
            array = getattr(view._ledger, name, None)
            if isinstance(array, np.ndarray) and array.dtype == np.int64 and array.flags.writeable:
                array[...] = 2**40

class Blocks(InOrder):
    def breaks(self, view):
        Path("pid").write_text(str(os.getpid()))
        while True:
            pass

class BlocksInC(InOrder):
    """Holds the lock of the interpreter, so that no Python code runs in the process."""

    def breaks(self, view):
        Path("pid").write_text(str(os.getpid()))
        ctypes.PyDLL(None).sleep(100000)

class Talks(InOrder):
    def breaks(self, view):
        print("talk " * 20_000)

class Warns(InOrder):
    def breaks(self, view):
        warnings.warn("mind the gap")
        raise ValueError("lost")
'''


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with broken policies."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "at_import.py").write_text("import ctypes\nctypes.string_at(0)\n")
    return tmp_path


def _checked(policy: str, limit_s: float = 600) -> dict[str, CheckOutcome]:
    with policy_check(policy, limit_s=limit_s) as check:
        outcomes = list(check.outcomes())
    assert [outcome.name for outcome in outcomes] == list(check.names) == list(CLAUSES)
    return {outcome.name: outcome for outcome in outcomes}


def _broken_off(outcomes: dict[str, CheckOutcome], name: str) -> str:
    """Detail of the check that was broken off, after which nothing else is checked."""
    before = list(CLAUSES)[: list(CLAUSES).index(name)]
    assert {outcomes[each].result for each in before} == {Verdict.PASSED}
    assert outcomes[name].failed
    for left in list(CLAUSES)[len(before) + 1 :]:
        assert outcomes[left].result is Verdict.NOT_CHECKED
        assert outcomes[left].detail == f"the suite was broken off in '{name}'"
    return outcomes[name].detail


def _line(text: str) -> int:
    """Number of the first line of the policies with this text."""
    return next(number for number, line in enumerate(BROKEN.split("\n"), 1) if text in line)


@pytest.mark.slow
def test_a_crash_is_a_failed_check_with_signal_and_line(desk: Path) -> None:
    detail = _broken_off(_checked("broken:Crashes"), "comes to an end")
    line = _line("ctypes.string_at(0)")
    assert f"crashed the interpreter (SIGSEGV) in breaks ({desk}/broken.py, line {line});" in detail
    later = _broken_off(_checked("broken:CrashesLater"), "leaves the world alone")
    assert f"(SIGSEGV) in breaks ({desk}/broken.py, line " in later


@pytest.mark.slow
@pytest.mark.long
def test_a_stack_that_overflows_in_machine_code_is_a_failed_check_with_its_line(desk: Path) -> None:
    recursion = _broken_off(_checked("broken:Recurses"), "comes to an end")
    assert f"(SIGSEGV) in breaks ({desk}/broken.py, line {_line('repr(nested)')})" in recursion


@pytest.mark.slow
@pytest.mark.long
def test_an_end_of_the_interpreter_is_a_failed_check(desk: Path) -> None:
    text = "the policy ended the interpreter with exit code 3, as os._exit does; raise an exception instead"
    assert _broken_off(_checked("broken:Leaves"), "comes to an end") == text
    assert _broken_off(_checked("broken:LeavesAFork"), "comes to an end") == text
    os.kill(int(Path("fork").read_text()), signal.SIGKILL)


@pytest.mark.slow
def test_an_exit_by_exception_is_an_error_that_stops_the_other_checks(desk: Path) -> None:
    outcomes = _checked("broken:Exits")
    assert outcomes["comes to an end"].result is Verdict.FAILED
    assert "SystemExit: 4" in outcomes["comes to an end"].detail
    assert {outcomes[name].result for name in ("feasible", "deterministic")} == {Verdict.NOT_CHECKED}


@pytest.mark.slow
@pytest.mark.long
def test_a_spoilt_pipe_of_results_is_a_failed_check(desk: Path) -> None:
    nonsense = _broken_off(_checked("broken:WritesNonsense"), "comes to an end")
    assert nonsense.startswith("the policy wrote to the pipe of the results")
    closed = _broken_off(_checked("broken:ClosesAll"), "comes to an end")
    assert closed.startswith("the policy closed the pipe of the results")


@pytest.mark.slow
def test_writes_through_private_names_are_named(desk: Path) -> None:
    detail = _checked("broken:Overwrites")["leaves the world alone"].detail
    assert detail.startswith("at 0 us decide changed ledger.")


@pytest.mark.slow
@pytest.mark.parametrize("policy", [pytest.param("Blocks", marks=pytest.mark.long), "BlocksInC"])
def test_a_decision_that_never_comes_is_reported_with_its_line(desk: Path, policy: str) -> None:
    # On a busy machine the policy may not have been asked after 5 s.
    for limit_s in (5, 60, 720):
        detail = _broken_off(_checked(f"broken:{policy}", limit_s=limit_s), "comes to an end")
        if " in breaks (" in detail:
            break
    assert detail.startswith(f"the check did not end within {limit_s} s in breaks (")
    assert f"{desk}/broken.py, line " in detail
    assert not _runs(int(Path("pid").read_text()))


@pytest.mark.slow
@pytest.mark.long
def test_what_a_policy_prints_is_no_part_of_the_results(
    desk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-policy", "broken:Talks", "--json"]) == 0
    printed = capfd.readouterr()
    assert {each["result"] for each in json.loads(printed.out)} <= {"passed", "not checked"}
    assert len(printed.err) > 10_000_000


@pytest.mark.slow
def test_a_warning_and_a_failure_that_repeat_are_printed_once(
    desk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-policy", "broken:Warns"]) == 1
    printed = capfd.readouterr()
    assert printed.err.count("mind the gap") == 1
    assert "warning: mind the gap\n" in printed.err
    rows = printed.out.splitlines()
    assert [row for row in rows if "ValueError: lost" in row and "comes to an end" in row] != []
    assert len([row for row in rows if row.endswith("the error of 'comes to an end' comes first")]) >= 4
    assert len([row for row in rows if "FAILED" in row]) == 1


@pytest.mark.slow
@pytest.mark.long
def test_the_child_finds_what_the_suite_finds_here(capfd: pytest.CaptureFixture[str]) -> None:
    here = check_policy("sjf", {"backfill": "true"})
    assert main(["check-policy", "sjf", "-p", "backfill=true", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == [outcome.to_dict() for outcome in here]
    assert main(["check-policy", "sjf", "-p", "backfill=true"]) == 0
    printed = capfd.readouterr()
    heading, *lines = printed.out.splitlines()
    assert heading.split() == ["check", "result", "detail"]
    assert [line.split(maxsplit=1) for line in lines] != []
    for line, outcome in zip(lines, here, strict=True):
        assert " ".join(line.split()) == f"{outcome.name} {outcome.result.value} {outcome.detail}"
    assert printed.err == ""


@pytest.mark.slow
@pytest.mark.long
def test_mistakes_on_the_way_to_the_policy_have_the_words_and_code_of_before(
    desk: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for arguments, text in (
        (["broken:Nobody"], "unknown policy of broken 'Nobody'"),
        (["nowhere:Nobody"], "cannot import nowhere"),
        (["fifo", "-p", "backfill"], "-p backfill: expected key=value"),
        (["fifo", "-p", "speed=1"], "unknown parameter"),
        (
            ["at_import:Any"],
            "policy 'at_import:Any' cannot be constructed: the policy crashed the interpreter (SIGSEGV)",
        ),
    ):
        assert main(["check-policy", *arguments]) == 2
        printed = capfd.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("error: ")
        assert text in printed.err


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@contextmanager
def _blocked(policy: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command in a process of its own, and the id of its child, which the policy blocks."""
    with subprocess.Popen(
        [*RAY_SIM, "check-policy", f"broken:{policy}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    ) as command:
        until(lambda: Path("pid").exists() and Path("pid").read_text(), "the policy blocks")
        pid = int(Path("pid").read_text())
        try:
            yield command, pid
        finally:
            command.kill()
            if _runs(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("policy", ["Blocks", "BlocksInC"])
def test_ctrl_c_shows_what_is_done_and_leaves_no_process(desk: Path, policy: str) -> None:
    with _blocked(policy) as (command, child):
        assert command.stdout is not None
        assert command.stdout.readline().split() == ["check", "result", "detail"]
        assert command.stdout.readline().startswith("declarations")  # before the check that blocks has ended
        os.killpg(command.pid, signal.SIGINT)  # as a terminal does
        out, err = command.communicate()
        # On a busy machine the command has said already that it is at work.
        said = [line for line in err.splitlines() if line and " so far)" not in line]
        assert (command.returncode, out, said) == (130, "", ["SIGINT: stopped; again to end at once"])
        assert not _runs(child)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_child_dies_with_its_parent(desk: Path, number: signal.Signals) -> None:
    with _blocked("BlocksInC") as (command, child):
        command.send_signal(number)
        assert command.wait() == (-number if number == signal.SIGKILL else 128 + number)
        until(lambda: not _runs(child), "the child dies too")


def test_the_place_of_a_crash_is_the_innermost_call_outside_libraries() -> None:
    library = os.__file__
    stack = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
        f'  File "{library}", line 519 in string_at\n'
        '  File "/home/me/mine.py", line 8 in best\n  File "/home/me/mine.py", line 20 in decide\n'
    )
    assert place(stack) == " in best (/home/me/mine.py, line 8)"
    assert place(f'  File "{library}", line 519 in string_at\n') == f" in string_at ({library}, line 519)"
    assert place("") == ""


def test_endings_have_the_names_of_their_signals() -> None:
    assert crash_text(-signal.SIGBUS, "").startswith(
        "the policy crashed the interpreter (SIGBUS); look there"
    )
    assert "killed (SIGKILL), as by a system without free memory" in crash_text(-signal.SIGKILL, "")
    assert "(signal 40)" in crash_text(-40, "")


@pytest.mark.slow
def test_a_policy_that_cannot_be_constructed_is_an_invalid_input(desk: Path) -> None:
    with pytest.raises(InvalidInputError, match="unknown policy 'fi_fo'"), policy_check("fi_fo"):
        pass
