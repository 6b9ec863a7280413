"""Policies that print, hang, end or crash the process, or leave the folder: what their user reads."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ray_sim.cli import main
from tests.command_line import WEEK, environment, process

HARMFUL = '''
import ctypes
import os
import sys
import threading
from pathlib import Path

from ray_sim.policies.fifo import Fifo

print("on import")


class Asked(Fifo):
    """FIFO that decides in Python."""

    def __init__(self, **params):
        super().__init__(**params)
        print("when made")

    def order(self, world):
        return None

    def decide(self, view):
        self.harm()
        return super().decide(view)


class Prints(Asked):
    def harm(self):
        print("when asked")
        os.write(1, b"raw" + os.linesep.encode())
        print("original", file=sys.__stdout__)
        os.system("echo child")
        ctypes.CDLL(None).puts(b"from C")
        os.umask(0o777)


class Exits(Asked):
    def harm(self):
        if os.fork() == 0:
            os._exit(7)  # of a process of its own
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
        os._exit(0)


class Leaves(Asked):
    def harm(self):
        Path("elsewhere").mkdir(exist_ok=True)
        os.chdir(Path("elsewhere").absolute())


class Crashes(Asked):
    def harm(self):
        ctypes.string_at(0)


class Talks(Asked):
    def harm(self):
        raise ValueError("x" * 100_000)


class Hangs(Asked):
    def harm(self):
        while True:
            pass


class Interrupts(Asked):
    def harm(self):
        raise KeyboardInterrupt


class InterruptsEarly(Asked):
    def __init__(self, **params):
        raise KeyboardInterrupt


class Stays(Asked):
    def __init__(self, **params):
        super().__init__(**params)
        threading.Thread(target=threading.Event().wait, name="watcher").start()

    def harm(self):
        pass


class ExitsEarly(Asked):
    def __init__(self, **params):
        os._exit(0)
'''


@pytest.fixture
def harmful(desk: Path, request: pytest.FixtureRequest) -> str:
    """Name of the module, of which each test has its own."""
    name = "harmful_" + re.sub(r"\W", "_", request.node.name)
    (desk / f"{name}.py").write_text(HARMFUL)
    return name


def test_json_is_all_of_standard_output(harmful: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *WEEK, "--policy", f"{harmful}:Prints", "-o", "out", "--json"]) == 0
    printed = capfd.readouterr()
    assert json.loads(printed.out)["directory"] == "out"
    words = {"on import", "when made", "when asked", "raw", "original", "child", "from C"}
    assert words <= set(printed.err.splitlines())


@pytest.mark.parametrize(
    ("policy", "code", "words"),
    [
        ("Exits", 1, "SystemExit: os._exit(0) would end the process without a result; raise an exception ("),
        ("ExitsEarly", 2, "cannot be constructed: SystemExit: os._exit(0) would end the process"),
        ("Talks", 1, "x... (98,012 more characters) ("),
        ("Interrupts", 1, "failed: KeyboardInterrupt ("),
        ("InterruptsEarly", 2, "cannot be constructed: KeyboardInterrupt\n"),
    ],
)
def test_a_policy_that_ends_the_process_or_says_too_much_is_an_error(
    harmful: str, policy: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *WEEK, "--policy", f"{harmful}:{policy}", "-o", "out"]) == code
    told = capsys.readouterr().err
    assert words in told
    assert len(told) < 3000
    assert not Path("out").exists()


@pytest.mark.slow
def test_a_policy_that_leaves_the_folder_does_not_take_its_result_along(
    harmful: str, desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", *WEEK, "--policy", f"{harmful}:Leaves", "-o", "out", "--snapshot-s", "0"]
    assert main(run) == 0
    assert (desk / "out" / "summary.json").is_file()
    assert Path.cwd() == desk
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    place = f"changed the working directory to {desk}/elsewhere"
    assert told[0].startswith(f"warning: policy '{harmful}:Leaves': {place}")
    assert told[0].endswith(f"; it is {desk} again")


@pytest.mark.slow
def test_a_run_that_hangs_is_stopped_after_its_time_and_names_the_line(
    harmful: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("interruption", "experiments.run"):
        monkeypatch.setattr(f"ray_sim.{module}.LAST_S", 1.0)
    run = ["run", *WEEK, "--policy", f"{harmful}:Hangs", "-o", "out", "--stop-after-s", "1"]
    assert main(run) == 1
    line = 1 + HARMFUL.splitlines().index("            pass")
    told = capsys.readouterr().err
    assert (
        f"error: stopped after 2 s, as --stop-after-s asks: at work in {Path.cwd()}/{harmful}.py, line"
        in told
    )
    assert told.rstrip().endswith((f"line {line}", f"line {line - 1}"))
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


@pytest.mark.slow
def test_a_thread_that_a_policy_leaves_ends_with_the_command(harmful: str) -> None:
    ended = process("run", *WEEK, "--policy", f"{harmful}:Stays", "-o", "out", "--json")
    assert json.loads(ended.stdout)["directory"] == "out"
    told = "warning: threads still ran when the command was done, and end with it: watcher"
    assert told in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_options_are_read_has_its_exit_code(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ray_sim.cli.app.application", lambda _: lambda **_: os.kill(os.getpid(), number))
    assert main(["formats"]) == 128 + number
    assert capsys.readouterr().err.splitlines()[-1] == f"{number.name}: stopped; again to end at once"


def test_a_signal_in_a_callback_of_the_compiler_comes_after_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[str] = []

    def callback() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("callback")

    callback.__code__ = callback.__code__.replace(co_filename="llvmlite/callback.py")

    def command(**_: object) -> None:
        callback()
        signal.pause()
        done.append("command")

    monkeypatch.setattr("ray_sim.cli.app.application", lambda _: command)
    assert main(["formats"]) == 143
    assert done == ["callback"]
    assert capsys.readouterr().err.splitlines()[-1] == "SIGTERM: stopped; again to end at once"


def test_ctrl_c_during_the_imports_shows_no_traceback() -> None:
    early = "import ray_sim.cli, os, signal, sys, importlib.abc\n"
    early += "class Interrupts(importlib.abc.MetaPathFinder):\n"
    early += "    def find_spec(self, name, path, target=None):\n"
    early += "        if name == 'ray_sim.cli.app': os.kill(os.getpid(), signal.SIGINT)\n"
    early += "sys.meta_path.insert(0, Interrupts())\nray_sim.cli.process()"
    ended = subprocess.run(
        [sys.executable, "-c", early], env=environment(), capture_output=True, text=True, check=False
    )
    assert ended.returncode == -signal.SIGINT
    assert ended.stderr == ""


@pytest.mark.slow
def test_a_policy_that_crashes_the_process_is_named_by_its_line(harmful: str, desk: Path) -> None:
    ended = process("run", *WEEK, "--policy", f"{harmful}:Crashes", "-o", "out", code=-signal.SIGSEGV)
    assert "error: this process ended without a result: its policy crashed or ended it" in ended.stderr
    assert "Segmentation fault" in ended.stderr
    assert f'  File "{desk}/{harmful}.py", line' in ended.stderr
